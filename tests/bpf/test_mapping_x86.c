// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The mapping table: the search, and which table counts for a sample. */
#include "thread_x86.h"

#include "native.bpf.h"

#define FP (STACK + 0x8000)

/* The search. */

static bool holds(const struct rprof_mapping *m, u64 addr)
{
	return addr >= m->start && addr < m->end;
}

/* What find_mapping() must find: one after the other, and the main stack may have grown. */
static const struct rprof_mapping *linear(const struct rprof_mapping *m, u32 n, u64 addr)
{
	for (u32 i = 0; i < n; i++) {
		if (holds(&m[i], addr))
			return &m[i];
		if (addr < m[i].start)
			return m[i].flags & RPROF_MAPPING_GROWSDOWN ? &m[i] : NULL;
	}
	return NULL;
}

static void assert_same_as_linear(const struct rprof_mapping *m, u32 n, u64 addr)
{
	const struct rprof_mapping *expected = linear(m, n, addr);
	struct scratch *s = host_scratch(0);

	s->want = addr;
	assert_int_equal(find_mapping(0), expected != NULL);
	if (expected)
		assert_memory_equal(&s->found, expected, sizeof(*expected));
}

static void take(const struct rprof_mapping *m, u32 n, u32 first)
{
	struct scratch *s = host_scratch(0);

	host_table(0, 1, 0, first, m, n);
	s->table_first = first;
	s->table_count = n;
}

/* @n mappings, some side by side, some apart; @growsdown of 256 grow. */
static void random_mappings(struct rprof_mapping *m, u32 n, u32 growsdown, u64 *random)
{
	u64 at = 0x10000;

	for (u32 i = 0; i < n; i++) {
		u64 r = next_random(random);

		at += r % 3 * HOST_PAGE;
		m[i] = (struct rprof_mapping){ .start = at, .module = i, .bias = r };
		at += (1 + r / 7 % 5) * HOST_PAGE;
		m[i].end = at;
		m[i].flags = r >> 40 & (RPROF_MAPPING_EXEC | RPROF_MAPPING_STACK);
		if ((r >> 50 & 255) < growsdown)
			m[i].flags |= RPROF_MAPPING_GROWSDOWN;
	}
}

static void compare_all(u32 growsdown)
{
	static const u32 sizes[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 100, 4095, 4096, 4097, 8191, 8192 };
	static struct rprof_mapping m[RPROF_MAX_MAPPINGS];
	u64 random = 42;

	for (u32 k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		u32 n = sizes[k];

		random_mappings(m, n, growsdown, &random);
		take(m, n, n % 2 ? 0 : 5000);
		for (u32 i = 0; i < n; i += 1 + n / 200) {
			assert_same_as_linear(m, n, m[i].start - 1);
			assert_same_as_linear(m, n, m[i].start);
			assert_same_as_linear(m, n, m[i].end - 1);
			assert_same_as_linear(m, n, m[i].end);
		}
		for (u32 i = 0; i < 300; i++) {
			u64 range = n ? m[n - 1].end + 0x10000 : 0x100000;

			assert_same_as_linear(m, n, next_random(&random) % range);
		}
		assert_same_as_linear(m, n, 0);
		assert_same_as_linear(m, n, ~0ULL);
		if (n)
			assert_same_as_linear(m, n, m[n - 1].start);
	}
}

static void search_finds_what_a_linear_one_finds(void **state)
{
	compare_all(0);
}

static void search_finds_the_mapping_that_grew_down(void **state)
{
	compare_all(64);
}

/* The layouts that are met: [stack] last, or before vvar, vdso, and vsyscall. */
static void main_stack_grew_in_every_layout(void **state)
{
	for (u32 below = 0; below < 40; below++) {
		for (u32 above = 0; above < 4; above++) {
			u32 n = below + 1 + above;
			struct rprof_mapping m[44] = {};

			for (u32 i = 0; i < n; i++) {
				m[i].start = 0x100000 * (i + 1ULL);
				m[i].end = m[i].start + HOST_PAGE;
			}
			m[below].flags = RPROF_MAPPING_STACK | RPROF_MAPPING_GROWSDOWN;
			take(m, n, 3);
			assert_same_as_linear(m, n, m[below].start - 1);
			assert_same_as_linear(m, n, m[below].start - 0x1000);
		}
	}
}

