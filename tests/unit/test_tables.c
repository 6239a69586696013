// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tables.h"

#define N_TABLES 4
#define N_MAPPINGS 64

static struct rprof_table table_mem[N_TABLES];
static struct rprof_mapping mapping_mem[N_MAPPINGS];
static struct rprof_python python_mem[N_TABLES];
static struct rprof_mapping some[N_MAPPINGS];

/* The run of a table that counts. */
static const struct rprof_run *run_of(__u32 index)
{
	return &table_mem[index].runs[table_mem[index].version & 1];
}

static struct tables *make(void)
{
	struct tables *t;

	memset(table_mem, 0, sizeof(table_mem));
	for (unsigned int i = 0; i < N_MAPPINGS; i++)
		some[i] = (struct rprof_mapping){ .start = 4096ULL * i, .end = 4096ULL * (i + 1) };
	assert_int_equal(tables_over(table_mem, N_TABLES, mapping_mem, N_MAPPINGS, python_mem, &t),
			 0);
	return t;
}

static void publish_shows_what_was_given(void **state)
{
	struct tables *t = make();
	__u32 i;

	assert_int_equal(tables_take(t, &i), 0);
	assert_int_equal(tables_publish(t, i, 7, 3, some, 10), 0);
	assert_int_equal(run_of(i)->space, 7);
	assert_int_equal(run_of(i)->execs, 3);
	assert_int_equal(run_of(i)->count, 10);
	assert_memory_equal(&mapping_mem[run_of(i)->first], some, 10 * sizeof(some[0]));
	tables_free(t);
}

/* A reader that is in the middle of the old one finds all of it. */
static void the_run_that_counted_stays_as_it_was(void **state)
{
	const struct rprof_run *old;
	struct rprof_run before;
	struct tables *t = make();
	__u32 i;

	assert_int_equal(tables_take(t, &i), 0);
	assert_int_equal(tables_publish(t, i, 7, 3, some, 10), 0);
	old = run_of(i);
	before = *old;
	assert_int_equal(tables_publish(t, i, 8, 3, some + 10, 12), 0);
	assert_ptr_not_equal(run_of(i), old);
	assert_memory_equal(old, &before, sizeof(before));
	assert_memory_equal(&mapping_mem[before.first], some, 10 * sizeof(some[0]));
	tables_free(t);
}

static void tables_end(void **state)
{
	struct tables *t = make();
	__u32 i, last;

	for (int n = 0; n < N_TABLES; n++)
		assert_int_equal(tables_take(t, &last), 0);
	assert_int_equal(tables_take(t, &i), -E2BIG);
	tables_give_back(t, last);
	assert_int_equal(tables_take(t, &i), 0);
	assert_int_equal(i, last);
	tables_free(t);
}

static void a_run_in_use_is_not_written_before_its_grace_period(void **state)
{
	struct tables *t = make();
	__u32 i, first;

	assert_int_equal(tables_take(t, &i), 0);
	assert_int_equal(tables_publish(t, i, 1, 0, some, 40), 0);
	first = run_of(i)->first;
	/* 24 are free, 40 are in their grace period. */
	assert_int_equal(tables_publish(t, i, 2, 0, some, 20), 0);
	assert_true(run_of(i)->first >= first + 40 || run_of(i)->first + 20 <= first);
	assert_int_equal(tables_publish(t, i, 3, 0, some, 40), -ENOSPC);
	tables_free(t);
}

static void a_full_table_leaves_the_process_unchecked_and_not_wrong(void **state)
{
	struct tables *t = make();
	__u32 a, b;

	assert_int_equal(tables_take(t, &a), 0);
	assert_int_equal(tables_take(t, &b), 0);
	assert_int_equal(tables_publish(t, a, 1, 0, some, 60), 0);
	assert_int_equal(tables_publish(t, b, 1, 0, some, 60), -ENOSPC);
	assert_int_equal(run_of(b)->space, 0);
	assert_int_equal(run_of(a)->space, 1);
	tables_free(t);
}

/* Many publications of random sizes: runs never overlap, and nothing leaks. */
static void runs_never_overlap_and_all_come_back(void **state)
{
	struct tables *t = make();
	__u32 index[N_TABLES];
	unsigned int seed = 1;

	for (int i = 0; i < N_TABLES; i++)
		assert_int_equal(tables_take(t, &index[i]), 0);
	for (int round = 0; round < 200; round++) {
		int i = rand_r(&seed) % N_TABLES;

		tables_publish(t, index[i], round + 1, 0, some, 1 + rand_r(&seed) % 12);
		for (int a = 0; a < N_TABLES; a++)
			for (int b = 0; b < a; b++)
				if (run_of(a)->space && run_of(b)->space)
					assert_true(run_of(a)->first + run_of(a)->count <=
							    run_of(b)->first ||
						    run_of(b)->first + run_of(b)->count <=
							    run_of(a)->first);
		if (round % 20 == 0)
			usleep(TABLES_GRACE_NS / 1000 / 8);
	}
	for (int i = 0; i < N_TABLES; i++)
		tables_give_back(t, index[i]);
	usleep(TABLES_GRACE_NS / 1000 + 20000);
	assert_int_equal(tables_take(t, &index[0]), 0);
	assert_int_equal(tables_publish(t, index[0], 1, 0, some, N_MAPPINGS), 0);
	tables_free(t);
}

static void an_interpreter_counts_for_its_image_alone(void **state)
{
	const struct rprof_python python = { .execs = 77, .version = 0x030f };
	struct tables *t = make();
	__u32 i;

	assert_int_equal(tables_take(t, &i), 0);
	tables_set_python(t, i, &python, 4);
	assert_int_equal(python_mem[i].execs, 5);
	assert_int_equal(python_mem[i].version, 0x030f);
	tables_give_back(t, i);
	assert_int_equal(python_mem[i].execs, 0);
	tables_free(t);
}

/* A process that maps something all the time uses a little of the room, not all of it. */
static void a_small_run_in_its_grace_period_does_not_hold_the_large_one(void **state)
{
	static struct rprof_table tables[2];
	static struct rprof_mapping mappings[4096];
	static struct rprof_python pythons[2];
	const struct rprof_mapping twenty[20] = { { .end = 1 } };
	struct tables *t;
	__u32 i;

	assert_int_equal(tables_over(tables, 2, mappings, 4096, pythons, &t), 0);
	assert_int_equal(tables_take(t, &i), 0);
	for (__u32 n = 0; n < 100; n++)
		assert_int_equal(tables_publish(t, i, n + 1, 0, twenty, 20), 0);
	tables_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(publish_shows_what_was_given),
		cmocka_unit_test(the_run_that_counted_stays_as_it_was),
		cmocka_unit_test(tables_end),
		cmocka_unit_test(an_interpreter_counts_for_its_image_alone),
		cmocka_unit_test(a_small_run_in_its_grace_period_does_not_hold_the_large_one),
		cmocka_unit_test(a_run_in_use_is_not_written_before_its_grace_period),
		cmocka_unit_test(a_full_table_leaves_the_process_unchecked_and_not_wrong),
		cmocka_unit_test(runs_never_overlap_and_all_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
