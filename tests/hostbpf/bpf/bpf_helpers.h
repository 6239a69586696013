/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shadows libbpf's header when bpf/ is compiled as host C: sections mean nothing, map definitions
 * keep their form (hostbpf.c reads sizes from it), helpers are functions of hostbpf.c.
 */
#ifndef RPROF_HOSTBPF_BPF_HELPERS_H
#define RPROF_HOSTBPF_BPF_HELPERS_H

#include <vmlinux.h>

#define SEC(name)
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name
#define __noinline __attribute__((noinline))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

void *bpf_map_lookup_elem(void *map, const void *key);
long bpf_map_delete_elem(void *map, const void *key);
long bpf_map_update_elem(void *map, const void *key, const void *value, u64 flags);
long bpf_probe_read_user(void *dst, u32 size, const void *from);
long bpf_probe_read_kernel(void *dst, u32 size, const void *from);
u64 bpf_ktime_get_ns(void);
u64 bpf_get_current_pid_tgid(void);
long bpf_get_current_comm(void *buf, u32 size);
u32 bpf_get_smp_processor_id(void);
u64 bpf_get_current_task(void);
struct task_struct *bpf_get_current_task_btf(void);
long bpf_task_pt_regs(struct task_struct *task);
long bpf_get_stack(void *ctx, void *buf, u32 size, u64 flags);
long bpf_ringbuf_output(void *ring, void *data, u64 size, u64 flags);
u64 bpf_ringbuf_query(void *ring, u64 flags);

#endif