static void run_beyond_the_map_ends_the_search(void **state)
{
	struct scratch *s = host_scratch(0);

	s->table_first = 65530;
	s->table_count = 100;
	s->want = 0x1000;
	assert_int_equal(find_mapping(0), 0);
	s->table_first = ~0u - 4;
	assert_int_equal(find_mapping(0), 0);
}

/* Which table counts. */

static void sp_below_a_stack_that_grew_is_bound_to_it(void **state)
{
	struct rprof_mapping m[N_MAPPINGS];
	struct seen seen;

	memcpy(m, thread_mappings, sizeof(m));
	m[3].start = STACK + 0x10000;
	thread_table(1, m, N_MAPPINGS);
	put_chain(FP, 3, 64);
	put_frame(FP + 128, STACK_END, RA(2));
	seen = sample_at(FP);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_BOUNDS);
}

static void sp_in_no_stack_is_unbound(void **state)
{
	static const u64 sps[] = { 0x1000, DATA_END, TEXT + 0x1000, LIB + 0x100, STACK_END };

	put_chain(FP, 3, 64);

	for (u32 i = 0; i < sizeof(sps) / sizeof(sps[0]); i++) {
		struct seen seen = sample_user(PC, sps[i], sps[i] < FP ? FP : 0);

		assert_frame(&seen, 0, PC, RPROF_HOW_PC | RPROF_NATIVE_UNBOUND);
		assert_int_equal(seen.stop, RPROF_STOP_END);
	}
}

static void other_private_memory_may_be_a_stack(void **state)
{
	struct seen seen;

	host_user_region(DATA, DATA_END - DATA);
	put_chain(DATA + 0x1000, 3, 64);
	put_frame(DATA + 0x1080, DATA_END, RA(2));
	seen = sample_at(DATA + 0x1000);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_BOUNDS);
	/* The next sample is on the main stack again. */
	put_chain(FP, 2, 64);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static void assert_unchecked(void)
{
	struct seen seen;

	put_chain(FP, 2, 64);
	put_frame(FP + 64, 0, DATA);
	seen = sample_at(FP);
	assert_int_equal(seen.stack->space, 0);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC | RPROF_NATIVE_UNCHECKED);
	assert_frame(&seen, 1, RA(0), RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	assert_frame(&seen, 2, DATA, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void table_of_another_exec_is_not_used(void **state)
{
	host_table(0, 1, 1, FIRST, thread_mappings, N_MAPPINGS);
	assert_unchecked();
	host_table(0, 1, 0, FIRST, thread_mappings, N_MAPPINGS);
	assert_int_equal(sample_at(FP).stack->space, 1);
	rprof_exec(NULL);
	assert_unchecked();
}

static void half_written_table_is_not_used(void **state)
{
	host_table(0, 0, 0, FIRST, thread_mappings, N_MAPPINGS);
	assert_unchecked();
}

static void process_without_a_table_is_unchecked(void **state)
{
	host_proc(TGID, 0, RPROF_PROC_FOLLOW, RPROF_MAX_PROCS);
	assert_unchecked();
}

static void process_nobody_knows_is_unchecked(void **state)
{
	struct rprof_config config = thread_config();

	config.filter = RPROF_FILTER_ALL;
	host_config(&config);
	host_delete(&rprof_procs, TGID);
	assert_unchecked();
}

/* TEXT is data now, and the stack ends where the second frame lies. */
static const struct rprof_mapping other_mappings[] = {
	{ .start = TEXT, .end = TEXT_END, .flags = RPROF_MAPPING_STACK },
	{ .start = LIB, .end = LIB_END, .flags = RPROF_MAPPING_EXEC },
	{ .start = STACK, .end = FP + 64, .flags = RPROF_MAPPING_STACK },
};

static void assert_new_mappings_count(void)
{
	struct seen seen;

	put_frame(FP, FP + 64, RA(0));
	seen = sample_at(FP);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.stop, RPROF_STOP_NOT_EXEC);
	put_frame(FP, FP + 64, LIB);
	seen = sample_at(FP);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.stop, RPROF_STOP_BOUNDS);
}

/*
 * The stack, and code of two mappings: the one last met is remembered in one place, the other in
 * another. @turn says which is which.
 */
