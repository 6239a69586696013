/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * s390x: registers, the back chain of code built -mbackchain, and signal frames. s390x ELF ABI
 * supplement, "the stack frame": back chain at [r15], the caller's r14 at [back chain + 112], 0 in
 * the outermost. What the code at an interrupted pc says is s390_code.h's.
 */
#ifndef RPROF_ARCH_S390_H
#define RPROF_ARCH_S390_H

#include "../window.bpf.h"
#include "s390_code.h"

/* Words of user_pt_regs, arch/s390/include/uapi/asm/ptrace.h: args[1], psw, gprs[16]. */
enum { REG_PSW_MASK = 1, REG_PSW_ADDR = 2, REG_GPRS = 3, N_GPRS = 16 };

#define PSW_PROBLEM_STATE 0x0001000000000000ULL	/* PSW_MASK_PSTATE */
#define PSW_64BIT 0x0000000180000000ULL		/* PSW_MASK_EA | PSW_MASK_BA */

/*
 * Where the back chain is in a frame, and r14 of the caller in the caller's save area; and the same
 * with -mpacked-stack, of which only the code at an interrupted pc can tell.
 */
#define CHAIN_SLOT 0
#define RA_SLOT 112
#define PACKED_CHAIN_SLOT 152
#define PACKED_RA_SLOT 136

/* struct pt_regs has 25 words on 6.1 to 7.2 and begins with user_pt_regs. */
#define ARCH_PT_REGS_WORDS 19
#define ARCH_TOP_WORDS 25
#define ARCH_RA_REGISTER 1
#define ARCH_SIGRETURN_BYTES 2

/*
 * Offsets in struct rt_sigframe and in struct sigframe, which a handler without SA_SIGINFO has:
 * arch/s390/kernel/signal.c, arch/s390/include/uapi/asm/{ucontext,sigcontext}.h.
 */
enum { RT_PSW = 336, RT_GPRS = 352, OLD_PSW = 176, OLD_GPRS = 192 };
#define ARCH_SIGNAL_BYTES (RT_GPRS + 8 * N_GPRS)

/* The frame of the vDSO's entries, struct stack_frame_vdso_wrapper: r14, and its size. */
#define VDSO_RA 160
#define VDSO_FRAME 168

/* scratch.vdso_ra: whose return address r14 may be, where a function of the vDSO was interrupted. */
enum { RA_OF_SP = 1, RA_OF_NEXT };

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

static __always_inline int arch_ctx_frame(struct bpf_perf_event_data *ctx, struct scratch *s)
{
	struct unwind_frame *f = &s->frame;

#pragma unroll
	for (int i = 0; i < N_GPRS; i++)
		s->gprs[i] = ctx_word(ctx, REG_GPRS + i);
	f->ip = ctx_word(ctx, REG_PSW_ADDR);
	f->sp = s->gprs[15];
	f->fp = 0;
	f->ra = s->gprs[14];
	return frame_of_mode(ctx_word(ctx, REG_PSW_MASK));
}

static __always_inline int arch_regs_from_task(const u64 *regs, struct scratch *s)
{
	struct unwind_frame *f = &s->frame;

	if (!(regs[REG_PSW_MASK] & PSW_PROBLEM_STATE))
		return RPROF_STOP_NO_REGS;
	__builtin_memcpy(s->gprs, regs + REG_GPRS, sizeof(s->gprs));
	f->ip = regs[REG_PSW_ADDR];
	f->sp = s->gprs[15];
	f->fp = 0;
	f->ra = s->gprs[14];
	return frame_of_mode(regs[REG_PSW_MASK]);
}

static __always_inline int arch_regs_from_top(const u64 *words, struct scratch *s)
{
	return arch_regs_from_task(words, s);
}

