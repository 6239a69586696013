/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks whose parents the kernel side could not read without a page fault: they are read from the
 * process, and count only if it is proven that they are the parents of this very sample (DESIGN 4).
 * Nothing is stopped or written to. Bounded in time per drain and per process.
 */
#ifndef RPROF_COMPLETE_H
#define RPROF_COMPLETE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "python_memory.h"
#include "rprof/stop.h"
#include "rprof/record.h"

struct completer;
struct rprof_python;
struct space;

struct completer_config {
	__u64 hash_seed, hash_key;	/* of the kernel side: hash.h */
	void *ctx;
	/* How to read the memory of @tgid, and its interpreter; NULL: it has none that is known. */
	const struct rprof_python *(*offsets)(void *ctx, __u32 tgid, struct python_memory *memory);
	/* For tests: page faults of a thread so far, + 1; 0: not known. NULL: as /proc has it */
	__u32 (*faults)(__u32 tgid, __u32 tid);
	__u64 reading_ns;		/* at most for one reading; 0: 100 ms */
	/* For tests; NULL: monotonic_ns(), and complete_absent() */
	__u64 (*now)(void);
	__u64 (*absent)(__u32 tgid, __u64 page, size_t n);
};

struct completer *completer_new(const struct completer_config *config); /* NULL: no memory */
void completer_free(struct completer *c);

/* Did a walk of this STACK stop where it might go on? */
bool completer_wants(const struct rprof_stack *s);

/*
 * completer_complete() - the whole stack of one sample.
 * @s: the SAMPLE
 * @stack: its STACK, which completer_wants()
 * @space: the mappings of its process then; NULL: not known
 *
 * To be called at once, and for all samples of a thread in order: of those whose stacks are whole it
 * is told by completer_pass(). Then completer_late() is to be asked.
 * Return: a STACK record of its own id, valid until the next call; NULL: it stays as it is, counted.
 */
const struct rprof_stack *completer_complete(struct completer *c, const struct rprof_sample *s,
					     const struct rprof_stack *stack,
					     const struct space *space);
void completer_pass(struct completer *c, __u32 tid);

/*
 * completer_late() - samples that were left as they are, and are proven by the one of the last call.
 * To be asked for until there are no more. What is let go meanwhile is never told of.
 */
struct completer_late {
	__u64 stack;			/* their STACK, */
	__u64 value;			/* the sum of their values, */
	__u32 tid;
	__u32 n;			/* and how many they are */
};
bool completer_late(struct completer *c, struct completer_late *out);
/* The whole stack of these, as from completer_complete(); NULL: @stack lacks nothing. */
const struct rprof_stack *completer_late_stack(struct completer *c,
					       const struct rprof_stack *stack);
/* They count for it now. */
void completer_late_done(struct completer *c, const struct completer_late *late);

/* The process has ended, or has another image. */
void completer_forget(struct completer *c, __u32 tgid);

/* Why a stack was not completed. */
enum complete_why {
	COMPLETE_NO_LINK,	/* what links to the first frame is in no memory */
	COMPLETE_BUDGET,	/* no time for it */
	COMPLETE_GONE,		/* not to be read, or not to its end */
	COMPLETE_CHANGED,	/* the frame that links to it is another by now */
	COMPLETE_UNPROVEN,	/* the thread may have been there since */
	COMPLETE_CROWDED,	/* it might have been proven later, but too many wait for that */
	COMPLETE_WHYS
};
const char *complete_why_name(enum complete_why why);

struct completer_stats {
	__u64 completed;	/* samples */
	__u64 failed[COMPLETE_WHYS];
	__u64 readings;
	__u64 ns;		/* that they took */
};
void completer_stats(const struct completer *c, struct completer_stats *out);

#endif
