/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * x86-64: registers, the frame pointer chain, and what the instruction at pc proves. System V
 * AMD64 ABI 3.2.2: the caller's rbp at [rbp], the return address at [rbp + 8], 0 in the outermost.
 */
#ifndef RPROF_ARCH_X86_H
#define RPROF_ARCH_X86_H

#include "../window.bpf.h"

/*
 * Words of struct pt_regs, arch/x86/include/asm/ptrace.h: the same on all kernels, while the types
 * of cs and ss are not (u16 in a union from 6.9 on). A context can only be read in whole words.
 */
enum { REG_BP = 4, REG_IP = 16, REG_CS = 17, REG_SP = 19, REG_SS = 20, REG_WORDS = 21 };

#define USER_CS 0x33u	/* __USER_CS, arch/x86/include/asm/segment.h */
#define USER32_CS 0x23u
#define USER_SS 0x2bu

/* pt_regs ends at the top of the stack, or 16 bytes below it with CONFIG_X86_FRED (seen on 7.2). */
#define ARCH_PT_REGS_WORDS REG_WORDS
#define ARCH_TOP_WORDS (REG_WORDS + 2)
#define ARCH_CODE_BEFORE 0u
#define ARCH_CODE_BYTES 16u
#define ARCH_CODE_STEPS 0
#define ARCH_RA_REGISTER 0
#define ARCH_SIGRETURN_BYTES 9

/*
 * Offsets in the struct ucontext that rt_sigreturn reads at sp: arch/x86/include/uapi/asm/
 * {ucontext,sigcontext}.h. Unchanged since 2.6; 32-bit processes have another.
 */
enum { UC_BP = 120, UC_SP = 160, UC_IP = 168, UC_CS = 184 };
#define ARCH_SIGNAL_BYTES 192

static __always_inline u64 ctx_word(struct bpf_perf_event_data *ctx, u32 word)
{
	return *(volatile u64 *)((char *)&ctx->regs + word * 8);
}

static __always_inline bool arch_ctx_user(struct bpf_perf_event_data *ctx)
{
	return ctx_word(ctx, REG_CS) & 3;
}

static __always_inline int frame_of_mode(u64 cs)
{
	return (cs & 0xffff) == USER_CS ? RPROF_STOP_END : RPROF_STOP_COMPAT;
}

static __always_inline int arch_ctx_frame(struct bpf_perf_event_data *ctx, struct scratch *s)
{
	struct unwind_frame *f = &s->frame;

	f->ip = ctx_word(ctx, REG_IP);
	f->sp = ctx_word(ctx, REG_SP);
	f->fp = ctx_word(ctx, REG_BP);
	f->ra = 0;
	return frame_of_mode(ctx_word(ctx, REG_CS));
}

static __always_inline int arch_regs_from_task(const u64 *regs, struct scratch *s)
{
	struct unwind_frame *f = &s->frame;
	u64 cs = regs[REG_CS] & 0xffff;

	if ((cs != USER_CS && cs != USER32_CS) || (regs[REG_SS] & 0xffff) != USER_SS)
		return RPROF_STOP_NO_REGS;
	f->ip = regs[REG_IP];
	f->sp = regs[REG_SP];
	f->fp = regs[REG_BP];
	f->ra = 0;
	return frame_of_mode(cs);
}

static __always_inline int arch_regs_from_top(const u64 *words, struct scratch *s)
{
	int stop = arch_regs_from_task(words + 2, s);

	return stop == RPROF_STOP_NO_REGS ? arch_regs_from_task(words, s) : stop;
}

/* mov $15,%rax; syscall: __NR_rt_sigreturn. glibc, musl and Go; the short mov is an assembler's. */
static __always_inline bool arch_is_sigreturn(const u8 *code)
{
	u64 eight = *(const u64 *)code;

	if (eight == 0x0f0000000fc0c748ULL)			/* mov $15,%rax; syscall */
		return code[8] == 0x05;
	return (eight << 8) == 0x050f0000000fb800ULL;		/* mov $15,%eax; syscall */
}

/*
 * What the instruction at pc proves of an interrupted frame. Bytes: Intel SDM volume 2. A lone
 * push %rbp proves nothing, a function without frame pointer pushes it after other registers;
 * followed by mov %rsp,%rbp it is a frame about to be set up. jmp *x(%rip) is a PLT stub or a tail
 * call: both leave the return address at [sp]; what lies in a switch is another encoding.
 */
