// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The workload of `make demo`: a call tree whose shares are known by construction. parse takes
 * 60 % of the work (two thirds of it in tokenize), compress 30 % (two thirds in match), report 10 %.
 */
#include <stdint.h>

static volatile uint64_t sink;

/* One unit of work; inlined, so that it is its caller's own time. */
static inline __attribute__((always_inline)) void work(unsigned int units)
{
	uint64_t x = sink | 1;

	for (unsigned int i = 0; i < units * 1000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	sink = x;
}

/* Keeps a call from becoming a jump, which would take its caller's frame away. */
#define CALL(f)                                                                                    \
	do {                                                                                       \
		f;                                                                                 \
		__asm__ volatile("" ::: "memory");                                                 \
	} while (0)

static __attribute__((noinline)) void tokenize(void)
{
	work(40);
}

static __attribute__((noinline)) void parse(void)
{
	CALL(tokenize());
	work(20);
}

static __attribute__((noinline)) void match(void)
{
	work(20);
}

static __attribute__((noinline)) void compress(void)
{
	CALL(match());
	work(10);
}

static __attribute__((noinline)) void report(void)
{
	work(10);
}

int main(void)
{
	for (;;) {
		CALL(parse());
		CALL(compress());
		CALL(report());
	}
}
