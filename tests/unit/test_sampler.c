// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sampler.h"

#define N 8

static void cpu_lists_are_read(void **state)
{
	static const struct {
		const char *list, *set;
	} cases[] = {
		{ "0\n", "\1\0\0\0\0\0\0\0" },	     { "0-1\n", "\1\1\0\0\0\0\0\0" },
		{ "0,2-3,7\n", "\1\0\1\1\0\0\0\1" }, { "7", "\0\0\0\0\0\0\0\1" },
		{ "\n", "\0\0\0\0\0\0\0\0" },
	};
	unsigned char set[N];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(set, 9, sizeof(set));
		assert_int_equal(cpus_parse(cases[i].list, set, N), 0);
		assert_memory_equal(set, cases[i].set, N);
	}
}

static void malformed_cpu_lists_are_refused(void **state)
{
	static const char *const lists[] = {
		"x", "1-", "3-1", "0,x", "8", "0-8", "1 2", "0-1-2", "99999999999999999999", "-1",
	};
	unsigned char set[N];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		assert_int_equal(cpus_parse(lists[i], set, N), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_lists_are_read),
		cmocka_unit_test(malformed_cpu_lists_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