static __always_inline int arch_repair(const u8 *code)
{
	u32 four = *(const u32 *)code;

	if (four == 0xfa1e0ff3)					/* endbr64 */
		return RPROF_HOW_SP;
	if ((four & 0xff) == 0xc3 || (four & 0xff) == 0xc2)	/* ret, ret n */
		return RPROF_HOW_SP;
	if ((four & 0xffff) == 0xc3f3)				/* rep ret */
		return RPROF_HOW_SP;
	if (four == 0xe5894855 || four == 0xec8b4855)		/* push %rbp; mov %rsp,%rbp */
		return RPROF_HOW_SP;
	if ((four & 0xffffff) == 0xe58948 || (four & 0xffffff) == 0xec8b48) /* mov %rsp,%rbp */
		return RPROF_HOW_SP8;
	if ((four & 0xff) == 0xc9)				/* leave: the frame is up */
		return RPROF_HOW_CHAIN;
	if ((four & 0xffff) == 0x25ff || (four & 0xffffff) == 0x25fff2) /* jmp *x(%rip) */
		return RPROF_HOW_SP;
	if ((four & 0xff) == 0x68 && code[5] == 0xe9)		/* push n; jmp: lazy PLT stub */
		return RPROF_HOW_SP;
	if ((four & 0xff) == 0x68 && code[5] == 0xf2 && code[6] == 0xe9)
		return RPROF_HOW_SP;
	if ((four & 0xffff) == 0x35ff &&			/* push x(%rip); jmp *x(%rip): PLT0 */
	    ((code[6] == 0xff && code[7] == 0x25) ||
	     (code[6] == 0xf2 && code[7] == 0xff && code[8] == 0x25)))
		return RPROF_HOW_SP8;
	return arch_is_sigreturn(code) ? RPROF_HOW_SIGNAL : RPROF_HOW_PC;
}

static __always_inline int arch_code_begin(struct scratch *s)
{
	return arch_repair(s->code);
}

static __always_inline int arch_code_step(struct scratch *s)
{
	return 1;
}

static __always_inline void arch_code_end(struct scratch *s)
{
}

static __always_inline bool arch_ra_slot(struct scratch *s, u32 slot, u64 *word)
{
	return false;
}

/* A handler that has no frame yet has not touched the frame pointer. */
static __always_inline bool arch_is_bare_handler(const struct unwind_frame *handler,
						 const struct unwind_frame *interrupted)
{
	return handler->fp == interrupted->fp;
}

/* Both code segments of user mode: 0x33 and 0x23. */
static __always_inline bool arch_may_be_signal(const struct scratch *s, u64 at)
{
	u64 offset = at - s->window_start;

	if (offset >= WINDOW || offset + ARCH_SIGNAL_BYTES > s->window_len)
		return false;
	asm volatile("" : "+r"(offset));
	offset &= WINDOW - 1;
	return (*(const u64 *)(s->window + offset + UC_CS) & 0xffef) == (USER_CS & 0xffef);
}

static __always_inline int arch_signal_frame(struct scratch *s, u32 slot, u64 at)
{
	struct unwind_frame *f = &s->frame;
	int words;

	if (at > s->stack_end - ARCH_SIGNAL_BYTES)
		return walk_stop(s, RPROF_STOP_BOUNDS);
	words = window_at(slot, at, ARCH_SIGNAL_BYTES);
	if (words < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	words &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + words + UC_BP);
	f->sp = *(u64 *)(s->window + words + UC_SP);
	f->ip = *(u64 *)(s->window + words + UC_IP);
	if (frame_of_mode(*(u64 *)(s->window + words + UC_CS)))
		return walk_stop(s, RPROF_STOP_COMPAT);
	return 0;
}

/* Nothing to prepare: the registers are the start of the chain. */
static __always_inline int arch_chain_begin(struct scratch *s, u32 slot)
{
	return 0;
}

static __always_inline int arch_frame_next(struct scratch *s, u32 slot)
{
	struct unwind_frame *f = &s->frame;
	u64 fp = f->fp;
	int at;

	if (!fp)
		return walk_stop(s, RPROF_STOP_END);
	if (fp & 7)
		return walk_stop(s, RPROF_STOP_UNALIGNED);
	if (fp < f->sp)
		return walk_stop(s, RPROF_STOP_DOWN);
	if (fp > s->stack_end - 16)
		return walk_stop(s, RPROF_STOP_BOUNDS);
	at = window_with(slot, fp, 16, 16 + ARCH_SIGNAL_BYTES);
	if (at < 0)
		return walk_stop(s, RPROF_STOP_FAULT);
	at &= WINDOW - 1;
	f->fp = *(u64 *)(s->window + at);
	f->ip = *(u64 *)(s->window + at + 8);
	f->sp = fp + 16;
	f->link_at = fp;
	return 0;
}

#endif