/* svc 173, rt_sigreturn; svc 119, sigreturn: in the vDSO, or where SA_RESTORER points. */
static __always_inline bool arch_is_sigreturn(const u8 *code)
{
	return code[0] == 0x0a && (code[1] == 173 || code[1] == 119);
}

/* What the kernel saves of a PSW: PSW_USER_BITS, condition code, program mask, addressing mode. */
static __always_inline bool is_user_psw(u64 mask)
{
	return mask >> 48 == 0x0705 && !(mask & 0x7fffffff);
}

static __always_inline bool arch_may_be_signal(const struct scratch *s, u64 at)
{
	u64 offset = at - s->window_start;

	if (offset >= WINDOW || offset + ARCH_SIGNAL_BYTES > s->window_len)
		return false;
	asm volatile("" : "+r"(offset));
	offset &= WINDOW - 1;
	return is_user_psw(*(const u64 *)(s->window + offset + RT_PSW)) ||
	       is_user_psw(*(const u64 *)(s->window + offset + OLD_PSW));
}

/* frame.fp: the back chain that the kernel left there. */
static __always_inline int arch_signal_frame(struct scratch *s, u32 slot, u64 at)
{
	struct unwind_frame *f = &s->frame;
	bool old = s->code[1] == 119;
	u64 psw = old ? OLD_PSW : RT_PSW;
	int words;

	if (at > s->stack_end - ARCH_SIGNAL_BYTES)
		return walk_stop(s, RPROF_STOP_BOUNDS);
	words = window_at(slot, at, ARCH_SIGNAL_BYTES);
	if (words < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	words &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + words + CHAIN_SLOT);
	words += psw;
	f->ip = *(u64 *)(s->window + words + 8);
	__builtin_memcpy(s->gprs, s->window + words + 16, sizeof(s->gprs));
	f->ra = s->gprs[14];
	f->sp = s->gprs[15];
	if (frame_of_mode(*(u64 *)(s->window + words)))
		return walk_stop(s, RPROF_STOP_COMPAT);
	return 0;
}

/* The kernel gave it both: the link, and r15 in the signal frame. In a frame that is up they differ. */
static __always_inline bool arch_is_bare_handler(const struct unwind_frame *handler,
						 const struct unwind_frame *interrupted)
{
	return interrupted->fp == interrupted->sp;
}

/* What was saved of r14 in the caller's save area, if sp is the caller's still. */
static __always_inline bool arch_ra_slot(struct scratch *s, u32 slot, u64 *word)
{
	int at;

	if (s->at_pc.slot_dead || s->at_pc.link == LINK_IS || s->at_pc.link == LINK_LOST)
		return false;
	if (s->frame.sp > s->stack_end - (RA_SLOT + 8))
		return false;
	at = window_at(slot, s->frame.sp, RA_SLOT + 8);
	if (at < 0)
		return false;
	at &= WINDOW - 1;
	*word = *(u64 *)(s->window + at + (s->at_pc.packed ? PACKED_RA_SLOT : RA_SLOT));
	return true;
}

/* frame.fp is the back chain that stands at [frame.sp], so a step needs one window. */
static __always_inline int arch_chain_begin(struct scratch *s, u32 slot)
{
	const struct code_state *c = &s->at_pc;
	struct unwind_frame *f = &s->frame;
	int at;

	s->vdso_ra = s->ip_flags & RPROF_MAPPING_VDSO && s->has_ra ? RA_OF_SP : 0;
	if (f->sp & 7)
		return walk_stop(s, RPROF_STOP_UNALIGNED);
	if (c->link == LINK_LOST)
		return walk_stop(s, RPROF_STOP_UNLINKED);
	if (c->link == LINK_IS) {
		f->fp = c->link_value;
		s->chain_how = RPROF_HOW_CHAIN_REG;
		return 0;
	}
	at = window_at(slot, f->sp, c->packed ? PACKED_CHAIN_SLOT + 8 : 8);
	if (at < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	at &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + at + (c->packed ? PACKED_CHAIN_SLOT : CHAIN_SLOT));
	f->link_at = f->sp;
	if (c->link == LINK_IF_EQUAL && f->fp != c->link_value)
		return walk_stop(s, RPROF_STOP_UNLINKED);
	return 0;
}

