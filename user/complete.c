// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is the proof worth? The parents are read later than the sample was taken, while the thread
 * runs on. That the boundary, the last frame which the kernel side read, says now what it said then
 * is necessary, and not enough: the thread may have returned, and be back in an equal frame, called
 * from elsewhere. But no frame above can change unless the thread accesses the page of the first
 * unread one: returning to it reads its words, and whatever takes its place writes them. That access
 * faults, since the page was not accessible when the sample was taken. So one of these is asked for:
 *
 * 1. The thread has had no page fault from the sample until after the reading, or, where reading an
 *    aged page does not make it accessible (ARCH_PAGES_AGE), from a sample before the reading until
 *    this one after it: the kernel counts them, for each thread. Nothing above the boundary has
 *    changed in between. (Not excluded by this: another thread, or the kernel for one, has accessed
 *    that page meanwhile, which then does not fault any more, and the thread went there and is back
 *    in an equal frame; generators' frames share pages with other objects. So in a long run the tail
 *    is read again now and then. And code objects are told apart last: that of a frame may be a new
 *    one.)
 * 2. ARCH_PAGES_AGE: it lies between two readings of the same tail, and from before the first one
 *    until after the second one all samples of the thread stopped at the same frame, near to each
 *    other: a run. At each of them the page was not accessible, so it was not accessed in between,
 *    unless it has aged again before the next one; and that once to a change of the tail and once
 *    back.
 *
 * What 2. is to prove is counted as cut, and told of when it is proven (completer_late()): where the
 * ring is drained late, a reading is seconds younger than the samples that it is for.
 */
#include "complete.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "complete_runs.h"
#include "monotonic.h"
#include "proc.h"
#include "rprof/hash.h"

#define AGAIN_NS 500000000ULL	/* after which a tail is read again, */
#define SOON_NS 100000000ULL	/* or if the thread had page faults since; */
#define PAUSE 4			/* but no sooner than so many times what the last reading took */

#define READING_NS                                                                                 \
	100000000ULL /* for one reading; a process that does not answer may take longer */
#define PERIOD_NS 10000000000ULL
/*
 * For all of a process in such a time, and for all of them: half of ours. On a busy emulated machine,
 * where a reading takes 140 ms, less would not do for one process whose pages age once a second.
 */
#define PROCESS_NS 3000000000ULL
#define ALL_NS 5000000000ULL

struct completer {
	struct completer_config config;
	struct complete_runs runs;
	struct completer_late *late; /* proven by the last sample, and not told of yet, */
	size_t n_late;
	struct complete_tail *late_tail; /* whose tail this is */
	__u64 late_hash;
	struct idmap spent;	/* tgid -> us in this period */
	__u64 period_ns, spent_ns;
	__u64 read_ns;		/* when the last reading was over, of whatever thread */
	__u64 brought_ns;	/* and when one was over that may have made pages accessible */
	bool brought;		/* the one at hand has, of the first unread frames */
	struct completer_stats stats;
	struct complete_memory memory;
	struct complete_tail *read; /* room for the longest one, being read */
	union {
		struct rprof_stack stack;
		__u64 words[RPROF_MAX_STACK_LEN / sizeof(__u64) + 1];
	} out;
};

const char *complete_why_name(enum complete_why why)
{
	static const char *const names[COMPLETE_WHYS] = {
		[COMPLETE_NO_LINK] = "no link in memory",
		[COMPLETE_BUDGET] = "no time",
		[COMPLETE_GONE] = "not readable",
		[COMPLETE_CHANGED] = "changed meanwhile",
		[COMPLETE_UNPROVEN] = "not proven",
		[COMPLETE_CROWDED] = "too many wait for proof",
	};

	return names[why];
}

