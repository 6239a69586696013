// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is the proof worth? The parents are read later than the sample was taken, while the thread
 * runs on. That the boundary, the last frame which the kernel side read, says now what it said then
 * is necessary, and not enough: the thread may have returned, and be back in an equal frame, called
 * from elsewhere. But no frame above can change unless the thread accesses the page of the first
 * unread one: returning to it reads its words, and whatever takes its place writes them. That access
 * faults, since the page was not accessible when the sample was taken. So one of these is asked for:
 *
 * 1. The thread has had no page fault from the sample until after the reading: the kernel counts
 *    them, for each thread. Nothing above the boundary has changed in between. (Not excluded by this:
 *    another thread, or the kernel for one, has accessed that page meanwhile, which then does not fault
 *    any more, and the thread went there and is back in an equal frame; generators' frames share pages
 *    with other objects. And code objects are told apart last: that of a frame may be a new one.)
 * 2. Where reading an aged page does not make it accessible (ARCH_PAGES_AGE): the next sample, taken
 *    after the reading, stopped at the same frame: at both times, so in between, the page was not
 *    accessed. Samples of a thread that follow one another and stop at the same frame are one run,
 *    of one tail. What remains is a page that was accessed and has aged again between two of them:
 *    so they must be near to each other, and in a long run the tail is read again now and then, and
 *    must be the same.
 *
 * The first sample of a run that has 2. alone stays cut, and is counted.
 */
#include "complete.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "array.h"
#include "complete_parts.h"
#include "idmap.h"
#include "monotonic.h"
#include "proc.h"
#include "rprof/hash.h"

#define GAP_NS 250000000ULL	/* between samples of one run */
#define AGAIN_NS 500000000ULL	/* after which a tail is read again */
#define MAX_RUNS 4096u

#define READING_NS                                                                                 \
	100000000ULL /* for one reading; a process that does not answer may take longer */
#define PERIOD_NS 10000000000ULL
/*
 * For all of a process in such a time, and for all of them: half of ours. On a busy emulated machine,
 * where a reading takes 140 ms, less would not do for one process whose pages age once a second.
 */
#define PROCESS_NS 3000000000ULL
#define ALL_NS 5000000000ULL

/* Samples of one thread that stopped at the same frames. */
struct run {
	__u32 tid, tgid, space;
	bool proven;
	__u64 native_next, python_next; /* 0: that part was whole */
	__u64 last_ns;		/* time of the last sample */
	__u64 began_ns;		/* when the reading began, */
	__u64 read_ns;		/* and was over */
	__u32 faults_before;	/* of the thread, when it began, */
	__u32 faults;		/* and when it was over */
	struct complete_tail *tail;
	__u64 hash;		/* of the tail */
};

struct completer {
	struct completer_config config;
	struct run *runs;
	size_t n, cap;
	struct idmap by_tid;
	struct idmap spent;	/* tgid -> us in this period */
	__u64 period_ns, spent_ns;
	__u64 read_ns;		/* when the last reading was over, of whatever thread */
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
		[COMPLETE_NO_LINK] = "no link in memory", [COMPLETE_BUDGET] = "no time",
		[COMPLETE_GONE] = "not readable",	  [COMPLETE_CHANGED] = "changed meanwhile",
		[COMPLETE_UNPROVEN] = "not proven",
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
	idmap_init(&c->by_tid);
	idmap_init(&c->spent);
	return c;
}

void completer_free(struct completer *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++)
		free(c->runs[i].tail);
	free(c->runs);
	free(c->read);
	idmap_fini(&c->by_tid);
	idmap_fini(&c->spent);
	free(c);
}

static struct run *find(const struct completer *c, __u32 tid)
{
	__u32 i;

	return idmap_find(&c->by_tid, tid, 0, &i) ? &c->runs[i] : NULL;
}

static void drop(struct completer *c, struct run *run)
{
	const size_t i = (size_t)(run - c->runs);

	free(run->tail);
	idmap_remove(&c->by_tid, run->tid, 0);
	*run = c->runs[--c->n];
	if (i < c->n)
		idmap_put(&c->by_tid, run->tid, 0, (__u32)i);
}

/* A new, empty run of @tid; NULL: no memory. */
static struct run *add(struct completer *c, __u32 tid)
{
	struct run *grown;

