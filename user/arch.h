/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What analysis must know of the architecture, as numbers. No other file of user/ names a machine.
 * Register numbers are DWARF's: x86-64 psABI 1.0 figure 3.36; s390x ELF ABI supplement 1.6, 1.7.
 */
#ifndef RPROF_ARCH_H
#define RPROF_ARCH_H

#include <elf.h>

#if defined(__x86_64__)

#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_ELF_DATA ELFDATA2LSB
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

#elif defined(__s390x__)

#define ARCH_ELF_MACHINE EM_S390
#define ARCH_ELF_DATA ELFDATA2MSB
#define ARCH_REG_FP 11		/* r11, when there is one */
#define ARCH_REG_SP 15		/* r15 */
#define ARCH_REG_RA 14		/* r14 */
#define ARCH_RA_AT_CFA (-48)	/* its place in the register save area: 112 - 160 */

/*
 * Frames are chained by the back chain word, which no unwind rule mentions: whether it was stored
 * already cannot be said from CFI. CFA = r15 + 160 at entry (the caller's save area is the bias).
 */
#define ARCH_HAS_FP_CHAIN 0
#define ARCH_UP_CFA 160
#define ARCH_UP_FP_AT_CFA 0

#else
#error "add this machine here and in bpf/arch/"
#endif

/* What the kernel rounds a PT_LOAD to when it maps it (fs/binfmt_elf.c, ELF_MIN_ALIGN). */
#define ARCH_PAGE_SIZE 4096

#endif
