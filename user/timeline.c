// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "modules.h"
#include "monotonic.h"
#include "proc.h"
#include "spaces.h"

#define MAX_WAITING 1000000u /* events; 150 MB */
#define SECOND_NS 1000000000ULL

/* An event takes its time before it is in the ring. */
#define SKEW_NS 100000ULL

/*
 * A process can map files as fast as it likes: what its events may cost us in a second. What is more
 * counts as lost, and its mappings are read instead.
 */
#define EVENT_NS 50000000ULL

struct event {
	__u64 time_ns;
	__u64 order;		/* of reading: events of one CPU may have one time */
	enum sideband_kind kind;
	__u32 tgid, ppid;
	struct rprof_mapping map;	/* its module with a reference */
	__u64 offset;
};

struct timeline {
	struct sideband *sideband;
	struct spaces *spaces;
	struct modules *modules;
	struct timeline_sink sink;
	struct event *events;	/* by time, from .first on; unsorted ones behind .sorted */
	size_t first, sorted, n, cap;
	__u64 n_read, lost;
	__u32 dir_tgid;		/* whose /proc directory is open during a reading; 0: none */
	int dir;
	struct idmap children;	/* of wanted processes, whose FORK waits: tgid */
	struct idmap spent;	/* tgid -> ns that its events took in this second */
	__u64 second_ns;
	struct spaces_pending pending;
	struct spaces_range *ranges;
	size_t cap_ranges;
};

/* -1: the process is gone. */
static int dir_of(struct timeline *t, __u32 tgid)
{
	if (t->dir_tgid == tgid)
		return t->dir;
	if (t->dir >= 0)
		close(t->dir);
	t->dir = proc_open(tgid);
	t->dir_tgid = tgid;
	return t->dir;
}

static void describe(struct timeline *t, const struct sideband_event *e, struct event *event)
{
	const struct maps_entry *m = &e->map;
	__u64 vaddr;

	event->offset = m->pgoff;
	event->map = (struct rprof_mapping){
		.start = m->start,
		.end = m->end,
		.flags = RPROF_MAPPING_EXEC | (m->writable && !m->shared ? RPROF_MAPPING_STACK : 0),
		.module = modules_add(t->modules, dir_of(t, e->tgid), e->tgid, m),
	};
	if (!modules_vaddr(t->modules, event->map.module, m->pgoff, &vaddr))
		event->map.bias = m->start - vaddr;
}

/* What a child does may be read before its FORK has happened here. */
static bool is_wanted(struct timeline *t, const struct sideband_event *e)
{
	__u32 one;

	if (t->sink.wanted(t->sink.ctx, e->kind, e->tgid, e->ppid) ||
	    (e->kind == SIDEBAND_FORK && idmap_find(&t->children, e->ppid, 0, &one))) {
		if (e->kind == SIDEBAND_FORK)
			idmap_put(&t->children, e->tgid, 0, 1);
		return true;
	}
	return idmap_find(&t->children, e->tgid, 0, &one);
}

static __u32 spent(const struct timeline *t, __u32 tgid)
{
	__u32 ns = 0;

	idmap_find(&t->spent, tgid, 0, &ns);
	return ns;
}

static void spend(struct timeline *t, __u32 tgid, __u64 begin_ns)
{
	idmap_put(&t->spent, tgid, 0, spent(t, tgid) + (__u32)(monotonic_ns() - begin_ns));
}

static void on_event(void *ctx, const struct sideband_event *e)
{
	struct timeline *t = ctx;
	struct event *grown;

	if (e->kind == SIDEBAND_LOST) {
		t->lost += e->lost; /* of whom, nobody knows: there is nothing to happen */
		return;
	} else if (!e->tgid || e->tgid == ~0U) {
		return; /* outside of our pid namespace, or gone */
	} else if (!is_wanted(t, e)) {
		return;
	} else if (e->kind == SIDEBAND_MAP && spent(t, e->tgid) > EVENT_NS) {
		t->lost++;
		return;
	}
	grown = t->n - t->first < MAX_WAITING ?
			array_grow(t->events, &t->cap, t->n + 1, sizeof(*grown)) :
			NULL;
	if (!grown) {
		t->lost++;
		return;
	}
	t->events = grown;
	grown += t->n++;
	*grown = (struct event){ e->time_ns, t->n_read++, e->kind, e->tgid, e->ppid, { 0 }, 0 };
	if (e->kind == SIDEBAND_MAP) {
		__u64 begin = monotonic_ns();

		describe(t, e, grown);
		spend(t, e->tgid, begin);
	}
}