	/* One that ended without a word. */
	if (c->n == MAX_RUNS) {
		size_t oldest = 0;

		for (size_t i = 1; i < c->n; i++) {
			if (c->runs[i].last_ns < c->runs[oldest].last_ns)
				oldest = i;
		}
		drop(c, &c->runs[oldest]);
	}
	grown = array_grow(c->runs, &c->cap, c->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	c->runs = grown;
	if (idmap_put(&c->by_tid, tid, 0, (__u32)c->n))
		return NULL;
	grown[c->n] = (struct run){ .tid = tid };
	return &grown[c->n++];
}

void completer_pass(struct completer *c, __u32 tid)
{
	struct run *run = c->n ? find(c, tid) : NULL;

	if (run)
		drop(c, run);
}

void completer_forget(struct completer *c, __u32 tgid)
{
	for (size_t i = c->n; i--;) {
		if (c->runs[i].tgid == tgid)
			drop(c, &c->runs[i]);
	}
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
	const __u64 ns = monotonic_ns() - since;
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
 * Where reading a page makes it accessible, to the thread as well (swapped out, not mapped yet), what
 * is read after it is not proven by the count of faults. So the first unread frames are read last, and
 * nothing after them.
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
	c->memory.closed = !ARCH_PAGES_AGE;
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
	complete_memory_begin(&c->memory, &memory, until);
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

static bool is_same_tail(const struct run *run, const struct complete_tail *t)
{
	const size_t size = complete_tail_size(t);

	return complete_tail_size(run->tail) == size && !memcmp(run->tail, t, size);
}

/* What was read is the tail of @run. Return: false: no memory. */
static bool keep_tail(struct completer *c, struct run *run)
{
	const struct complete_tail *t = c->read;
	const size_t size = complete_tail_size(t);

	if (!run->tail || !is_same_tail(run, t)) {
		struct complete_tail *copy = malloc(size);

		if (!copy)
			return false;
		memcpy(copy, t, size);
		free(run->tail);
		run->tail = copy;
		run->hash = hash_tail(c, t);
	}
	return true;
}

static bool goes_on(const struct run *run, const struct rprof_sample *s,
		    const struct rprof_stack *stack, const struct complete_edge *e)
{
	return run->tgid == stack->tgid && run->space == stack->space &&
	       run->native_next == e->native_next && run->python_next == e->python_next &&
	       s->time_ns >= run->last_ns && s->time_ns - run->last_ns <= GAP_NS;
}

/* The page cannot have been accessed between @s and the end of the reading. */
static bool has_not_faulted(const struct run *run, const struct rprof_sample *s)
{
	if (!s->faults || s->faults != run->faults)
		return false;
	/* Taken while it was read: what was read before is to be of the same time. */
	return s->time_ns <= run->began_ns ||
	       (s->time_ns <= run->read_ns && run->faults_before == run->faults);
}

static bool wants_reading(const struct run *run, const struct rprof_sample *s, __u64 now)
{
	if (!run->tail)
		return true;
	return ARCH_PAGES_AGE ? now - run->read_ns > AGAIN_NS : s->time_ns > run->read_ns;
}

/* The run that @s belongs to, a new one if it begins one. */
static struct run *run_of(struct completer *c, const struct rprof_sample *s,
			  const struct rprof_stack *stack, const struct complete_edge *e)
{
	struct run *run = find(c, s->tid);

	if (run && !goes_on(run, s, stack, e)) {
		drop(c, run);
		run = NULL;
	}
	if (!run) {
		run = add(c, s->tid);
		if (!run)
			return NULL;
		run->tgid = stack->tgid;
		run->space = stack->space;
		run->native_next = e->native_next;
		run->python_next = e->python_next;
	} else if (ARCH_PAGES_AGE && run->tail && s->time_ns > run->read_ns) {
		run->proven = true;
	}
	run->last_ns = s->time_ns;
	return run;
}

/*
 * Read the tail of @run, for the first time or again. Return: 0, or 1 + enum complete_why: of a run
 * that is proven the old tail still counts for this sample, but for CHANGED by what was read.
 */
static int read_run(struct completer *c, struct run *run, const struct rprof_stack *stack,
		    const struct complete_edge *e, const struct space *space)
{
	const __u64 now = monotonic_ns();
	__u32 before, faults;
	int why;

	if (!deadline(c, run->tgid, now))
		return 1 + COMPLETE_BUDGET;
	before = c->config.faults(run->tgid, run->tid);
	why = read_tail(c, stack, e, space, now);
	if (why == 1 + COMPLETE_BUDGET && !c->memory.late)
		return why;
	faults = c->config.faults(run->tgid, run->tid);
	c->read_ns = monotonic_ns();
	spend(c, run->tgid, now);
	if (why)
		return why;
	run->began_ns = now;
	run->faults_before = before;
	run->faults = faults;
	if (run->proven && !is_same_tail(run, c->read)) {
		run->proven = false;
		return 1 + COMPLETE_CHANGED;
	}
	if (!keep_tail(c, run))
		return 1 + COMPLETE_GONE;
	run->read_ns = c->read_ns;
	return 0;
}

static const struct rprof_stack *fail(struct completer *c, struct run *run, int why)
{
	c->stats.failed[why - 1]++;
	if (run)
		drop(c, run);
	return NULL;
}

const struct rprof_stack *completer_complete(struct completer *c, const struct rprof_sample *s,
					     const struct rprof_stack *stack,
					     const struct space *space)
{
	struct complete_edge e;
	struct run *run;
	int why = 0;

	if (!complete_edge_of(stack, &e))
		return fail(c, NULL, 1 + COMPLETE_NO_LINK);
	run = run_of(c, s, stack, &e);
	if (!run)
		return fail(c, NULL, 1 + COMPLETE_GONE);
	if (wants_reading(run, s, monotonic_ns())) {
		/* A reading since may have made its pages accessible. */
		if (!ARCH_PAGES_AGE && s->time_ns <= c->read_ns)
			return fail(c, run, 1 + COMPLETE_UNPROVEN);
		why = read_run(c, run, stack, &e, space);
		/* Of a run that is proven this one was still, even if the thread has moved on since. */
		if (why && !(ARCH_PAGES_AGE && run->proven))
			return fail(c, run, why);
	}
	if (has_not_faulted(run, s))
		run->proven = true;
	else if (!ARCH_PAGES_AGE || !run->proven)
		return fail(c, NULL, 1 + COMPLETE_UNPROVEN);
	complete_record(stack, &e, run->tail,
			rprof_mix(rprof_mix(run->hash, stack->stack, c->config.hash_key), run->hash,
				  c->config.hash_key),
			&c->out.stack);
	c->stats.completed++;
	if (why && why != 1 + COMPLETE_BUDGET)
		drop(c, run);
	return &c->out.stack;
}

void completer_stats(const struct completer *c, struct completer_stats *out)
{
	*out = c->stats;
}
