/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one place under bpf/ that asks which architecture this is. A new one is one header here, one
 * vmlinux.h, one constants block in user/arch.h and one test image. Its header provides:
 *
 * ARCH_PT_REGS_WORDS          u64 words of a struct pt_regs that arch_regs_from_task() reads
 * ARCH_TOP_WORDS              u64 words below a kernel stack's top that arch_regs_from_top() reads
 * ARCH_CODE_BEFORE, _BYTES    bytes before and from an interrupted pc that are read of its code
 * ARCH_CODE_STEPS             instructions that are looked at one after the other; 0: but one
 * ARCH_RA_REGISTER            1: a call leaves the return address in a register, .ra; 0: at [sp]
 * arch_ctx_user(ctx)          did the sample interrupt user mode? Asked of the registers, never of
 *                             an address: on s390x the address spaces overlap
 * arch_ctx_frame(ctx, s)      s->frame of the sample's registers; enum rprof_stop
 * arch_regs_from_top(w, s)    s->frame of the user registers saved at the top of a kernel stack;
 *                             enum rprof_stop, NO_REGS unless the words say "user mode"
 * arch_regs_from_task(r, s)   the same from a struct pt_regs that the kernel itself pointed out
 * arch_code_begin(s)          enum rprof_how of the word that the code in s->code proves to be the
 *                             return address, RPROF_HOW_CHAIN if the chain is right,
 *                             RPROF_HOW_SIGNAL if it returns from a signal handler,
 *                             RPROF_HOW_PC if nothing is proven: then s->at_pc is ready for
 * arch_code_step(s)           the next instruction; 1: it was the last of use
 * arch_code_end(s)            what all of them say together, in s->at_pc
 * arch_ra_slot(s, slot, word) the word where the return address register of an interrupted frame
 *                             may have been saved; false: there is none
 * ARCH_SIGRETURN_BYTES        bytes that arch_is_sigreturn() looks at
 * arch_is_sigreturn(code)     does this code return from a signal handler, by the words above sp?
 * ARCH_SIGNAL_BYTES           bytes of a signal frame's words, from where sp is when it returns
 * arch_may_be_signal(s, at)   does the window hold these words, and may they be a signal frame's?
 * arch_signal_frame(s, slot, at) load s->frame from the words at @at: 0; else 1, and s->stop says why
 * arch_is_bare_handler(h, i)  h may be a handler without a frame, which interrupted i
 * arch_chain_begin(s, slot)   prepare s->frame for the first step: 0; else 1, and s->stop says why
 * arch_frame_next(s, slot)    replace s->frame by its caller's: 0; else 1, and s->stop says why not:
 *                             FAULT if the frame at .fp cannot be read, whose address is at .link_at
 */
#ifndef RPROF_ARCH_H
#define RPROF_ARCH_H

#if defined(__TARGET_ARCH_x86)
#include "x86.h"
#elif defined(__TARGET_ARCH_s390)
#include "s390.h"
#else
#error "rprof-bpf: unknown architecture: write bpf/arch/ARCH.h"
#endif

#endif
