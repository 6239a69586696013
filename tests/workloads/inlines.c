/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One busy thread whose time is spent below calls that are inlined, for certain:
 *   main -> work -> (outer -> middle ->) leaf -> (inner -> burn)     and
 *   main -> work -> (outer -> inner -> burn)
 */
#include "workload.h"

#define INLINED static inline __attribute__((always_inline))

INLINED void inner(unsigned long n)
{
	burn(n);
}

NODE void leaf(unsigned long n)
{
	inner(n);
	BARRIER();
}

INLINED void middle(unsigned long n)
{
	leaf(n);
	BARRIER();
}

INLINED void outer(unsigned long n)
{
	middle(n);
	inner(n);
}

NODE void work(void)
{
	outer(1000000);
	BARRIER();
}

int main(void)
{
	ready();
	for (;;) {
		work();
		BARRIER();
	}
}