int timeline_new(struct spaces *spaces, struct modules *modules, const struct timeline_sink *sink,
		 struct timeline **out)
{
	struct timeline *t = calloc(1, sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->spaces = spaces;
	t->modules = modules;
	t->sink = *sink;
	t->dir = -1;
	err = sideband_open(on_event, t, &t->sideband);
	if (err) {
		free(t);
		return err;
	}
	*out = t;
	return 0;
}

void timeline_free(struct timeline *t)
{
	if (!t)
		return;
	sideband_free(t->sideband);
	for (size_t i = t->first; i < t->n; i++)
		modules_unref(t->modules, t->events[i].map.module);
	free(t->events);
	free(t->ranges);
	idmap_fini(&t->children);
	idmap_fini(&t->spent);
	free(t);
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

__u64 timeline_read(struct timeline *t)
{
	__u64 now = monotonic_ns(), until = now - SKEW_NS;

	if (now - t->second_ns >= SECOND_NS) {
		t->second_ns = now;
		idmap_fini(&t->spent);
	}
	sideband_read(t->sideband, until);
	if (t->dir >= 0)
		close(t->dir);
	t->dir = -1;
	t->dir_tgid = 0;
	if (t->sorted == t->n)
		return until;
	memmove(t->events, t->events + t->first, (t->n - t->first) * sizeof(*t->events));
	t->n -= t->first;
	t->first = 0;
	t->sorted = t->n;
	qsort(t->events, t->n, sizeof(*t->events), by_time);
	return until;
}

static void happen(struct timeline *t, const struct event *e)
{
	__u64 begin;
	int err = 0;

	switch (e->kind) {
	case SIDEBAND_MAP:
		begin = monotonic_ns();
		err = spaces_map(t->spaces, e->tgid, e->time_ns, &e->map, e->offset);
		spend(t, e->tgid, begin);
		break;
	case SIDEBAND_EXEC:
		err = spaces_exec(t->spaces, e->tgid, e->time_ns);
		break;
	case SIDEBAND_FORK:
		idmap_remove(&t->children, e->tgid, 0);
		err = spaces_fork(t->spaces, e->tgid, e->ppid, e->time_ns);
		break;
	default:
		break;
	}
	/* Its process has old mappings then, or none. */
	if (err)
		log_debug("process %u: event %d: %s", e->tgid, e->kind, strerror(-err));
	t->sink.happened(t->sink.ctx, e->kind, e->tgid, e->ppid);
}

void timeline_advance(struct timeline *t, __u64 time_ns)
{
	while (t->first < t->sorted && t->events[t->first].time_ns <= time_ns) {
		/* The array may move: what happens may read more. */
		struct event e = t->events[t->first++];

		happen(t, &e);
	}
}

void timeline_follow_cpus(struct timeline *t)
{
	sideband_follow_cpus(t->sideband);
}

static int add_range(struct timeline *t, const struct rprof_mapping *m)
{
	struct spaces_range *grown =
		array_grow(t->ranges, &t->cap_ranges, t->pending.n_ranges + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	t->ranges = grown;
	grown[t->pending.n_ranges++] = (struct spaces_range){ m->start, m->end };
	return 0;
}

const struct spaces_pending *timeline_pending(void *ctx, __u32 tgid)
{
	struct timeline *t = ctx;

	/* All that happened until now, the reading included. */
	usleep(SKEW_NS / 1000 + 1);
	timeline_read(t);
	t->pending = (struct spaces_pending){ 0 };
	for (size_t i = t->first; i < t->n; i++) {
		const struct event *e = &t->events[i];

		if (e->tgid != tgid || e->kind == SIDEBAND_EXIT || e->kind == SIDEBAND_LOST)
			continue;
		if (e->kind != SIDEBAND_MAP || add_range(t, &e->map)) {
			t->pending.image = true;
			break;
		}
	}
	t->pending.ranges = t->ranges;
	return &t->pending;
}

__u64 timeline_lost(const struct timeline *t)
{
	return t->lost;
}