/* Does the code at @ip return from an entry of the vDSO? -1: it cannot be read. */
static __always_inline int is_vdso_entry(struct scratch *s, u64 ip)
{
	if (bpf_probe_read_user(s->code, 12, (void *)ip))
		return -1;
	return code_at(s->code) == 0xe3e0f0a00004 &&	     /* lg %r14,160(%r15) */
	       code_at(s->code + 6) == 0xa7fb00a807fe; /* aghi %r15,168; br %r14 */
}

/*
 * Between an entry of the vDSO and its C function there is a frame without a chain, 0 from 6.12 on:
 * vdso64/vdso_user_wrapper.S. The code that it returns through is the proof. A C function that calls
 * none leaves that address in r14: it is of the frame at sp, then, if that has no chain, or of the
 * first by the chain. 0: stepped over; -1: it is no such frame; 1: the walk is over.
 */
static __always_inline int vdso_frame_next(struct scratch *s, u32 slot)
{
	struct unwind_frame *f = &s->frame;
	u32 ra = s->vdso_ra;
	int at, entry = 0;

	if (!(s->ip_flags & RPROF_MAPPING_VDSO) && !ra)
		return -1;
	s->vdso_ra = ra == RA_OF_SP ? RA_OF_NEXT : 0;
	if (ra == RA_OF_NEXT || (ra == RA_OF_SP && !f->fp))
		entry = is_vdso_entry(s, f->ra);
	if (!entry && s->ip_flags & RPROF_MAPPING_VDSO)
		entry = is_vdso_entry(s, f->ip);
	if (!entry)
		return -1;
	s->vdso_ra = 0;
	if (entry < 0) {
		/* Whether it has a chain at all is not known: no use to who would read on. */
		f->fp = 0;
		return walk_stop(s, RPROF_STOP_FAULT);
	}
	if (f->sp > s->stack_end - (VDSO_FRAME + 8))
		return walk_stop(s, RPROF_STOP_BOUNDS);
	at = window_at(slot, f->sp, VDSO_FRAME + 8);
	if (at < 0) {
		f->fp = 0; /* of no use to who would read on */
		return walk_stop(s, RPROF_STOP_FAULT);
	}
	at &= WINDOW - 1;
	f->ip = *(u64 *)(s->window + at + VDSO_RA);
	f->fp = *(u64 *)(s->window + at + VDSO_FRAME);
	f->sp += VDSO_FRAME;
	f->link_at = f->sp;
	return 0;
}

static __always_inline int arch_frame_next(struct scratch *s, u32 slot)
{
	struct unwind_frame *f = &s->frame;
	const bool packed = s->at_pc.packed;
	u64 chain = f->fp, need = packed ? PACKED_CHAIN_SLOT + 8 : RA_SLOT + 8;
	int at, over = vdso_frame_next(s, slot);

	if (over >= 0)
		return over;
	if (!chain)
		return walk_stop(s, RPROF_STOP_END);
	if (chain & 7)
		return walk_stop(s, RPROF_STOP_UNALIGNED);
	if (chain <= f->sp)
		return walk_stop(s, RPROF_STOP_DOWN);
	if (chain > s->stack_end - need)
		return walk_stop(s, RPROF_STOP_BOUNDS);
	at = window_with(slot, chain, need, ARCH_SIGNAL_BYTES);
	if (at < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	at &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + at + (packed ? PACKED_CHAIN_SLOT : CHAIN_SLOT));
	f->ip = *(u64 *)(s->window + at + (packed ? PACKED_RA_SLOT : RA_SLOT));
	f->sp = f->link_at = chain;
	return 0;
}

#endif
