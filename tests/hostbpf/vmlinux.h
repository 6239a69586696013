/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shadows vmlinux/ARCH/vmlinux.h when bpf/ is compiled as host C: the few types it uses. Registers
 * are plain words, as bpf/arch/ reads them, so one header serves both architectures.
 */
#ifndef RPROF_HOSTBPF_VMLINUX_H
#define RPROF_HOSTBPF_VMLINUX_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

struct task_struct;

/* At least as long as either architecture's user_pt_regs. */
typedef struct {
	u64 words[21];
} bpf_user_pt_regs_t;

struct bpf_perf_event_data {
	bpf_user_pt_regs_t regs;
	u64 sample_period;
	u64 addr;
};

struct bpf_raw_tracepoint_args {
	u64 args[2];
};

/* include/uapi/linux/bpf.h */
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

#endif
