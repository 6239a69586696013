/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What analysis must know of the architecture, as numbers. No other file of user/ names a machine.
 * Register numbers are DWARF's: x86-64 psABI 1.0 figure 3.36; s390x ELF ABI supplement 1.6, 1.7.
 */
#ifndef RPROF_ARCH_H
#define RPROF_ARCH_H

#include <elf.h>
#include <linux/audit.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)

#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_ELF_DATA ELFDATA2LSB
#define ARCH_AUDIT AUDIT_ARCH_X86_64	/* of seccomp */
#define ARCH_NO_HARDWARE_EVENTS ""
#define ARCH_THREAD_POINTER "fsbase" /* of struct thread_struct, arch/x86/include/asm/processor.h */
#define ARCH_THREAD_POINTER_LATE 0 /* is it saved at a switch alone? Else the kernel sets it */
#define ARCH_REG_FP 6		/* rbp */
#define ARCH_REG_SP 7		/* rsp */
#define ARCH_REG_RA 16		/* rip of the caller; in an expression the pc itself */
#define ARCH_RA_AT_CFA (-8)	/* `call` pushed it */

/*
 * A frame that is up, i.e. whose caller the chain finds: `push %rbp; mov %rsp,%rbp` was executed.
 * CFA = fp + 16, fp saved at cfa - 16, return address at cfa - 8.
 */
#define ARCH_HAS_FP_CHAIN 1
#define ARCH_UP_CFA 16
#define ARCH_UP_FP_AT_CFA (-16)
#define ARCH_PACKED_RA_AT_CFA ARCH_RA_AT_CFA	/* the next two: of back chains alone */
#define ARCH_WRAPPER_RA_AT_CFA ARCH_RA_AT_CFA
#define ARCH_LINK "frame pointer"	/* what links frames, in messages */
#define ARCH_LINK_FLAG "-fno-omit-frame-pointer"

/* Stubs of the PLT, and the relocations of the words they jump through: psABI 1.0, 4.4 and 5.2. */
#define ARCH_R_JUMP_SLOT R_X86_64_JUMP_SLOT
#define ARCH_R_GLOB_DAT R_X86_64_GLOB_DAT
#define ARCH_R_IRELATIVE R_X86_64_IRELATIVE
#define ARCH_PLT_SIZE 16
#define ARCH_PLT_GOT_SIZE 8
#define ARCH_PLT_HAS_NO_FRAME 0	/* it pushes; linkers write rules for it */

/* [endbr64] [bnd] jmp *slot(%rip). False: the @size bytes at @vaddr are something else. */
static inline bool arch_plt_slot(const unsigned char *code, size_t size, __u64 vaddr, __u64 *slot)
{
	size_t at = 0;
	__s32 offset;

	if (size >= 4 && !memcmp(code, "\xf3\x0f\x1e\xfa", 4))
		at = 4;
	if (at < size && code[at] == 0xf2)
		at++;
	if (at + 6 > size || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&offset, code + at + 2, sizeof(offset));
	*slot = vaddr + at + 6 + (__u64)(__s64)offset;
	return true;
}

#elif defined(__s390x__)

#define ARCH_ELF_MACHINE EM_S390
#define ARCH_ELF_DATA ELFDATA2MSB
#define ARCH_AUDIT AUDIT_ARCH_S390X
/* arch/s390/kernel/perf_cpum_sf.c: perf_push_sample() clears all registers but the PSW. */
#define ARCH_NO_HARDWARE_EVENTS                                                                    \
	"the hardware sampler of s390x tells no registers but the program counter, so no stack: "  \
	"cpu-clock does"
#define ARCH_THREAD_POINTER "acrs" /* 0 and 1, the halves; arch/s390/include/asm/processor.h */
#define ARCH_THREAD_POINTER_LATE 1
#define ARCH_REG_FP 11		/* r11, when there is one */
#define ARCH_REG_SP 15		/* r15 */
#define ARCH_REG_RA 14		/* r14 */
#define ARCH_RA_AT_CFA (-48)	/* its place in the register save area: 112 - 160 */

/*
 * Frames are chained by the back chain word, which no unwind rule mentions: whether it was stored
 * already is in the code (back_chain.h). CFA = r15 + 160 at entry (the caller's save area).
 */
#define ARCH_HAS_FP_CHAIN 0
#define ARCH_UP_CFA 160		/* of a frame that is not allocated */
#define ARCH_UP_FP_AT_CFA 0
#define ARCH_PACKED_RA_AT_CFA (-24)	/* 136 - 160, -mpacked-stack -mbackchain */
/* struct stack_frame_vdso_wrapper, arch/s390/include/asm/stacktrace.h: [sp + 160], CFA = sp + 328 */
#define ARCH_WRAPPER_RA_AT_CFA (-168)
#define ARCH_LINK "back chain"
#define ARCH_LINK_FLAG "-mbackchain"

/* Stubs of the PLT, and the relocations of the words they jump through: ABI supplement 1.6, 3.4. */
#define ARCH_R_JUMP_SLOT R_390_JMP_SLOT
#define ARCH_R_GLOB_DAT R_390_GLOB_DAT
#define ARCH_R_IRELATIVE R_390_IRELATIVE
#define ARCH_PLT_SIZE 32
#define ARCH_PLT_GOT_SIZE 32
#define ARCH_PLT_HAS_NO_FRAME 1	/* r14 and r15 are the caller's in all of it, and it has no rules */

/* larl %r1,slot; lg %r1,0(%r1); br %r1. False: the @size bytes at @vaddr are something else. */
static inline bool arch_plt_slot(const unsigned char *code, size_t size, __u64 vaddr, __u64 *slot)
{
	__s32 halfwords;

	if (size < 14 || memcmp(code, "\xc0\x10", 2) != 0 ||
	    memcmp(code + 6, "\xe3\x10\x10\x00\x00\x04\x07\xf1", 8) != 0)
		return false;
	memcpy(&halfwords, code + 2, sizeof(halfwords));
	*slot = vaddr + 2 * (__u64)(__s64)halfwords;
	return true;
}

#else
#error "add this machine here and in bpf/arch/"
#endif

/*
 * The chain, for stacks that are read from the process (complete.c): the link is the frame's first
 * word, the caller's return address ARCH_CHAIN_RA above it, and the caller's frame begins
 * ARCH_CHAIN_LOW above it. A link is at least ARCH_CHAIN_LEAST above the begin of its frame.
 *
 * ARCH_PAGES_AGE: an access by the program itself makes an aged page readable for the kernel side
 * again, and no reading of ours does (bpf-limits.md 7: s390x has no hardware for the accessed bit).
 */
#if defined(__s390x__)
#define ARCH_CHAIN_RA 112
#define ARCH_CHAIN_LOW 0
#define ARCH_CHAIN_LEAST 8
#define ARCH_PAGES_AGE 1
#else
#define ARCH_CHAIN_RA 8
#define ARCH_CHAIN_LOW 16
#define ARCH_CHAIN_LEAST 0
#define ARCH_PAGES_AGE 0
#endif

/* What the kernel rounds a PT_LOAD to when it maps it (fs/binfmt_elf.c, ELF_MIN_ALIGN). */
#define ARCH_PAGE_SIZE 4096

#endif
