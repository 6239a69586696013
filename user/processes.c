// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "record.h"
#include "session.h"
#include "spaces.h"

/*
 * A process controls how often its stacks look as if it had mapped something, and how long its list
 * of mappings is. So readings that it causes may take 1 / REREAD_SHARE of the time, after a start.
 */
#define REREAD_START_NS 20000000ULL
#define REREAD_SHARE 50

#define MAX_TRIES 3 /* readings of mappings that an exec overtook */

struct process {
	__u32 tgid;
	bool followed;		/* has a table in the kernel */
	__u64 seen_ns;		/* when we met it first, */
	__u64 spent_ns;		/* how long we have read its mappings since, */
	__u64 read_ns;		/* and when that began last */
};

struct processes {
	struct session *session;
	struct spaces *spaces;
	struct process *items;
	size_t n, cap;
	struct idmap by_tgid;
	__u64 drain_ns;		/* the records at hand are older than this */
};

struct processes *processes_new(struct session *session, struct spaces *spaces)
{
	struct processes *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->session = session;
	p->spaces = spaces;
	idmap_init(&p->by_tgid);
	return p;
}

void processes_free(struct processes *p)
{
	if (!p)
		return;
	free(p->items);
	idmap_fini(&p->by_tgid);
	free(p);
}

static __u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* The entry of @tgid, added if new. Valid until the next call. */
static struct process *get_process(struct processes *p, __u32 tgid)
{
	struct process *items;
	__u32 index;

	if (idmap_find(&p->by_tgid, tgid, 0, &index))
		return &p->items[index];
	items = array_grow(p->items, &p->cap, p->n + 1, sizeof(*items));
	if (!items)
		return NULL;
	p->items = items;
	if (idmap_put(&p->by_tgid, tgid, 0, p->n))
		return NULL;
	p->items[p->n] = (struct process){ .tgid = tgid, .seen_ns = now_ns() };
	return &p->items[p->n++];
}

/* Read the mappings of a process and publish them, if no exec came between. */
static int read_and_publish(struct processes *p, struct process *proc)
{
	const struct space *space;
	__u32 before = 0, after = 0;
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		if (proc->followed && session_execs(p->session, proc->tgid, &before))
			return -ESRCH;
		err = spaces_read(p->spaces, proc->tgid, 0, &space);
		if (err)
			return err;
		if (!proc->followed)
			return 0;
		if (session_execs(p->session, proc->tgid, &after))
			return -ESRCH;
		if (before != after)
			continue;
		err = session_publish(p->session, space, after);
		if (err)
			log_debug("process %u: mappings not published: %s", proc->tgid,
				  strerror(-err));
		return err;
	}
	return -EAGAIN;
}

static int read_mappings(struct processes *p, struct process *proc)
{
	int err;

	proc->read_ns = now_ns();
	err = read_and_publish(p, proc);
	proc->spent_ns += now_ns() - proc->read_ns;
	return err;
}

int processes_follow(struct processes *p, __u32 tgid, __u32 flags)
{
	struct process *proc = get_process(p, tgid);
	int err;

	if (!proc)
		return -ENOMEM;
	err = session_follow(p->session, tgid, flags);
	if (err && err != -EEXIST)
		return err;
	proc->followed = true;
	if (flags & RPROF_PROC_WAIT_EXEC)
		return 0;
	err = read_mappings(p, proc);
	/* A kernel thread has none, and a table that is full or late only leaves stacks unchecked. */
	return err == -ESRCH ? err : 0;
}

void processes_begin_drain(struct processes *p)
{
	p->drain_ns = now_ns();
}

/* Has this stack an address that neither the kernel side nor we find in a mapping? */
static bool mappings_are_behind(const struct processes *p, const struct rprof_stack *s)
{
	const struct rprof_native_frame *native = record_native(s);
	const struct rprof_mapping *m;
	const struct space *space;

	if (!s->n_native)
		return false;
	/* The stack's own mapping: the next table will have it, this sample is past. */
	if (native[0].flags & RPROF_NATIVE_UNBOUND)
		return true;
	space = spaces_find(p->spaces, s->tgid, s->space);
	for (size_t i = 0; i < s->n_native; i++) {
		if (!(native[i].flags & RPROF_NATIVE_UNCHECKED))
			continue;
		m = s->space && space ? space_mapping(space, native[i].pc) : NULL;
		if (!m || !(m->flags & RPROF_MAPPING_EXEC))
			return true;
	}
	return false;
}

static bool may_read(const struct processes *p, const struct process *proc)
{
	/* What was read after this record was made cannot be more than it needs. */
	if (proc->read_ns > p->drain_ns)
		return false;
	return proc->spent_ns < REREAD_START_NS + (now_ns() - proc->seen_ns) / REREAD_SHARE;
}

void processes_on_stack(struct processes *p, const struct rprof_stack *s)
{
	struct process *proc;
	int err;

	if (!mappings_are_behind(p, s))
		return;
	proc = get_process(p, s->tgid);
	if (!proc || !may_read(p, proc))
		return;
	if (!proc->followed) {
		err = session_follow(p->session, s->tgid, 0);
		proc->followed = !err || err == -EEXIST;
	}
	err = read_mappings(p, proc);
	if (err)
		log_debug("process %u: mappings: %s", s->tgid, strerror(-err));
}

const struct space *processes_space(const struct processes *p, const struct rprof_stack *s)
{
	return spaces_find(p->spaces, s->tgid, s->space);
}

void processes_on_space(struct processes *p, const struct rprof_space *s)
{
	struct process *proc = get_process(p, s->tgid);
	int err;

	if (!proc)
		return;
	err = read_mappings(p, proc);
	if (err)
		log_debug("process %u: mappings after exec: %s", s->tgid, strerror(-err));
}
