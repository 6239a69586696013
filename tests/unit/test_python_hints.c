// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "python_hints.h"
#include "python_offsets.h"
#include "python_tables_of_a_test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* A process: a runtime, interpreters, thread states. */
#define BASE 0x10000ull
#define RUNTIME BASE
#define INTERPRETER(i) (BASE + 0x4000 + 0x2000 * (__u64)(i))
#define N_INTERPRETERS 100
#define TSTATE(i) (INTERPRETER(N_INTERPRETERS) + 0x200 * (__u64)(i))
#define N_STATES 5000
#define IMAGE_SIZE (TSTATE(N_STATES) - BASE)
#define TID 1000u
#define NEVER (~0ULL)

static unsigned char image[IMAGE_SIZE];
static unsigned long reads;
static struct rprof_python p;
static struct python_hint hints[PYTHON_HINTS_MAX];

static void put(__u64 addr, const void *from, size_t len)
{
	assert_true(addr >= BASE && addr + len <= BASE + IMAGE_SIZE);
	memcpy(image + (addr - BASE), from, len);
}

static void put_word(__u64 addr, __u64 word)
{
	put(addr, &word, sizeof(word));
}

static size_t read_image(void *ctx, const struct python_range *ranges, size_t n)
{
	reads++;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].addr < BASE || ranges[i].len > IMAGE_SIZE ||
		    ranges[i].addr - BASE > IMAGE_SIZE - ranges[i].len)
			return i;
		memcpy(ranges[i].to, image + (ranges[i].addr - BASE), ranges[i].len);
	}
	return n;
}

static size_t find_until(__u64 deadline_ns)
{
	const struct python_memory m = { .read = read_image };

	reads = 0;
	return python_hints_find(&m, &p, deadline_ns, hints);
}

static size_t find(void)
{
	return find_until(NEVER);
}

static void bind(unsigned int i, bool bound)
{
	put(TSTATE(i) + p.ts_status, &(__u32){ 3u | (__u32)bound << p.status_bit }, 4);
}

/* State @i, before @next in the list of interpreter @of. */
static void put_state(unsigned int i, unsigned int of, __u64 next, unsigned int tid)
{
	put_word(TSTATE(i) + p.ts_next, next);
	put_word(TSTATE(i) + p.ts_interp, INTERPRETER(of));
	put_word(TSTATE(i) + p.ts_native_tid, tid);
	bind(i, true);
}

/* Two interpreters, the newer one first; of two states and of three, each of its own thread. */
static void begin(size_t table)
{
	unsigned char bytes[PYTHON_OFFSETS_MAX];
	char why[PYTHON_WHY];

	memset(image, 0, sizeof(image));
	assert_int_equal(python_offsets_parse(bytes, real_table(table, bytes), &p, why), 0);
	p.flags |= RPROF_PYTHON_NATIVE_TID;
	p.runtime = RUNTIME;
	put_word(RUNTIME + p.runtime_interpreters, INTERPRETER(1));
	put_word(INTERPRETER(1) + p.interp_next, INTERPRETER(0));
	put_word(INTERPRETER(1) + p.interp_threads, TSTATE(0));
	put_word(INTERPRETER(0) + p.interp_threads, TSTATE(2));
	put_state(0, 1, TSTATE(1), TID);
	put_state(1, 1, 0, TID + 1);
	put_state(2, 0, TSTATE(3), TID + 2);
	put_state(3, 0, TSTATE(4), TID + 3);
	put_state(4, 0, 0, TID + 4);
}

static void states_of_all_interpreters_are_found(void **state)
{
	for (size_t table = 0; table < ARRAY_SIZE(real_tables); table++) {
		begin(table);
		assert_int_equal(find(), 5);
		for (unsigned int i = 0; i < 5; i++) {
			assert_int_equal(hints[i].tid, TID + i);
			assert_int_equal(hints[i].tstate, TSTATE(i));
		}
	}
}

static void of_two_states_of_a_thread_the_innermost_counts(void **state)
{
	begin(0);
	put_state(2, 0, TSTATE(3), TID);
	bind(2, false);
	bind(4, false);
	assert_int_equal(find(), 3);
	assert_int_equal(hints[0].tstate, TSTATE(0));
	assert_int_equal(hints[1].tstate, TSTATE(1));
	assert_int_equal(hints[2].tstate, TSTATE(3));
}

static void what_has_no_number_of_a_thread_is_left_out(void **state)
{
	static const __u64 numbers[] = { 0, 1ull << 31, 1ull << 32 | TID, ~0ull };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		begin(0);
		put_word(TSTATE(3) + p.ts_native_tid, numbers[i]);
		assert_int_equal(find(), 4);
		assert_int_equal(hints[3].tid, TID + 4);
	}
}

