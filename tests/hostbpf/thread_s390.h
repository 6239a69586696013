/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* s390x frames and registers for thread.h. Word numbers are user_pt_regs's, stated again. */
#ifndef RPROF_HOSTBPF_THREAD_S390_H
#define RPROF_HOSTBPF_THREAD_S390_H

#include "thread.h"

enum {
	W_PSW_MASK = 1,
	W_PSW_ADDR = 2,
	W_R0 = 3,
	W_R14 = 17,
	W_R15 = 18,
	W_USER_REGS = 19,
	W_REGS = 25
};

#define PSW_USER 0x0705000180000000ULL /* problem state, 64-bit addressing */
#define PSW_USER31 0x0705000080000000ULL
#define PSW_KERNEL 0x0704c00180000000ULL
#define FRAME 160u /* the smallest: register save area */

/* @n frames from @sp up, @step apart: back chain at [sp], RA(i) in the caller's slot for r14. */
static inline void put_chain(u64 sp, u32 n, u64 step)
{
	for (u32 i = 0; i < n; i++) {
		host_poke(sp + i * step, sp + (i + 1) * step);
		host_poke(sp + (i + 1) * step + 112, RA(i));
	}
	host_poke(sp + n * step, 0);
}

static inline struct bpf_perf_event_data user_regs(u64 ip, u64 sp)
{
	struct bpf_perf_event_data ctx = {};

	ctx.regs.words[W_PSW_MASK] = PSW_USER;
	ctx.regs.words[W_PSW_ADDR] = ip;
	ctx.regs.words[W_R14] = 8; /* used for something else: no return address */
	ctx.regs.words[W_R15] = sp;
	return ctx;
}

static inline struct bpf_perf_event_data kernel_regs(void)
{
	/* Addresses that would do for user space: the two overlap. */
	struct bpf_perf_event_data ctx = user_regs(PC, STACK + 4096);

	ctx.regs.words[W_PSW_MASK] = PSW_KERNEL;
	return ctx;
}

/* Save user registers at the top of the kernel stack: struct pt_regs has 25 words. */
static inline void save_regs(const struct bpf_perf_event_data *user)
{
	u64 at = KSTACK + KSTACK_SIZE - W_REGS * 8;

	for (u32 i = 0; i < W_USER_REGS; i++)
		host_kernel_poke(at + i * 8, user->regs.words[i]);
	host.task_regs = at;
}

static inline struct seen sample_at(u64 sp)
{
	struct bpf_perf_event_data ctx = user_regs(PC, sp);

	assert_int_equal(rprof_clock(&ctx), 0);
	return last_seen();
}

#endif
