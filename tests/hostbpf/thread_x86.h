/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* x86-64 frames and registers for thread.h. Word numbers are struct pt_regs's, stated again. */
#ifndef RPROF_HOSTBPF_THREAD_X86_H
#define RPROF_HOSTBPF_THREAD_X86_H

#include "thread.h"

enum { W_RBP = 4, W_RIP = 16, W_CS = 17, W_RSP = 19, W_SS = 20, W_REGS = 21 };

#define KERNEL_CS 0x10u

/* One frame record: the caller's rbp at @fp, the return address above it. */
static inline void put_frame(u64 fp, u64 link, u64 ra)
{
	host_poke(fp, link);
	host_poke(fp + 8, ra);
}

/* @n frames from @fp up, @step bytes apart, the outermost with link 0. */
static inline void put_chain(u64 fp, u32 n, u64 step)
{
	for (u32 i = 0; i < n; i++)
		put_frame(fp + i * step, i + 1 < n ? fp + (i + 1) * step : 0, RA(i));
}

static inline struct bpf_perf_event_data user_regs(u64 ip, u64 sp, u64 fp)
{
	struct bpf_perf_event_data ctx = {};

	ctx.regs.words[W_RIP] = ip;
	ctx.regs.words[W_CS] = 0x33;
	ctx.regs.words[W_RSP] = sp;
	ctx.regs.words[W_SS] = 0x2b;
	ctx.regs.words[W_RBP] = fp;
	return ctx;
}

static inline struct bpf_perf_event_data kernel_regs(void)
{
	struct bpf_perf_event_data ctx = user_regs(0xffffffff81000000ULL, KSTACK + 8192, 0);

	ctx.regs.words[W_CS] = KERNEL_CS;
	ctx.regs.words[W_SS] = 0x18;
	return ctx;
}

/* Save user registers below the top of the kernel stack, @padding bytes below it. */
static inline void save_regs(const struct bpf_perf_event_data *user, u32 padding)
{
	u64 at = KSTACK + KSTACK_SIZE - padding - W_REGS * 8;

	for (u32 i = 0; i < W_REGS; i++)
		host_kernel_poke(at + i * 8, user->regs.words[i]);
	host.task_regs = at;
}

/* Sample the thread in user mode. */
static inline struct seen sample_user(u64 ip, u64 sp, u64 fp)
{
	struct bpf_perf_event_data ctx = user_regs(ip, sp, fp);

	assert_int_equal(rprof_clock(&ctx), 0);
	return last_seen();
}

/* The usual place: 64 bytes of locals below the frame record, zeros, so no candidates. */
static inline struct seen sample_at(u64 fp)
{
	return sample_user(PC, fp - 64, fp);
}

#endif
