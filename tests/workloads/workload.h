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

/* About 3 cycles per iteration (latency of imul). */
static inline __attribute__((always_inline)) void burn(unsigned long iterations)
{
	unsigned long x = 1;

	__asm__ volatile("1:\timul $0x2545f491, %0, %0\n\tdec %1\n\tjnz 1b"
			 : "+r"(x), "+r"(iterations));
}

#endif
