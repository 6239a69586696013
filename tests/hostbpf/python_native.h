/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The native frames that the entry frames of python.h lie in: from PY_SP up, NATIVE_STEP apart; and
 * the thread's registers when it is sampled in them.
 */
#ifndef RPROF_HOSTBPF_PYTHON_NATIVE_H
#define RPROF_HOSTBPF_PYTHON_NATIVE_H

#define NATIVE_STEP 0x1000ULL

#if defined(__TARGET_ARCH_s390)

#include "thread_s390.h"

#define PY_SP (STACK + 0x8000)

/* Lowest address of native frame @i. */
static inline u64 native_low(u32 i)
{
	return PY_SP + i * NATIVE_STEP;
}

static inline void native_chain(u32 n)
{
	put_chain(PY_SP, n, NATIVE_STEP);
}

static inline struct bpf_perf_event_data native_regs(void)
{
	struct bpf_perf_event_data ctx = user_regs(PC, PY_SP);

	ctx.regs.words[W_R14] = 0; /* no candidate */
	return ctx;
}

#else

#include "thread_x86.h"

#define PY_FP (STACK + 0x8000)
#define PY_SP (PY_FP - 512)

static inline u64 native_low(u32 i)
{
	return i ? PY_FP + 16 + (i - 1) * NATIVE_STEP : PY_SP;
}

static inline void native_chain(u32 n)
{
	put_chain(PY_FP, n, NATIVE_STEP);
}

static inline struct bpf_perf_event_data native_regs(void)
{
	return user_regs(PC, PY_SP, PY_FP);
}

#endif
#endif