static void remember_mappings(u32 turn)
{
	put_chain(FP, 2, 64);
	host_poke(FP + 64 * turn + 8, LIB);
	for (u32 i = 0; i < 2; i++) {
		struct seen seen = sample_at(FP);

		assert_int_equal(seen.n, 3);
		assert_int_equal(seen.stop, RPROF_STOP_END);
	}
}

static void remembered_mappings_save_the_search(void **state)
{
	u64 searches;

	put_chain(FP, 50, 64);
	for (u32 i = 0; i < 50; i += 2)
		host_poke(FP + i * 64 + 8, LIB + i);
	/* Words that are no code would be searched for each time. */
	host_poke(FP - 64, LIB);
	host_poke(FP - 56, LIB);
	sample_at(FP);
	searches = counter(RPROF_COUNT_SEARCHES);
	assert_in_range(searches, 2, 4);
	sample_at(FP);
	assert_int_equal(counter(RPROF_COUNT_SEARCHES), searches);
}

static void remembered_mappings_are_dropped_with_the_space(void **state)
{
	for (u32 turn = 0; turn < 2; turn++) {
		thread_setup(state);
		remember_mappings(turn);
		thread_table(2, other_mappings, 3);
		assert_new_mappings_count();
	}
}

static void remembered_mappings_are_dropped_with_the_run(void **state)
{
	for (u32 turn = 0; turn < 2; turn++) {
		thread_setup(state);
		remember_mappings(turn);
		host_table(0, 1, 0, FIRST + 100, other_mappings, 3);
		assert_new_mappings_count();
	}
}

/* Another process whose table happens to have the same space number and the same place. */
static void remembered_mappings_are_dropped_with_the_process(void **state)
{
	for (u32 turn = 0; turn < 2; turn++) {
		thread_setup(state);
		remember_mappings(turn);
		thread_table(1, other_mappings, 3);
		host.tgid = TGID + 1;
		host_proc(TGID + 1, 0, RPROF_PROC_FOLLOW, 0);
		assert_new_mappings_count();
	}
}

static void remembered_mappings_are_not_asked_without_a_table(void **state)
{
	remember_mappings(0);
	thread_no_table();
	assert_unchecked();
}

/* Two processes in turn: each finds its own mappings every time. */
static void processes_in_turn_keep_their_mappings_apart(void **state)
{
	host_proc(TGID + 1, 0, RPROF_PROC_FOLLOW, 1);
	host_table(1, 1, 0, FIRST + 100, other_mappings, 3);
	put_chain(FP, 2, 64);
	for (u32 i = 0; i < 6; i++) {
		struct seen seen;

		host.tgid = TGID + i % 2;
		seen = sample_at(FP);
		assert_int_equal(seen.n, i % 2 ? 1 : 3);
		assert_int_equal(seen.stop, i % 2 ? RPROF_STOP_NOT_EXEC : RPROF_STOP_END);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(search_finds_what_a_linear_one_finds),
		THREAD_TEST(search_finds_the_mapping_that_grew_down),
		THREAD_TEST(main_stack_grew_in_every_layout),
		THREAD_TEST(run_beyond_the_map_ends_the_search),
		THREAD_TEST(sp_below_a_stack_that_grew_is_bound_to_it),
		THREAD_TEST(sp_in_no_stack_is_unbound),
		THREAD_TEST(other_private_memory_may_be_a_stack),
		THREAD_TEST(table_of_another_exec_is_not_used),
		THREAD_TEST(half_written_table_is_not_used),
		THREAD_TEST(process_without_a_table_is_unchecked),
		THREAD_TEST(process_nobody_knows_is_unchecked),
		THREAD_TEST(remembered_mappings_save_the_search),
		THREAD_TEST(remembered_mappings_are_dropped_with_the_space),
		THREAD_TEST(remembered_mappings_are_dropped_with_the_run),
		THREAD_TEST(remembered_mappings_are_dropped_with_the_process),
		THREAD_TEST(remembered_mappings_are_not_asked_without_a_table),
		THREAD_TEST(processes_in_turn_keep_their_mappings_apart),
	};

	return cmocka_run_group_tests_name("mapping_x86", tests, NULL, NULL);
}
