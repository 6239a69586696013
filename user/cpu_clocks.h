/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPU-time clocks of processes, ended threads included: clock_getcpuclockid(3). Reading one costs
 * the process nothing, and is possible until its parent has asked for the exit status.
 */
#ifndef RPROF_CPU_CLOCKS_H
#define RPROF_CPU_CLOCKS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Who knows what a process had used when its clock is gone.
 * @ended: as session_ended_cpu(); NULL: nobody does
 */
struct cputime_source {
	void *ctx;
	int (*ended)(void *ctx, __u32 tgid, __u64 *ns);
};

struct cpu_clock;

struct cpu_clocks {
	struct cpu_clock *items;
	size_t n, cap;
};

/* CPU time that the process with this number has used, ended threads included, ns; -ESRCH. */
int cpu_clock_of(__u32 pid, __u64 *ns);

void cpu_clocks_fini(struct cpu_clocks *cs);

/*
 * cpu_clocks_add() - count what @pid uses from cpu_clocks_start() on.
 * @event: -1; or a task-clock event that begins to count at its first exec, and that is to be read
 *         until cpu_clocks_on_exec(): what was used before does not count. Owned from here on.
 *
 * Return: 0; -ESRCH: there is no such process; -errno.
 */
int cpu_clocks_add(struct cpu_clocks *cs, __u32 pid, int event);
void cpu_clocks_start(struct cpu_clocks *cs);

/* @pid has a new image: from its first one on its clock is read. */
void cpu_clocks_on_exec(struct cpu_clocks *cs, __u32 pid);

/*
 * cpu_clocks_read() - add to @ns what all have used so far; of one that is gone, and of which
 * nothing is told yet, what it had at the last look.
 * Return: 0 or -errno.
 */
int cpu_clocks_read(struct cpu_clocks *cs, const struct cputime_source *source, __u64 *ns);

/*
 * cpu_clocks_await() - add to @ns what those that are gone had used after the last look, as soon as
 * it is told, for a second at most. Of the others nothing is added.
 * Return: is it all, also of what was added before?
 */
bool cpu_clocks_await(struct cpu_clocks *cs, const struct cputime_source *source, __u64 *ns);

#endif
