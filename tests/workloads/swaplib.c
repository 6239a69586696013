// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A library for swap.c, built with -DNAME=...: work -> NAME. */
#include "workload.h"

__attribute__((noinline)) void NAME(void);

__attribute__((noinline)) void NAME(void)
{
	burn(200000);
}

void work(void);

void work(void)
{
	NAME();
	BARRIER();
}
