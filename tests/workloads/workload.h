/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What all workloads share: they say "ready PID" once they do what they are named for, and then go
 * on until killed. Nothing here may sleep or call libc in the burning loop.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdio.h>
#include <unistd.h>

/* A function that stays one function under its own name. */
#ifdef __clang__
#define NODE static __attribute__((noinline))
#else
#define NODE static __attribute__((noinline, noclone))
#endif
/* After a call: makes it no tail call. */
#define BARRIER() __asm__ volatile("" ::: "memory")

static inline void ready(void)
{
	printf("ready %d\n", getpid());
	fflush(stdout);
}

/* x *= m; n--; branch back unless 0. About 3 cycles per iteration on x86-64 (latency of imul). */
#ifdef __s390x__
#define BURN_LOOP "1:\tmsgfi %0, 0x2545f491\n\tbrctg %1, 1b"
#else
#define BURN_LOOP "1:\timul $0x2545f491, %0, %0\n\tdec %1\n\tjnz 1b"
#endif

static inline __attribute__((always_inline)) void burn(unsigned long iterations)
{
	unsigned long x = 1;

	__asm__ volatile(BURN_LOOP : "+r"(x), "+r"(iterations));
}

#endif
