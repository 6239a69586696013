/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where a task_struct has what we need, on kernels that do not describe their types (no BTF): threads
 * of our own are looked at, whose thread pointer, numbers and kernel stack are known. Must never
 * guess: a place counts if it is the only one, and the same, in all of them.
 */
#ifndef RPROF_TASK_LAYOUT_H
#define RPROF_TASK_LAYOUT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/config.h"

/* The task_struct of a thread, and what is known of that thread. */
struct task_view {
	const unsigned char *bytes; /* from its start; behind its end other memory of the kernel */
	size_t size;
	__u64 tp;		/* thread pointer */
	__u64 sp;		/* an address on its kernel stack */
	__u32 tid, tgid;	/* in the first pid namespace; 0: not known */
	__u64 faults[2];	/* page faults, minor and major, when it was copied */
	bool faults_known;
};

/*
 * task_layout_of() - fill .task_tp, .task_stack, .task_pid, .task_tgid and .task_faults of @c from @n
 * threads of one process, of different thread pointers; .thread_size is that of the kernel's stacks. What is in
 * no place, or may be in several, is set to 0.
 */
void task_layout_of(const struct task_view *views, size_t n, struct rprof_config *c);

/*
 * task_layout_find() - the same from this thread and another one, made for it; takes some
 * milliseconds. Numbers are left out in another pid namespace than the first.
 * Return: 0, or -errno if BPF programs cannot be run; @c is not changed then.
 */
int task_layout_find(struct rprof_config *c);

#endif
