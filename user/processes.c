// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "processes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "monotonic.h"
#include "record.h"
#include "session.h"
#include "spaces.h"
#include "target.h"

/*
 * A process controls how often its stacks look as if it had mapped something, and how long its list
 * of mappings is. So readings that it causes may take 1 / REREAD_SHARE of the time, after a start.
 */
#define REREAD_START_NS 20000000ULL
#define REREAD_SHARE 50

#define MAX_TRIES 3 /* readings of mappings that an exec overtook */

#define TICK_READ_NS 20000000ULL /* at most so long a second do we look for replaced mappings */

struct process {
	__u32 tgid;
	bool followed;		/* has a table in the kernel */
	bool exiting;		/* its first thread has ended */
	__u32 table;		/* which one, if followed */
	bool known;		/* its newest space is of image read_execs */
	__u32 read_execs;	/* exec calls before its mappings were read, as the kernel side counts */
	__u32 ring_execs;	/* and before the records at hand */
	__u64 published;	/* hash of the table the kernel side has; 0: none */
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
	size_t next_look;	/* where the next tick goes on */
	__u64 n_unchecked;	/* tables that could not be published */
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
	p->items[p->n] = (struct process){ .tgid = tgid, .seen_ns = monotonic_ns() };
	return &p->items[p->n++];
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
	__u64 hash = hash_space(space, proc->read_execs);
	int err;

	if (hash == proc->published)
		return 0;
	err = session_publish(p->session, space, proc->read_execs);
	proc->published = err ? 0 : hash;
	if (err) {
		p->n_unchecked++;
		log_debug("process %u: mappings not published: %s", proc->tgid, strerror(-err));
	}
	return err;
}

/* Read the mappings of a process and publish them, if no exec came between. */
static int read_and_publish(struct processes *p, struct process *proc)
{
	const struct space *space;
	__u32 before = 0, after = 0;
	int err;

	proc->known = false;
	for (int i = 0; i < MAX_TRIES; i++) {
		if (proc->followed && session_execs(p->session, proc->tgid, &before))
			return -ESRCH;
		err = spaces_read(p->spaces, proc->tgid, 0, &space);
		if (err)
			return err;
		if (proc->followed && session_execs(p->session, proc->tgid, &after))
			return -ESRCH;
		if (before != after)
			continue;
		proc->known = true;
		proc->read_execs = after;
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
	return err;
}

static bool in_budget(const struct process *proc)
{
	return proc->spent_ns < REREAD_START_NS + (monotonic_ns() - proc->seen_ns) / REREAD_SHARE;
}

int processes_follow(struct processes *p, __u32 tgid, __u32 flags)
{
	struct process *proc = get_process(p, tgid);
	int err;

	if (!proc)
		return -ENOMEM;
	if (!proc->followed) {
		err = session_follow(p->session, tgid, flags, &proc->table);
		if (err)
			return err;
		proc->followed = true;
	}
	if (flags & RPROF_PROC_WAIT_EXEC)
		return 0;
	err = read_mappings(p, proc);
	/* A kernel thread has none, and a table that is full or late only leaves stacks unchecked. */
	return err == -ESRCH ? err : 0;
}

void processes_begin_drain(struct processes *p)
{
	p->drain_ns = monotonic_ns();
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

void processes_on_stack(struct processes *p, const struct rprof_stack *s)
{
	struct process *proc;
	int err;

	if (!mappings_are_behind(p, s))
		return;
	proc = get_process(p, s->tgid);
	/* What was read after this record was made cannot be more than it needs. */
	if (!proc || proc->read_ns > p->drain_ns || !in_budget(proc))
		return;
	if (!proc->followed) {
		proc->followed = !session_follow(p->session, s->tgid, 0, &proc->table);
		p->n_unchecked += !proc->followed;
	}
	err = read_mappings(p, proc);
	if (err)
		log_debug("process %u: mappings: %s", s->tgid, strerror(-err));
}

const struct space *processes_space(const struct processes *p, const struct rprof_stack *s)
{
	const struct process *proc;
	__u32 index;

	if (s->space)
		return spaces_find(p->spaces, s->tgid, s->space);
	/* Sampled without a table: of the image that was there when this record was made. */
	if (!idmap_find(&p->by_tgid, s->tgid, 0, &index))
		return NULL;
	proc = &p->items[index];
	if (!proc->known || proc->read_execs != proc->ring_execs)
		return NULL;
	return spaces_find(p->spaces, s->tgid, 0);
}

/* Its number may be another process's soon: neither follow nor name that one by it. */
static void forget(struct processes *p, struct process *proc)
{
	if (proc->followed)
		session_unfollow(p->session, proc->tgid, proc->table);
	*proc = (struct process){ .tgid = proc->tgid, .seen_ns = monotonic_ns() };
}

/* Has the kernel side forgotten it already, or has it ended as far as /proc knows? */
static bool is_over(const struct processes *p, const struct process *proc)
{
	__u32 execs;

	return (proc->followed && session_execs(p->session, proc->tgid, &execs) == -ENOENT) ||
	       target_has_ended(proc->tgid);
}

void processes_on_space(struct processes *p, const struct rprof_space *s)
{
	struct process *proc = get_process(p, s->tgid);
	int err;

	if (!proc)
		return;
	if (s->why == RPROF_SPACE_EXIT) {
		proc->exiting = true;
		if (is_over(p, proc))
			forget(p, proc);
		return;
	}
	proc->ring_execs = s->space;
	if (!in_budget(proc))
		return;
	err = read_mappings(p, proc);
	if (err)
		log_debug("process %u: mappings after exec: %s", s->tgid, strerror(-err));
}

/*
 * What was mapped in place of something else is seen here alone: its addresses are in known
 * mappings. Names may be the old ones for as long as it takes to come round again.
 */
void processes_tick(struct processes *p)
{
	__u64 start = monotonic_ns();

	for (size_t i = 0; i < p->n && monotonic_ns() - start < TICK_READ_NS; i++) {
		struct process *proc = &p->items[p->next_look++ % p->n];

		if (proc->exiting && is_over(p, proc))
			forget(p, proc);
		else if (proc->followed && proc->published && in_budget(proc))
			read_mappings(p, proc);
	}
}

__u64 processes_unchecked(const struct processes *p)
{
	return p->n_unchecked;
}
