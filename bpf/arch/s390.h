/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * s390x: registers and the back chain of code built -mbackchain. s390x ELF ABI supplement, "the
 * stack frame": back chain at [r15], the caller's r14 at [back chain + 112], 0 in the outermost.
 */
#ifndef RPROF_ARCH_S390_H
#define RPROF_ARCH_S390_H

#include "../window.bpf.h"

/* Words of user_pt_regs, arch/s390/include/uapi/asm/ptrace.h: args[1], psw, gprs[16]. */
enum { REG_PSW_MASK = 1, REG_PSW_ADDR = 2, REG_R11 = 14, REG_R14 = 17, REG_R15 = 18 };

#define PSW_PROBLEM_STATE 0x0001000000000000ULL	/* PSW_MASK_PSTATE */
#define PSW_64BIT 0x0000000180000000ULL		/* PSW_MASK_EA | PSW_MASK_BA */
#define RA_SLOT 112

/* struct pt_regs has 25 words on 6.1 to 7.2 and begins with user_pt_regs. */
#define ARCH_PT_REGS_WORDS 19
#define ARCH_TOP_WORDS 25
#define ARCH_CODE_BYTES 0
#define ARCH_SP_WORDS 0
#define ARCH_SIGRETURN_BYTES 0
#define ARCH_SIGNAL_BYTES 0

static __always_inline u64 ctx_word(struct bpf_perf_event_data *ctx, u32 word)
{
	return *(volatile u64 *)((char *)&ctx->regs + word * 8);
}

static __always_inline bool arch_ctx_user(struct bpf_perf_event_data *ctx)
{
	return ctx_word(ctx, REG_PSW_MASK) & PSW_PROBLEM_STATE;
}

static __always_inline int frame_of_mode(u64 mask)
{
	return (mask & PSW_64BIT) == PSW_64BIT ? RPROF_STOP_END : RPROF_STOP_COMPAT;
}

static __always_inline int arch_ctx_frame(struct bpf_perf_event_data *ctx, struct unwind_frame *f)
{
	f->ip = ctx_word(ctx, REG_PSW_ADDR);
	f->sp = ctx_word(ctx, REG_R15);
	f->fp = ctx_word(ctx, REG_R11);
	f->ra = ctx_word(ctx, REG_R14);
	return frame_of_mode(ctx_word(ctx, REG_PSW_MASK));
}

static __always_inline int arch_regs_from_task(const u64 *regs, struct unwind_frame *f)
{
	if (!(regs[REG_PSW_MASK] & PSW_PROBLEM_STATE))
		return RPROF_STOP_NO_REGS;
	f->ip = regs[REG_PSW_ADDR];
	f->sp = regs[REG_R15];
	f->fp = regs[REG_R11];
	f->ra = regs[REG_R14];
	return frame_of_mode(regs[REG_PSW_MASK]);
}

static __always_inline int arch_regs_from_top(const u64 *words, struct unwind_frame *f)
{
	return arch_regs_from_task(words, f);
}

/* The state of r14 is not proven by one instruction: rows will say it (DESIGN 5). */
static __always_inline int arch_repair(const u8 *code)
{
	return RPROF_HOW_PC;
}

/* Not here: what a signal interrupted is marked, not followed (issue 5). */
static __always_inline bool arch_is_sigreturn(const u8 *code)
{
	return false;
}

static __always_inline bool arch_may_be_signal(const struct scratch *s, u64 at)
{
	return false;
}

static __always_inline int arch_signal_frame(struct scratch *s, u32 slot, u64 at)
{
	return walk_stop(s, RPROF_STOP_END);
}

/* frame.fp is the back chain that stands at [frame.sp], so a step needs one window. */
static __always_inline int arch_chain_begin(struct scratch *s, u32 slot)
{
	struct unwind_frame *f = &s->frame;
	int at;

	if (f->sp & 7)
		return walk_stop(s, RPROF_STOP_UNALIGNED);
	at = window_at(slot, f->sp, 8);
	if (at < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	at &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + at);
	return 0;
}

static __always_inline int arch_frame_next(struct scratch *s, u32 slot)
{
	struct unwind_frame *f = &s->frame;
	u64 chain = f->fp;
	int at;

	if (!chain)
		return walk_stop(s, RPROF_STOP_END);
	if (chain & 7)
		return walk_stop(s, RPROF_STOP_UNALIGNED);
	if (chain <= f->sp)
		return walk_stop(s, RPROF_STOP_DOWN);
	if (chain > s->stack_end - (RA_SLOT + 8))
		return walk_stop(s, RPROF_STOP_BOUNDS);
	at = window_at(slot, chain, RA_SLOT + 8);
	if (at < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	at &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + at);
	f->ip = *(u64 *)(s->window + at + RA_SLOT);
	f->sp = chain;
	return 0;
}

#endif