/* Its numbers are of another pid namespace, or nothing says which state counts. */
static void where_it_is_of_no_use_nothing_is_read(void **state)
{
	const __u32 flags[] = { RPROF_PYTHON_NATIVE_TID, RPROF_PYTHON_STATUS };
	const struct python_build old = { .version = 0x030b07f0 };
	char why[PYTHON_WHY];

	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		begin(0);
		p.flags &= ~flags[i];
		assert_int_equal(find(), 0);
		assert_int_equal(reads, 0);
	}
	assert_int_equal(python_offsets_builtin(&old, &p, why), 0);
	p.flags |= RPROF_PYTHON_NATIVE_TID;
	assert_int_equal(find(), 0);
	assert_int_equal(reads, 0);
	begin(0);
	p.ts_read = 520;
	assert_int_equal(find(), 0);
	begin(0);
	p.ts_native_tid = p.ts_read - 7;
	assert_int_equal(find(), 0);
}

static void lists_that_cannot_be_followed_end(void **state)
{
	static const __u64 wrong[] = { 1, 8, 0x7ffffffffff8, (__u64)-8, 1ull << 63, BASE + 4 };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		begin(0);
		put_word(TSTATE(2) + p.ts_next, wrong[i]);
		assert_int_equal(find(), 3);
		put_word(INTERPRETER(1) + p.interp_next, wrong[i]);
		assert_int_equal(find(), 2);
		put_word(INTERPRETER(1) + p.interp_threads, wrong[i]);
		assert_int_equal(find(), 0);
		begin(0);
		put_word(RUNTIME + p.runtime_interpreters, wrong[i]);
		assert_int_equal(find(), 0);
	}
	/* A state that was freed, and is another interpreter's. */
	begin(0);
	put_word(TSTATE(2) + p.ts_interp, INTERPRETER(1));
	assert_int_equal(find(), 2);
	/* Not initialized yet. */
	begin(0);
	put_word(RUNTIME + p.runtime_interpreters, 0);
	assert_int_equal(find(), 0);
}

static void cycles_and_long_lists_have_an_end(void **state)
{
	begin(0);
	put_word(TSTATE(1) + p.ts_next, TSTATE(0));
	assert_int_equal(find(), PYTHON_HINTS_MAX);
	assert_int_equal(reads, 2 + PYTHON_HINTS_MAX);
	put_word(TSTATE(1) + p.ts_next, TSTATE(1));
	assert_int_equal(find(), PYTHON_HINTS_MAX);
	begin(0);
	put_word(INTERPRETER(0) + p.interp_next, INTERPRETER(1));
	assert_int_equal(find(), 64 / 2 * 5);
	begin(0);
	for (unsigned int i = 0; i < N_INTERPRETERS; i++) {
		put_word(INTERPRETER(i) + p.interp_next, INTERPRETER(i + 1));
		put_word(INTERPRETER(i) + p.interp_threads, TSTATE(i));
		put_state(i, i, 0, TID + i);
	}
	put_word(RUNTIME + p.runtime_interpreters, INTERPRETER(0));
	assert_int_equal(find(), 64);
	for (unsigned int i = 0; i < N_STATES; i++)
		put_state(i, 0, i + 1 < N_STATES ? TSTATE(i + 1) : 0, TID + i);
	assert_int_equal(find(), PYTHON_HINTS_MAX);
	assert_int_equal(hints[PYTHON_HINTS_MAX - 1].tid, TID + PYTHON_HINTS_MAX - 1);
}

static void when_time_is_up_it_has_what_it_has(void **state)
{
	begin(0);
	assert_int_equal(find_until(0), 1);
	assert_int_equal(hints[0].tid, TID);
	assert_int_equal(reads, 3);
}

/* Any word of the image: no crash, and no hint that is not of an address that was read. */
static void hostile_memory_is_survived(void **state)
{
	static const __u64 hostile[] = { 1,	    8,	       BASE,	   INTERPRETER(0),
					 TSTATE(0), TSTATE(4), 1ull << 63, (__u64)-8 };
	static const __u64 starts[] = { TSTATE(0), TSTATE(2), TSTATE(4) };

	for (size_t at = 0; at < 0x200; at += 8) {
		for (size_t k = 0; k < ARRAY_SIZE(hostile) * ARRAY_SIZE(starts); k++) {
			size_t n;

			begin(0);
			put_word(starts[k % ARRAY_SIZE(starts)] + at,
				 hostile[k / ARRAY_SIZE(starts)]);
			n = find();
			assert_true(n <= PYTHON_HINTS_MAX);
			for (size_t i = 0; i < n; i++)
				assert_true(hints[i].tid && hints[i].tstate % 8 == 0 &&
					    hints[i].tstate - BASE < IMAGE_SIZE);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_of_all_interpreters_are_found),
		cmocka_unit_test(of_two_states_of_a_thread_the_innermost_counts),
		cmocka_unit_test(what_has_no_number_of_a_thread_is_left_out),
		cmocka_unit_test(where_it_is_of_no_use_nothing_is_read),
		cmocka_unit_test(lists_that_cannot_be_followed_end),
		cmocka_unit_test(cycles_and_long_lists_have_an_end),
		cmocka_unit_test(when_time_is_up_it_has_what_it_has),
		cmocka_unit_test(hostile_memory_is_survived),
	};

	return cmocka_run_group_tests_name("python_hints", tests, NULL, NULL);
}
