// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"
#include "jits.h"
#include "log.h"
#include "monotonic.h"
#include "python_codes.h"
#include "pythons.h"
#include "record.h"
#include "session.h"
#include "spaces.h"
#include "target.h"
#include "timeline.h"

/*
 * A process controls how often its stacks look as if it had mapped something, and how long its list
 * of mappings is. So readings that it causes may take 1 / REREAD_SHARE of the time, after a start.
 */
#define REREAD_START_NS 20000000ULL
#define REREAD_SHARE 50

#define MAX_TRIES 3 /* readings of mappings that an exec overtook */

#define TICK_READ_NS 20000000ULL /* at most so long a second for what no event told us */

/*
 * A sample takes its time when it begins and its place in the ring when it ends. What is younger
 * than this when a drain ends may still get an older record.
 */
#define SKEW_NS 1000000ULL

struct process {
	__u32 tgid;
	bool followed;		/* has a table in the kernel */
	bool wanted;		/* was to be followed, and not only met */
	bool ending;		/* its first thread has ended */
	bool over;		/* all have; its last records may still be in the ring */
	bool changed;		/* has mapped something since its table was published */
	__u32 table;		/* which one, if followed */
	__u32 execs;		/* of the image that its newest space is of, as the kernel counts */
	bool execs_known;	/* false between an exec and its SPACE record */
	__u64 published;	/* hash of the table the kernel side has; 0: none */
	__u64 seen_ns;		/* when we met it first, */
	__u64 spent_ns;		/* how long we have read its mappings since, */
	__u64 read_ns;		/* and when that began last */
};

struct processes {
	struct processes_config c;
	struct timeline *timeline;
	struct process *items;
	size_t n, cap;
	struct idmap by_tgid;
	__u32 *changed;		/* tgids whose tables are behind, or that are ending */
	size_t n_changed, cap_changed;
	__u64 drain_ns;		/* the records at hand are older than this */
	size_t next_look;	/* where the next tick goes on */
	size_t n_to_look;	/* how many processes it has to look at still */
	__u64 lost_seen;
	__u64 n_unchecked;	/* tables that could not be published */
};

static struct process *find(const struct processes *p, __u32 tgid)
{
	__u32 i;

	return idmap_find(&p->by_tgid, tgid, 0, &i) ? &p->items[i] : NULL;
}

/* The entry of @tgid, added if new. Valid until the next call. */
static struct process *get(struct processes *p, __u32 tgid)
{
	struct process *proc = find(p, tgid), *items;

	if (proc)
		return proc;
	items = array_grow(p->items, &p->cap, p->n + 1, sizeof(*items));
	if (!items)
		return NULL;
	p->items = items;
	if (idmap_put(&p->by_tgid, tgid, 0, (__u32)p->n))
		return NULL;
	p->items[p->n] = (struct process){ .tgid = tgid, .seen_ns = monotonic_ns() };
	return &p->items[p->n++];
}

/* Its number may be another process's soon: neither follow nor name that one by it. */
static void forget(struct processes *p, struct process *proc)
{
	__u32 tgid = proc->tgid;
	size_t i = (size_t)(proc - p->items);

	if (proc->followed)
		session_unfollow(p->c.session, tgid, proc->table);
	jits_forget(p->c.jits, tgid);
	pythons_forget(p->c.pythons, tgid);
	idmap_remove(&p->by_tgid, tgid, 0);
	p->items[i] = p->items[--p->n];
	if (i < p->n)
		idmap_put(&p->by_tgid, p->items[i].tgid, 0, (__u32)i);
	p->c.ended(p->c.ctx, tgid);
}

/* At the end of this drain it is looked at. */
static void note_change(struct processes *p, __u32 tgid)
{
	__u32 *grown = array_grow(p->changed, &p->cap_changed, p->n_changed + 1, sizeof(*grown));

	if (!grown)
		return;
	p->changed = grown;
	grown[p->n_changed++] = tgid;
}

