/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPU time of what we follow, by the kernel's own accounting: what samples are owed for. Of a
 * process its CPU clock, which costs it nothing. Where that is not enough (children, threads, or a
 * kernel that does not say what a process had used when it is gone) counting-only task-clock events:
 * they take no interrupt, but are switched with each thread, which made a process of 200 threads that
 * want one lock 5 % slower.
 */
#ifndef RPROF_CPUTIME_H
#define RPROF_CPUTIME_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "cpu_clocks.h"

struct cputime;

/* @source: copied; .ended NULL: clocks are not used. cpu_clocks.h */
struct cputime *cputime_new(const struct cputime_source *source);
void cputime_free(struct cputime *c);

/*
 * cputime_add_process() - count all threads of @pid, and those they create.
 * @on_exec: count from its next exec on (our own child)
 *
 * Threads that come while the events are opened are counted once: the list of threads is read again
 * until it is stable. Return: 0, or -errno.
 */
int cputime_add_process(struct cputime *c, __u32 pid, bool on_exec);
/*
 * cputime_add_trees() - count all threads of the processes @roots, of those below them
 * (target_descendants()), and what all these create, processes as well. As above; once, before others.
 */
int cputime_add_trees(struct cputime *c, const __u32 *roots, size_t n);
/* From here on processes that are added count with what they start: -s. */
void cputime_with_children(struct cputime *c);
int cputime_add_thread(struct cputime *c, __u32 tid);
int cputime_add_all(struct cputime *c);	/* the busy time of all CPUs, to 10 ms (/proc/stat) */

int cputime_start(struct cputime *c);

/*
 * cputime_on_exec() - @pid has a new image. The kernel takes the events of a process away that
 * executes a set-user-ID or unreadable program (perf_event_exec() in kernel/events/core.c), and does
 * not say so: cputime_tick(), called once a second, compares with the process's CPU clock, and
 * counts it anew from there. (Not for a child with an inherited event: its part is not known.)
 */
void cputime_on_exec(struct cputime *c, __u32 pid);
void cputime_tick(struct cputime *c);

/* CPU time since cputime_start(), ns. Return: 0 or -errno. */
int cputime_read(struct cputime *c, __u64 *ns);
/*
 * cputime_stop() - the same, once, at the end: of those that are there until now; for what those
 * had used that are gone it waits a second at most, and is UNSURE if it is not told.
 */
int cputime_stop(struct cputime *c, __u64 *ns);

/* How far to trust cputime_read(). */
enum cputime_trust {
	CPUTIME_EXACT,
	CPUTIME_COARSE,		/* -a: to 10 ms per CPU */
	/*
	 * Threads came and went too fast to be sure that each is counted once, the kernel (before
	 * 5.13) counts processes that the followed one starts as well, or it took an event away.
	 */
	CPUTIME_UNSURE,
};
enum cputime_trust cputime_trust(const struct cputime *c);

#endif