/* /proc/TGID/task/TID/stat, fields 10 and 12: proc(5). The second one is any bytes, in brackets. */
static __u32 proc_faults(__u32 tgid, __u32 tid)
{
	unsigned long minor, major;
	char path[64], text[512];
	const char *end;
	size_t n;
	FILE *f;

	proc_path(path, sizeof(path), "%u/task/%u/stat", tgid, tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')');
	if (!end ||
	    sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu", &minor, &major) != 2)
		return 0;
	return (__u32)(minor + major + 1);
}

struct completer *completer_new(const struct completer_config *config)
{
	struct completer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->read = malloc(COMPLETE_TAIL_MAX);
	if (!c->read) {
		free(c);
		return NULL;
	}
	c->config = *config;
	if (!c->config.reading_ns)
		c->config.reading_ns = READING_NS;
	if (!c->config.faults)
		c->config.faults = proc_faults;
	if (!c->config.absent)
		c->config.absent = complete_absent;
	if (!c->config.now)
		c->config.now = monotonic_ns;
	complete_runs_init(&c->runs);
	idmap_init(&c->spent);
	return c;
}

void completer_free(struct completer *c)
{
	if (!c)
		return;
	complete_runs_fini(&c->runs);
	free(c->late);
	free(c->late_tail);
	free(c->read);
	idmap_fini(&c->spent);
	free(c);
}

void completer_pass(struct completer *c, __u32 tid)
{
	struct complete_run *run = complete_runs_find(&c->runs, tid);

	if (run)
		complete_runs_drop(&c->runs, run);
}

void completer_forget(struct completer *c, __u32 tgid)
{
	complete_runs_forget(&c->runs, tgid);
}

bool completer_wants(const struct rprof_stack *s)
{
	struct complete_edge e;

	return s->tgid &&
	       (s->stop_native == RPROF_STOP_FAULT || s->stop_python == RPROF_STOP_FAULT) &&
	       complete_edge_of(s, &e);
}

/* Until when a reading of @tgid may last; 0: not at all. */
static __u64 deadline(struct completer *c, __u32 tgid, __u64 now)
{
	__u32 us = 0;

	if (now - c->period_ns >= PERIOD_NS) {
		c->period_ns = now;
		c->spent_ns = 0;
		idmap_fini(&c->spent);
		idmap_init(&c->spent);
	}
	idmap_find(&c->spent, tgid, 0, &us);
	if (c->spent_ns >= ALL_NS || us >= PROCESS_NS / 1000)
		return 0;
	return now + c->config.reading_ns;
}

static void spend(struct completer *c, __u32 tgid, __u64 since)
{
	const __u64 ns = c->config.now() - since;
	__u32 us = 0;

	c->stats.readings++;
	c->stats.ns += ns;
	c->spent_ns += ns;
	idmap_find(&c->spent, tgid, 0, &us);
	idmap_put(&c->spent, tgid, 0, us + (__u32)(ns / 1000) + 1);
}

/* The frames that link to what was read, once more and fresh: do they say what the record says? */
static bool links(const struct python_memory *m, const struct complete_edge *e,
		  const struct rprof_python *p)
{
	__u8 frame[128] = { 0 }; /* PY_FRAME_BYTES */
	__u64 link = 0, pc = 0;
	struct python_range ranges[3];
	size_t n = 0;

	if (e->native) {
		ranges[n++] = (struct python_range){ e->native_from, &link, sizeof(link) };
		ranges[n++] =
			(struct python_range){ e->native_from + ARCH_CHAIN_RA, &pc, sizeof(pc) };
	}
	if (e->python)
		ranges[n++] = (struct python_range){ e->python_from, frame, p->f_read };
	if (m->read(m->ctx, ranges, n) != n)
		return false;
	if (e->native && (link != e->native_next || (e->native_pc && pc != e->native_pc)))
		return false;
	return !e->python || complete_python_links(frame, e, p);
}

/*
 * Of 3.11 and 3.12 a frame may be the newest one and not linked to its caller yet (python.bpf.c,
 * may_be_unlinked()): what it says is not asked for here.
 */
static bool may_be_unlinked(const struct complete_edge *e, const struct rprof_python *p)
{
	return e->python && p->flags & RPROF_PYTHON_CFRAME && e->n_python == 1;
}

/*
 * Where reading a page makes it accessible, to the thread as well (swapped out, not mapped yet; or
 * !ARCH_PAGES_AGE, where those are all), what is read after it is not proven by the count of faults,
 * nor by a sample that comes later. So the first unread frames are read last, and nothing after them.
 */
static void read_pages(struct completer *c, const struct complete_edge *e,
		       const struct rprof_python *p)
{
	__u8 frame[128];

	if (e->native)
		complete_memory_beyond(&c->memory, e->native_next, ARCH_CHAIN_RA + 8, 1);
	if (e->python)
		complete_memory_beyond(&c->memory, e->python_next, p->f_read, -1);
	/* Entry frames lie between the native ones. */
	if (e->python && e->stack)
		complete_memory_beyond(&c->memory, e->stack - COMPLETE_PAGE, 1, 1);
	if (e->native)
		complete_memory_read(&c->memory, e->native_next, frame, ARCH_CHAIN_RA + 8, 1);
	if (e->python)
		complete_memory_read(&c->memory, e->python_next, frame, p->f_read, -1);
	c->brought = c->memory.brought;
	c->memory.closed = !ARCH_PAGES_AGE || c->brought;
	complete_memory_open(&c->memory);
}

/* Read what is above the edge, into c->read. Return: 0, or 1 + enum complete_why. */
static int read_tail(struct completer *c, const struct rprof_stack *stack,
		     const struct complete_edge *e, const struct space *space, __u64 now)
{
	const __u64 until = deadline(c, stack->tgid, now);
	struct complete_tail *t = c->read;
	const struct rprof_python *p;
	struct python_memory memory;

	c->memory.late = false;
	if (!until)
		return 1 + COMPLETE_BUDGET;
	p = c->config.offsets(c->config.ctx, stack->tgid, &memory);
	if (e->python && (!p || p->f_read > 128 || may_be_unlinked(e, p)))
		return 1 + COMPLETE_NO_LINK;
	complete_memory_begin(&c->memory, &memory, stack->tgid,
			      ARCH_PAGES_AGE ? c->config.absent : NULL, until);
	memset(t, 0, sizeof(*t));
	read_pages(c, e, p);
	if (e->native)
		complete_native(&c->memory, e, space, t);
	if (e->python)
		complete_python(&c->memory, e, p, c->config.hash_seed, c->config.hash_key, t);
	if (c->memory.late)
		return 1 + COMPLETE_BUDGET;
	if ((e->native && t->stop_native == RPROF_STOP_FAULT) ||
	    (e->python && t->stop_python == RPROF_STOP_FAULT))
		return 1 + COMPLETE_GONE;
	return links(&memory, e, p) ? 0 : 1 + COMPLETE_CHANGED;
}

static __u64 hash_tail(const struct completer *c, const struct complete_tail *t)
{
	const __u64 *words = (const __u64 *)t, key = c->config.hash_key;
	__u64 h = c->config.hash_seed;

	for (size_t i = 0; i < complete_tail_size(t) / sizeof(*words); i++)
		h = rprof_mix(h, words[i], key);
	return h;
}

/* What was read is the tail of @run. Return: false: no memory. */
static bool keep_tail(struct completer *c, struct complete_run *run)
{
	const struct complete_tail *t = c->read;
	const size_t size = complete_tail_size(t);
	struct complete_tail *copy;

	if (run->tail && complete_tail_size(run->tail) == size && !memcmp(run->tail, t, size))
		return true;
	copy = malloc(size);
	if (!copy)
		return false;
	memcpy(copy, t, size);
	free(run->tail);
	run->tail = copy;
	run->hash = hash_tail(c, t);
	/* What waits lies before a change. */
	run->anchor_ns = 0;
	complete_run_let_go(&c->runs, run);
	return true;
}

/* Has the thread not accessed the page of the first unread frame between @s and the reading? */
static bool has_not_faulted(const struct completer *c, struct complete_run *run,
			    const struct rprof_sample *s)
{
	if (!run->tail || !s->faults || s->faults != run->faults)
		return false;
	/* Not while it was read, either. */
	if (s->time_ns > run->began_ns && run->faults_before != run->faults)
		return false;
	if (s->time_ns > run->read_ns)
		return ARCH_PAGES_AGE && run->seen && c->brought_ns < run->began_ns;
	run->seen |= s->time_ns <= run->began_ns;
	return true;
}

static bool wants_reading(const struct complete_run *run, const struct rprof_sample *s)
{
	const bool faulted = !s->faults || s->faults != run->faults;
	const __u64 pause = faulted ? SOON_NS : AGAIN_NS, took = run->read_ns - run->began_ns;

	if (!run->tail)
		return true;
	/* The last one is still to be passed. */
	if (s->time_ns <= run->read_ns)
		return false;
	/* A machine that is slow at it is to have time for it all along. */
	return !ARCH_PAGES_AGE || run->brought ||
	       s->time_ns - run->read_ns > (pause > took * PAUSE ? pause : took * PAUSE);
}

/* Read the tail of @run, for the first time or again. Return: 0, or 1 + enum complete_why. */
static int read_run(struct completer *c, struct complete_run *run, const struct rprof_stack *stack,
		    const struct complete_edge *e, const struct space *space)
{
	const __u64 now = c->config.now();
	__u32 before, faults;
	int why;

	if (!deadline(c, run->tgid, now))
		return 1 + COMPLETE_BUDGET;
	before = c->config.faults(run->tgid, run->tid);
	why = read_tail(c, stack, e, space, now);
	if (why == 1 + COMPLETE_BUDGET && !c->memory.late)
		return why;
	faults = c->config.faults(run->tgid, run->tid);
	c->read_ns = c->config.now();
	if (!ARCH_PAGES_AGE || c->memory.brought)
		c->brought_ns = c->read_ns;
	spend(c, run->tgid, now);
	if (why)
		return why;
	if (!keep_tail(c, run))
		return 1 + COMPLETE_GONE;
	run->began_ns = now;
	run->read_ns = c->read_ns;
	run->faults_before = before;
	run->faults = faults;
	run->brought = c->brought;
	run->seen = run->passed = false;
	if (!run->anchor_ns)
		run->anchor_ns = run->read_ns;
	return 0;
}

static const struct rprof_stack *fail(struct completer *c, struct complete_run *run, int why)
{
	c->stats.failed[why - 1]++;
	if (run)
		complete_runs_drop(&c->runs, run);
	return NULL;
}

/* @s comes after the last reading of @run: all that waits lies between two of its readings. */
static void pass_reading(struct completer *c, struct complete_run *run)
{
	const size_t size = complete_tail_size(run->tail);
	struct complete_tail *tail;

	run->passed = true;
	if (!run->n_held)
		return;
	tail = malloc(size);
	if (!tail) {
		complete_run_let_go(&c->runs, run);
		return;
	}
	memcpy(tail, run->tail, size);
	free(c->late);
	free(c->late_tail);
	c->late_tail = tail;
	c->late_hash = run->hash;
	c->late = run->held;
	c->n_late = run->n_held;
	complete_run_let_go(&c->runs, run);
	run->held = NULL;
	run->cap_held = 0;
}

bool completer_late(struct completer *c, struct completer_late *out)
{
	if (!c->n_late)
		return false;
	*out = c->late[--c->n_late];
	return true;
}

static const struct rprof_stack *make_whole(struct completer *c, const struct rprof_stack *stack,
					    const struct complete_edge *e,
					    struct complete_tail *tail, __u64 hash)
{
	const __u64 key = c->config.hash_key;

	complete_record(stack, e, tail, rprof_mix(rprof_mix(hash, stack->stack, key), hash, key),
			&c->out.stack);
	return &c->out.stack;
}

const struct rprof_stack *completer_late_stack(struct completer *c, const struct rprof_stack *stack)
{
	struct complete_edge e;

	if (!complete_edge_of(stack, &e))
		return NULL;
	return make_whole(c, stack, &e, c->late_tail, c->late_hash);
}

void completer_late_done(struct completer *c, const struct completer_late *late)
{
	c->stats.completed += late->n;
	c->stats.failed[COMPLETE_UNPROVEN] -= late->n;
}

/* Nothing proves @s now; perhaps later. */
static const struct rprof_stack *leave(struct completer *c, struct complete_run *run,
				       const struct rprof_sample *s)
{
	const bool may_wait = ARCH_PAGES_AGE && run->tail && s->time_ns > run->anchor_ns &&
			      !run->brought;

	if (may_wait && !complete_run_hold(&c->runs, run, s))
		return fail(c, NULL, 1 + COMPLETE_CROWDED);
	return fail(c, NULL, 1 + COMPLETE_UNPROVEN);
}

const struct rprof_stack *completer_complete(struct completer *c, const struct rprof_sample *s,
					     const struct rprof_stack *stack,
					     const struct space *space)
{
	struct complete_edge e;
	struct complete_run *run;
	int err, why;

	c->n_late = 0;
	if (!complete_edge_of(stack, &e))
		return fail(c, NULL, 1 + COMPLETE_NO_LINK);
	err = complete_runs_take(&c->runs, s, stack, &e, &run);
	if (err)
		return fail(c, NULL, 1 + (err == -EAGAIN ? COMPLETE_UNPROVEN : COMPLETE_GONE));
	if (run->tail && !run->passed && s->time_ns > run->read_ns)
		pass_reading(c, run);
	if (wants_reading(run, s)) {
		/* A reading since may have made its pages accessible. */
		if (s->time_ns <= c->brought_ns)
			return fail(c, run, 1 + COMPLETE_UNPROVEN);
		why = read_run(c, run, stack, &e, space);
		/* Without time for it, the one before may still do. */
		if (why && (why != 1 + COMPLETE_BUDGET || !run->tail || !ARCH_PAGES_AGE))
			return fail(c, run, why);
	}
	if (!has_not_faulted(c, run, s))
		return leave(c, run, s);
	c->stats.completed++;
	return make_whole(c, stack, &e, run->tail, run->hash);
}

void completer_stats(const struct completer *c, struct completer_stats *out)
{
	*out = c->stats;
}