static bool event_is_wanted(void *ctx, enum sideband_kind kind, __u32 tgid, __u32 ppid)
{
	const struct processes *p = ctx;

	if (p->c.all || find(p, tgid))
		return true;
	return kind == SIDEBAND_FORK && p->c.subprocesses && find(p, ppid);
}

static void on_fork(struct processes *p, __u32 tgid, __u32 ppid)
{
	struct process *old = find(p, tgid), *parent;

	/* The number was another's, whose end comes late. */
	if (old)
		forget(p, old);
	parent = find(p, ppid);
	if (!p->c.all && !(p->c.subprocesses && parent && parent->wanted)) {
		spaces_end(p->c.spaces, tgid);
		return;
	}
	pythons_fork(p->c.pythons, tgid, ppid);
	if (p->c.subprocesses && !session_follows_forks(p->c.session))
		processes_follow(p, tgid, RPROF_PROC_FOLLOW | RPROF_PROC_TREE);
	else
		get(p, tgid);
}

static void event_happened(void *ctx, enum sideband_kind kind, __u32 tgid, __u32 ppid)
{
	struct processes *p = ctx;
	struct process *proc;

	if (kind == SIDEBAND_FORK) {
		on_fork(p, tgid, ppid);
		return;
	}
	/* Under -a an exec is the first we hear of some. */
	proc = kind == SIDEBAND_EXEC ? get(p, tgid) : find(p, tgid);
	if (!proc)
		return;
	if (kind == SIDEBAND_EXEC) {
		proc->ending = proc->over = false;
		proc->execs_known = false;
		jits_forget(p->c.jits, tgid);
		pythons_forget(p->c.pythons, tgid);
		python_codes_forget(p->c.python_codes, tgid);
	} else if (kind == SIDEBAND_EXIT) {
		proc->ending = true;
		note_change(p, tgid);
	} else if (kind == SIDEBAND_MAP && proc->followed && !proc->changed) {
		proc->changed = true;
		note_change(p, tgid);
	}
}

int processes_new(const struct processes_config *config, struct processes **out)
{
	struct processes *p = calloc(1, sizeof(*p));
	const struct timeline_sink sink = { p, event_is_wanted, event_happened };
	int err;

	if (!p)
		return -ENOMEM;
	p->c = *config;
	idmap_init(&p->by_tgid);
	err = timeline_new(p->c.spaces, p->c.modules, &sink, &p->timeline);
	if (err) {
		processes_free(p);
		return err;
	}
	*out = p;
	return 0;
}

void processes_free(struct processes *p)
{
	if (!p)
		return;
	timeline_free(p->timeline);
	free(p->items);
	free(p->changed);
	idmap_fini(&p->by_tgid);
	free(p);
}

