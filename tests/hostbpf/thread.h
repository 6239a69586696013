/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread to sample: a small process with text, a library, data and a stack, its mapping table and
 * its kernel side; and what became of the sample. The same for both architectures: how frames and
 * registers are laid out is thread_ARCH.h's.
 */
#ifndef RPROF_HOSTBPF_THREAD_H
#define RPROF_HOSTBPF_THREAD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hostbpf.h"
#include "rules.h"

#define TGID 100u
#define TID 101u

/* The mappings. Of TEXT one page is readable, of DATA and LIB none, of STACK all. */
#define TEXT 0x400000ULL
#define TEXT_END 0x500000ULL
#define DATA 0x600000ULL
#define DATA_END 0x700000ULL
#define LIB 0x7f0000000000ULL
#define LIB_END 0x7f0000100000ULL
#define STACK 0x7ff000000000ULL
#define STACK_END 0x7ff000100000ULL

#define PC (TEXT + 0x100) /* zeros lie there: no instruction that proves anything */
#define RA(i) (TEXT + 0x2000 + 16 * (i)) /* return address of the i-th frame of a chain */
#define N_MAPPINGS 4
#define FIRST 10 /* of the process's run in rprof_mappings */

#define KTASK 0xffff888000000000ULL
#define KSTACK 0xffffc90000000000ULL
#define KSTACK_SIZE 16384u
#define TASK_STACK 32u
#define TASK_MM 1024u

static const struct rprof_mapping thread_mappings[N_MAPPINGS] = {
	{ .start = TEXT, .end = TEXT_END, .module = 1, .flags = RPROF_MAPPING_EXEC },
	{ .start = DATA, .end = DATA_END, .module = 1, .flags = RPROF_MAPPING_STACK },
	{ .start = LIB, .end = LIB_END, .module = 2, .flags = RPROF_MAPPING_EXEC },
	{ .start = STACK, .end = STACK_END, .flags = RPROF_MAPPING_STACK | RPROF_MAPPING_GROWSDOWN },
};

static inline struct rprof_config thread_config(void)
{
	return (struct rprof_config){
		.hash_seed = 0x5bd1e995cafef00dULL,
		.hash_key = 0x9e3779b97f4a7c15ULL,
		.filter = RPROF_FILTER_TGID,
		.task_stack = TASK_STACK,
		.task_mm = TASK_MM,
		.thread_size = KSTACK_SIZE,
		.ring_quarter = 1 << 20,
		.max_kernel = RPROF_MAX_KERNEL,
	};
}

/* Give the process another mapping table in the same run. */
static inline void thread_table(u32 space, const struct rprof_mapping *m, u32 n)
{
	host_table(0, space, 0, FIRST, m, n);
}

/* As if no mapping table had been written yet. */
static inline void thread_no_table(void)
{
	host_table(0, 0, 0, 0, NULL, 0);
}

/* cmocka setup of most tests. */
static inline int thread_setup(void **state)
{
	struct rprof_config config = thread_config();

	host_reset();
	host_config(&config);
	host.tgid = TGID;
	host.tid = TID;
	host.task = KTASK;
	host_user_region(TEXT, HOST_PAGE);
	host_user_region(STACK, STACK_END - STACK);
	host_kernel_region(KTASK, HOST_PAGE);
	host_kernel_region(KSTACK, KSTACK_SIZE);
	host_kernel_poke(KTASK + TASK_STACK, KSTACK);
	host_kernel_poke(KTASK + TASK_MM, KTASK + 8);
	host_proc(TGID, 0, RPROF_PROC_FOLLOW, 0);
	thread_table(1, thread_mappings, N_MAPPINGS);
	return 0;
}

static inline int thread_teardown(void **state)
{
	host_reset();
	return 0;
}

#define THREAD_TEST(f) cmocka_unit_test_setup_teardown(f, thread_setup, thread_teardown)

/* The last sample that the ring accepted, with its stack. */
struct seen {
	const struct rprof_sample *sample;
	const struct rprof_stack *stack;
	const u64 *kernel;
	const struct rprof_native_frame *native;
	u32 n; /* native frames */
	u32 stop; /* of the native walk */
};

static inline struct seen last_seen(void)
{
	struct seen seen = {};
	const struct host_record *last = &host.records[host.n_records - 1];

	assert_true(host.n_records > 0);
	seen.sample = last->data;
	assert_int_equal(seen.sample->h.type, RPROF_RECORD_SAMPLE);
	seen.stack = find_stack(seen.sample->stack, host.n_records - 1);
	assert_non_null(seen.stack);
	assert_null(record_wrong(last));
	assert_null(stack_wrong(seen.stack));
	seen.kernel = (const u64 *)(seen.stack + 1);
	seen.native = (const void *)(seen.kernel + seen.stack->n_kernel);
	seen.n = seen.stack->n_native;
	seen.stop = seen.stack->stop_native;
	return seen;
}

static inline void assert_frame(const struct seen *seen, u32 i, u64 pc, u64 flags)
{
	assert_true(i < seen->n);
	assert_int_equal(seen->native[i].pc, pc);
	assert_int_equal(seen->native[i].flags, flags);
}

/* The last entry says that the frame at @addr could not be read, @distance above the one before. */
static inline void assert_next(const struct seen *seen, u64 addr, u64 distance)
{
	assert_int_equal(seen->stop, RPROF_STOP_FAULT);
	assert_true(seen->n > 0);
	assert_int_equal(seen->native[seen->n - 1].pc, addr);
	assert_int_equal(seen->native[seen->n - 1].flags, distance << 16 | RPROF_NATIVE_NEXT);
}

/*
 * Native frames [from, n) are the callers RA(0), RA(1), ... by the chain, and the walk ended so; with
 * the entry for where it ended if that was a fault in a bound stack.
 */
static inline void assert_chain(const struct seen *seen, u32 from, u32 n_callers, u64 extra,
				u32 stop)
{
	assert_int_equal(seen->stop, stop);
	assert_int_equal(seen->n, from + n_callers + (stop == RPROF_STOP_FAULT && !extra));
	for (u32 i = 0; i < n_callers; i++)
		assert_frame(seen, from + i, RA(i), RPROF_HOW_CHAIN | extra);
}

static inline u64 counter(u32 index)
{
	return host_cpu()->counters[index];
}

/* xorshift64*: the same numbers on every machine. */
static inline u64 next_random(u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

#endif
