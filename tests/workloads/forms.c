// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Functions that GCC keeps in parts and copies of other names: main -> each of them in turn ->
 * burn. Whether it did is part of the test (nm).
 */
#include <setjmp.h>
#include <stdlib.h>

#include "workload.h"

struct pair {
	long first;
	long second;
};

volatile int zero;
volatile long sink;

static jmp_buf back;

__attribute__((cold, noinline)) void warn(void)
{
	sink++;
}

/* What calls a cold function is unlikely: moved to chilly.cold, with what it burns. */
__attribute__((noinline)) void chilly(int likely)
{
	if (!likely) {
		warn();
		burn(300000);
		sink++;
		longjmp(back, 1);
	}
	sink += likely;
}

/* One argument is the same in every call: constant.constprop.0. */
static __attribute__((noinline)) void constant(long times, long step)
{
	for (long i = 0; i < times; i += step)
		burn(1000);
	sink += step;
}

/* Only the value of a member is needed, no pointer: scalar.isra.0. */
static __attribute__((noinline)) void scalar(const struct pair *p)
{
	for (long i = 0; i < p->second; i++)
		burn(1000);
	sink++;
}

/* The early return is inlined, the rest becomes partial.part.0. */
static void partial(long *p)
{
	if (!p || zero)
		return;
	for (long i = 0; i < 300; i++)
		burn(1000);
	for (long i = 0; i < 4; i++)
		sink += p[i] * 3;
	sink += p[0];
	if (sink == -1)
		abort();
}

__attribute__((noinline)) void caller_one(long *p)
{
	partial(p);
	BARRIER();
}

__attribute__((noinline)) void caller_two(long *p)
{
	partial(p + 1);
	BARRIER();
}

int main(void)
{
	struct pair p = { 1, 300 };
	long array[8] = { 0 };

	ready();
	for (;;) {
		if (!setjmp(back))
			chilly(zero);
		BARRIER();
		constant(300 + zero, 1);
		BARRIER();
		constant(301 + zero, 1);
		BARRIER();
		scalar(&p);
		BARRIER();
		caller_one(array);
		BARRIER();
		caller_two(array);
		BARRIER();
	}
}
