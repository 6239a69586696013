/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this kernel has, found by asking it: offsets and helpers. Never by its version. */
#ifndef RPROF_KERNEL_H
#define RPROF_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

#include "rprof/config.h"

/*
 * kernel_offsets() - fill thread_size, and the offsets into kernel structs from the kernel's BTF; where
 * there is none, those that task_layout.h finds. 0: not known.
 */
void kernel_offsets(struct rprof_config *c);

/* Are the offsets of RPROF_CONFIG_NESTED known? */
bool kernel_knows_namespaces(void);

/* Frames of a kernel stack that bpf_get_stack() returns at most: kernel.perf_event_max_stack. */
__u32 kernel_max_stack(void);

/* Does a perf_event program with bpf_task_pt_regs(bpf_get_current_task_btf()) load here? */
bool kernel_has_task_regs(void);

#endif