/* Of a table as it is published; 0 is kept for "none". */
static __u64 hash_space(const struct space *space, __u32 execs)
{
	const __u64 *word = (const __u64 *)space->mappings;
	__u64 h = ((__u64)space->number << 32 | execs) + 1;

	for (size_t i = 0; i < space->n_mappings * sizeof(*space->mappings) / sizeof(*word); i++) {
		h = (h ^ word[i]) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return h ? h : 1;
}

static int publish(struct processes *p, struct process *proc, const struct space *space)
{
	__u64 hash = hash_space(space, proc->execs);
	int err;

	proc->changed = false;
	if (hash == proc->published) {
		pythons_look(p->c.pythons, proc->tgid, proc->execs);
		return 0;
	}
	err = session_publish(p->c.session, space, proc->execs);
	proc->published = err ? 0 : hash;
	if (err) {
		p->n_unchecked++;
		log_debug("process %u: mappings not published: %s", proc->tgid, strerror(-err));
	}
	pythons_look(p->c.pythons, proc->tgid, proc->execs);
	return err;
}

/* Read the mappings of a process and publish them, if no exec came between. */
static int read_and_publish(struct processes *p, struct process *proc)
{
	const struct space *space;
	__u32 before = 0, after = 0;
	int err;

	for (int i = 0; i < MAX_TRIES; i++) {
		if (proc->followed && session_execs(p->c.session, proc->tgid, &before))
			return -ESRCH;
		err = spaces_read(p->c.spaces, proc->tgid, timeline_pending, p->timeline, &space);
		if (err)
			return err;
		if (proc->followed && session_execs(p->c.session, proc->tgid, &after))
			return -ESRCH;
		if (before != after)
			continue;
		proc->execs = after;
		proc->execs_known = true;
		return proc->followed ? publish(p, proc, space) : 0;
	}
	return -EAGAIN;
}

static int read_mappings(struct processes *p, struct process *proc)
{
	int err;

	proc->read_ns = monotonic_ns();
	err = read_and_publish(p, proc);
	proc->spent_ns += monotonic_ns() - proc->read_ns;
	if (err)
		log_debug("process %u: mappings: %s", proc->tgid, strerror(-err));
	return err;
}

static bool in_budget(const struct process *proc)
{
	return proc->spent_ns < REREAD_START_NS + (monotonic_ns() - proc->seen_ns) / REREAD_SHARE;
}

int processes_follow(struct processes *p, __u32 tgid, __u32 flags)
{
	struct process *proc = get(p, tgid);
	int err;

	if (!proc)
		return -ENOMEM;
	if (!proc->followed) {
		err = session_follow(p->c.session, tgid, flags, &proc->table);
		if (err)
			return err;
		proc->followed = true;
	}
	proc->wanted = true;
	if (flags & RPROF_PROC_WAIT_EXEC)
		return 0;
	err = read_mappings(p, proc);
	/* A kernel thread has none, and a table that is full or late only leaves stacks unchecked. */
	return err == -ESRCH ? err : 0;
}

void processes_begin_drain(struct processes *p)
{
	p->drain_ns = timeline_read(p->timeline);
}

void processes_advance(struct processes *p, __u64 time_ns)
{
	/* Made since the drain began. */
	if (time_ns > p->drain_ns)
		processes_begin_drain(p);
	timeline_advance(p->timeline, time_ns);
}

/* Has the kernel side forgotten it already, or has it ended as far as /proc knows? */
static bool is_over(const struct processes *p, const struct process *proc)
{
	__u32 execs;

	return (proc->followed && session_execs(p->c.session, proc->tgid, &execs) == -ENOENT) ||
	       target_has_ended(proc->tgid);
}

/* Its mappings by event are whole, but for stacks; those are the ones of the last reading. */
static void catch_up(struct processes *p, struct process *proc, bool complete)
{
	const struct space *space = spaces_newest(p->c.spaces, proc->tgid);

	if (proc->over && !complete) {
		note_change(p, proc->tgid);
	} else if (proc->over) {
		spaces_end(p->c.spaces, proc->tgid);
		forget(p, proc);
	} else if (proc->ending && is_over(p, proc)) {
		proc->over = true;
		note_change(p, proc->tgid);
	} else if (proc->changed && proc->followed && proc->execs_known && space) {
		publish(p, proc, space);
	}
}

void processes_end_drain(struct processes *p, bool complete)
{
	size_t n;

	if (complete && p->drain_ns > SKEW_NS)
		timeline_advance(p->timeline, p->drain_ns - SKEW_NS);
	n = p->n_changed;
	for (size_t i = 0; i < n; i++) {
		struct process *proc = find(p, p->changed[i]);

		if (proc)
			catch_up(p, proc, complete);
	}
	/* Those that were noted meanwhile are for the next drain. */
	if (n)
		memmove(p->changed, p->changed + n, (p->n_changed - n) * sizeof(*p->changed));
	p->n_changed -= n;
	pythons_again(p->c.pythons);
}

/* Has this stack an address that neither the kernel side nor we find in a mapping? */
static bool mappings_are_behind(const struct processes *p, const struct rprof_stack *s)
{
	const struct rprof_native_frame *native = record_native(s);
	const struct rprof_mapping *m;
	const struct space *space;

	if (!s->n_native)
		return false;
	space = processes_space(p, s);
	for (size_t i = 0; i < s->n_native; i++) {
		/* The stack's own mapping: the next table will have it, this sample is past. */
		if (native[i].flags & RPROF_NATIVE_UNBOUND)
			return true;
		if (!(native[i].flags & RPROF_NATIVE_UNCHECKED))
			continue;
		/* Without a table in the kernel: it needs one. */
		m = s->space && space ? space_mapping(space, native[i].pc) : NULL;
		if (!m || !(m->flags & RPROF_MAPPING_EXEC))
			return true;
	}
	return false;
}

void processes_on_stack(struct processes *p, const struct rprof_stack *s)
{
	struct process *proc;

	if (s->stop_python == RPROF_STOP_STATE_LOST)
		pythons_lost(p->c.pythons, s->tgid);
	if (!s->tgid || !mappings_are_behind(p, s))
		return;
	proc = get(p, s->tgid);
	/* What was read after this record was made cannot be more than it needs. */
	if (!proc || proc->read_ns > p->drain_ns || !in_budget(proc))
		return;
	if (!proc->followed) {
		proc->followed = !session_follow(p->c.session, s->tgid, 0, &proc->table);
		p->n_unchecked += !proc->followed;
	}
	read_mappings(p, proc);
	/* Met too late, and gone: nobody will tell its end. */
	if (target_has_ended(s->tgid)) {
		proc->ending = true;
		note_change(p, s->tgid);
	}
}

__u32 processes_space_number(const struct processes *p, __u32 tgid, __u64 time_ns)
{
	const struct space *space = spaces_at(p->c.spaces, tgid, time_ns);

	return space ? space->number : 0;
}

const struct space *processes_space(const struct processes *p, const struct rprof_stack *s)
{
	return spaces_at(p->c.spaces, s->tgid, s->time_ns);
}

/* The kernel side follows a child of a followed process. */
static void on_child(struct processes *p, const struct rprof_space *s)
{
	struct process *proc = get(p, s->tgid);

	if (!proc || proc->followed)
		return;
	proc->wanted = true;
	/* -ENOENT: it has ended already; its events say what it was. */
	if (session_give_table(p->c.session, s->tgid, &proc->table)) {
		proc->ending = true;
		note_change(p, s->tgid);
		return;
	}
	proc->followed = true;
	read_mappings(p, proc);
}

void processes_on_space(struct processes *p, const struct rprof_space *s)
{
	struct process *proc;

	processes_advance(p, s->time_ns);
	if (s->why == RPROF_SPACE_FORK) {
		on_child(p, s);
		return;
	}
	proc = find(p, s->tgid);
	if (!proc)
		return;
	if (s->why == RPROF_SPACE_EXIT) {
		proc->ending = true;
		note_change(p, s->tgid);
	} else if (in_budget(proc)) {
		read_mappings(p, proc);
	}
}

/*
 * Where events were lost, mappings may have changed and processes may have ended without our
 * knowledge: look at all of them, a few at a time.
 */
void processes_tick(struct processes *p)
{
	__u64 start = monotonic_ns();

	timeline_follow_cpus(p->timeline);
	if (timeline_lost(p->timeline) != p->lost_seen)
		p->n_to_look = p->n;
	p->lost_seen = timeline_lost(p->timeline);
	for (size_t i = 0; i < p->n && monotonic_ns() - start < TICK_READ_NS; i++) {
		struct process *proc = &p->items[p->next_look++ % p->n];

		if (!p->n_to_look && !proc->ending)
			continue;
		p->n_to_look -= p->n_to_look > 0;
		if (target_has_ended(proc->tgid)) {
			proc->ending = true;
			note_change(p, proc->tgid);
		} else if (proc->followed && proc->published && in_budget(proc) && !proc->ending) {
			read_mappings(p, proc);
		}
	}
}

bool processes_any_followed(const struct processes *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->items[i].wanted)
			return true;
	}
	return false;
}

void processes_stats(const struct processes *p, struct processes_stats *out)
{
	*out = (struct processes_stats){
		.unchecked = p->n_unchecked,
		.lost_events = timeline_lost(p->timeline),
		.known = spaces_n(p->c.spaces),
	};
}
