// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "code_ranges.h"

static int add(struct code_ranges *r, __u64 start, __u64 size, __u64 order, const char *name)
{
	return code_ranges_add(r, start, size, order, name, strlen(name));
}

static void expect_name(struct code_ranges *r, __u64 addr, __u64 order, const char *name)
{
	const char *found = code_ranges_find(r, addr, order);

	if (!name)
		assert_null(found);
	else if (!found)
		fail_msg("nothing at %#llx, expected %s", addr, name);
	else
		assert_string_equal(found, name);
}

static void range_reaches_to_its_end_and_no_further(void **state)
{
	struct code_ranges r = { 0 };

	expect_name(&r, 0, 0, NULL);
	assert_int_equal(add(&r, 0x1000, 0x10, 0, "f"), 0);
	expect_name(&r, 0xfff, 0, NULL);
	expect_name(&r, 0x1000, 0, "f");
	expect_name(&r, 0x100f, 0, "f");
	expect_name(&r, 0x1010, 0, NULL);
	code_ranges_fini(&r);
}

static void newest_of_overlapping_ranges_counts(void **state)
{
	struct code_ranges r = { 0 };

	add(&r, 0x1000, 0x100, 0, "wide");
	add(&r, 0x1040, 0x10, 0, "inside");
	add(&r, 0x1048, 0x40, 0, "over its end");
	expect_name(&r, 0x1047, 0, "inside");
	expect_name(&r, 0x1048, 0, "over its end");
	expect_name(&r, 0x1088, 0, "wide");
	add(&r, 0, ~0ULL, 0, "all");
	expect_name(&r, 0x1048, 0, "all");
	expect_name(&r, ~0ULL - 1, 0, "all");
	code_ranges_fini(&r);
}

static void what_was_there_at_a_time_is_found(void **state)
{
	struct code_ranges r = { 0 };

	/* Not added in the order of time. */
	add(&r, 0x1000, 0x100, 30, "third");
	add(&r, 0x1000, 0x100, 10, "first");
	add(&r, 0x1000, 0x100, 20, "");
	expect_name(&r, 0x1000, 9, NULL);
	expect_name(&r, 0x1000, 10, "first");
	expect_name(&r, 0x1000, 25, NULL);
	expect_name(&r, 0x1000, ~0ULL, "third");
	code_ranges_fini(&r);
}

static void impossible_ranges_are_refused(void **state)
{
	struct code_ranges r = { 0 };
	char *name = malloc(CODE_RANGES_MAX_NAME + 1);

	memset(name, 'x', CODE_RANGES_MAX_NAME + 1);
	assert_int_equal(add(&r, 0x1000, 0, 0, "empty"), -EINVAL);
	assert_int_equal(add(&r, ~0ULL, 2, 0, "beyond"), -EINVAL);
	assert_int_equal(code_ranges_add(&r, 1, 1, 0, name, CODE_RANGES_MAX_NAME + 1), -EINVAL);
	assert_int_equal(code_ranges_add(&r, 1, 1, 0, name, CODE_RANGES_MAX_NAME), 0);
	assert_int_equal(strlen(code_ranges_find(&r, 1, 0)), CODE_RANGES_MAX_NAME);
	free(name);
	code_ranges_fini(&r);
}

/* Against a search of all, for ranges of all kinds in random order, in between and at the end. */
static void random_ranges_are_found_as_by_looking_at_all(void **state)
{
	enum { N = 3000, SPACE = 2000 };
	static struct {
		__u64 start, size, order;
	} all[N];
	struct code_ranges r = { 0 };

	srand(1);
	for (int i = 0; i < N; i++) {
		char name[16];

		all[i].start = (__u64)(rand() % SPACE);
		all[i].size = 1 + (__u64)(rand() % (rand() % 50 ? 20 : SPACE));
		all[i].order = (__u64)(rand() % 100);
		sprintf(name, "%d", i);
		assert_int_equal(add(&r, all[i].start, all[i].size, all[i].order, name), 0);
		for (int k = 0; k < 10; k++) {
			__u64 addr = (__u64)(rand() % SPACE), order = (__u64)(rand() % 100);
			int best = -1;

			for (int m = 0; m <= i; m++) {
				if (addr - all[m].start < all[m].size && all[m].order <= order &&
				    (best < 0 || all[m].order >= all[best].order))
					best = m;
			}
			sprintf(name, "%d", best);
			expect_name(&r, addr, order, best < 0 ? NULL : name);
		}
	}
	code_ranges_fini(&r);
}

static void number_of_ranges_is_limited(void **state)
{
	struct code_ranges r = { 0 };
	int err = 0;

	for (size_t i = 0; i < CODE_RANGES_MAX; i++)
		err |= add(&r, i * 16, 16, 0, "f");
	assert_int_equal(err, 0);
	assert_int_equal(add(&r, 0, 1, 0, "f"), -E2BIG);
	expect_name(&r, 16 * (__u64)CODE_RANGES_MAX - 1, 0, "f");
	expect_name(&r, 16 * (__u64)CODE_RANGES_MAX, 0, NULL);
	assert_true(code_ranges_size(&r) < 100u << 20);
	code_ranges_fini(&r);
	/* All at one place: no search of a million, and no name that was not compared with all. */
	for (size_t i = 0; i < CODE_RANGES_MAX; i++)
		add(&r, 0x1000, 16, 0, "f");
	expect_name(&r, 0x1000, 0, NULL);
	code_ranges_fini(&r);
}

static void bytes_of_names_are_limited(void **state)
{
	struct code_ranges r = { 0 };
	char *name = calloc(1, CODE_RANGES_MAX_NAME);
	int n = 0;

	memset(name, 'x', CODE_RANGES_MAX_NAME);
	while (!code_ranges_add(&r, (__u64)n, 1, 0, name, CODE_RANGES_MAX_NAME))
		n++;
	assert_int_equal(n, CODE_RANGES_MAX_NAMES / (CODE_RANGES_MAX_NAME + 1) - 1);
	/* Short ones may still fit. */
	assert_int_equal(add(&r, 0x100000, 1, 0, "f"), 0);
	free(name);
	code_ranges_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_reaches_to_its_end_and_no_further),
		cmocka_unit_test(newest_of_overlapping_ranges_counts),
		cmocka_unit_test(what_was_there_at_a_time_is_found),
		cmocka_unit_test(impossible_ranges_are_refused),
		cmocka_unit_test(random_ranges_are_found_as_by_looking_at_all),
		cmocka_unit_test(number_of_ranges_is_limited),
		cmocka_unit_test(bytes_of_names_are_limited),
	};

	return cmocka_run_group_tests_name("code_ranges", tests, NULL, NULL);
}
