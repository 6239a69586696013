/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Numbers of processes and threads, as user space knows them: those of the pid namespace that
 * rprof-bpf runs in. In the first namespace they are the kernel's own, and cost nothing.
 */
#ifndef RPROF_IDS_BPF_H
#define RPROF_IDS_BPF_H

#include "maps.bpf.h"

extern const volatile struct rprof_config rprof_config;

/* Global functions as in native.bpf.h. Addresses are the kernel's, passed as numbers. */

/* The number of a struct pid in our namespace; 0: it has none there. */
u32 pid_number(u64 pid);
/* What gettid() tells the current task, in whatever namespace it is; 0: that is not known. */
u32 own_number(u64 task);
/* As bpf_get_current_pid_tgid(), of any task and in our namespace; 0: outside of it. */
u64 nested_ids(u64 task);

/* tgid << 32 | tid of the current task. */
static __always_inline u64 current_ids(void)
{
	if (rprof_config.flags & RPROF_CONFIG_NESTED)
		return nested_ids(bpf_get_current_task());
	return bpf_get_current_pid_tgid();
}

#endif
