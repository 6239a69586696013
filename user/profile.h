/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts per distinct line of output. A stack arrives once, is resolved once, and from then on a
 * sample is one lookup and one increment. Stacks that read the same (other pcs of the same
 * functions) are one line.
 */
#ifndef RPROF_PROFILE_H
#define RPROF_PROFILE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "resolve.h"
#include "rprof/record.h"

struct profile;

struct profile_line {
	char comm[RPROF_COMM_LEN + 1];
	__u32 tgid;			/* 0: not part of the line */
	__u32 tid;			/* 0: not part of the line */
	const struct resolved_stack *stack; /* leaf first */
	__u64 count;
};

/*
 * @by_process: lines of different processes are kept apart; @by_thread: those of threads too
 */
struct profile *profile_new(bool by_process, bool by_thread);
void profile_free(struct profile *p);

/* What a stack id stands for, and where. */
struct profile_stack {
	__u32 tgid;
	__u32 space;			/* number of its address space; 0: any */
	bool may_change;		/* it may come to read another way (jits.c), */
	__u64 changes;			/* and the owner's jits_changes() when it was named */
	char comm[RPROF_COMM_LEN];
	__u64 id;
	__u32 text;			/* the profile's own: */
	__u32 waiting;
	__u32 next;			/* of the same process */
};

/* The stack @id, or NULL. Valid until the next call that adds one. */
const struct profile_stack *profile_find(const struct profile *p, __u64 id);

/*
 * profile_add_stack() - remember that there is a stack @id; what it reads comes with
 * profile_set_stack(), at once or later. Its samples are counted meanwhile.
 * Return: 0 or -ENOMEM.
 */
int profile_add_stack(struct profile *p, __u64 id, const char comm[RPROF_COMM_LEN], __u32 tgid,
		      __u32 space);
/*
 * profile_set_stack() - what it reads; if that is told again, from then on.
 * @stack: taken over, also on failure
 * Return: 0 or -ENOMEM.
 */
int profile_set_stack(struct profile *p, __u64 id, struct resolved_stack *stack);
void profile_set_may_change(struct profile *p, __u64 id, __u64 changes);
/* Was it told? */
bool profile_has_text(const struct profile_stack *s);

/*
 * profile_forget_process() - no sample of @tgid will come any more: its ids are forgotten, what was
 * counted stays.
 * @forgotten: called for each id
 */
void profile_forget_process(struct profile *p, __u32 tgid, void (*forgotten)(void *ctx, __u64 id),
			    void *ctx);

/* Count @value for stack @id. Return: 0, -ENOENT: unknown stack, -ENOMEM. */
int profile_add_sample(struct profile *p, __u64 id, __u32 tid, __u64 value);
/*
 * The same for a sample that has the id of a stack but means something else.
 * @stack: what to count it as; taken over, also on failure
 */
int profile_add_other(struct profile *p, const struct profile_stack *of, __u32 tid, __u64 value,
		      struct resolved_stack *stack);

/*
 * profile_move_samples() - what was counted for stack @from, @value in all, counts for @to instead.
 * Not to be asked for a stack whose text was told again since.
 * Return: 0, -ENOENT: unknown stack, or it has not that much; -ENOMEM. Then nothing has changed.
 */
int profile_move_samples(struct profile *p, __u64 from, __u64 to, __u32 tid, __u64 value);

size_t profile_n_stacks(const struct profile *p);
/* Samples of stacks that profile_set_stack() has not told yet: in no line. */
__u64 profile_n_waiting(const struct profile *p);
__u64 profile_n_samples(const struct profile *p);

/*
 * Lines with samples, the most counted first, ties in order of arrival. The array is malloc'd, the
 * lines are the profile's. Return: number of lines, or -ENOMEM.
 */
long profile_lines(const struct profile *p, const struct profile_line ***lines);

#endif
