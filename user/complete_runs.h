/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of one thread that stopped at the same frames, one after another: a run, whose stacks have
 * one tail. And those of them that are counted as cut, and wait for what comes after to prove more.
 */
#ifndef RPROF_COMPLETE_RUNS_H
#define RPROF_COMPLETE_RUNS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "complete.h"
#include "complete_parts.h"
#include "idmap.h"

/* One for each thread. */
struct complete_run {
	__u32 tid, tgid, space;
	__u32 last_faults;	/* of the last sample; 0: not known */
	__u64 last_ns;		/* its time */
	__u64 native_next, python_next; /* 0: that part was whole */
	__u64 anchor_ns;	/* when the first reading that read this tail was over, */
	__u64 began_ns;		/* when the last one began, */
	__u64 read_ns;		/* and was over */
	__u32 faults_before;	/* of the thread, when it began, */
	__u32 faults;		/* and when it was over; 0: not known, or not the same */
	bool seen;		/* a sample before it had had as many */
	bool brought;		/* it has made the page accessible */
	bool passed;		/* there was a sample after it */
	struct complete_tail *tail; /* NULL: not read yet */
	__u64 hash;		/* of it */
	struct completer_late *held; /* samples between the first and the last reading */
	size_t n_held, cap_held;
};

struct complete_runs {
	struct complete_run *runs;
	size_t n, cap;
	size_t n_held;		/* of all runs */
	struct idmap by_tid;
};

void complete_runs_init(struct complete_runs *r);
void complete_runs_fini(struct complete_runs *r);

/* The run of a thread, or NULL. Valid until another one is added or dropped. */
struct complete_run *complete_runs_find(const struct complete_runs *r, __u32 tid);
void complete_runs_drop(struct complete_runs *r, struct complete_run *run);
/* All of a process. */
void complete_runs_forget(struct complete_runs *r, __u32 tgid);

/*
 * complete_runs_take() - the run that @s belongs to, a new one if it begins one.
 * @stack, @e: its STACK, and what that lacks
 * Return: 0; -EAGAIN: of none: the walk did not come as far as the run's frames; -ENOMEM.
 */
int complete_runs_take(struct complete_runs *r, const struct rprof_sample *s,
		       const struct rprof_stack *stack, const struct complete_edge *e,
		       struct complete_run **out);

/* @s waits for proof. Return: false: too many do, or no memory. */
bool complete_run_hold(struct complete_runs *r, struct complete_run *run,
		       const struct rprof_sample *s);
/* None of them waits any more. */
void complete_run_let_go(struct complete_runs *r, struct complete_run *run);

#endif
