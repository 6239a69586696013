// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "array.h"

static void array_keeps_its_elements_and_doubles(void **state)
{
	size_t cap = 0, grown = 0;
	int *a = NULL;

	for (size_t i = 0; i < 100000; i++) {
		size_t before = cap;

		a = array_grow(a, &cap, i + 1, sizeof(*a));
		assert_non_null(a);
		assert_true(cap > i);
		grown += cap != before;
		a[i] = (int)i;
	}
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(a[i], i);
	assert_true(grown < 20);
	free(a);
}

static void size_that_overflows_is_refused(void **state)
{
	size_t cap = 16;
	char *a = malloc(16);

	assert_null(array_grow(a, &cap, SIZE_MAX / 4, 16));
	assert_null(array_grow(a, &cap, SIZE_MAX, 1));
	assert_int_equal(cap, 16);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(array_keeps_its_elements_and_doubles),
		cmocka_unit_test(size_that_overflows_is_refused),
	};

	return cmocka_run_group_tests_name("array", tests, NULL, NULL);
}
