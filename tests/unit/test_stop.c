// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stop.h"

static void every_stop_has_words_of_its_own(void **state)
{
	for (unsigned int i = 0; i < RPROF_STOP_MAX; i++) {
		assert_string_not_equal(stop_name(i), "unknown stop");
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(stop_name(i), stop_name(k));
	}
}

static void words_need_no_escape(void **state)
{
	for (unsigned int i = 0; i < RPROF_STOP_MAX; i++)
		assert_int_equal(strspn(stop_name(i), "abcdefghijklmnopqrstuvwxyzP 0123456789-"),
				 strlen(stop_name(i)));
}

static void number_past_the_end_is_named_too(void **state)
{
	assert_string_equal(stop_name(RPROF_STOP_MAX), "unknown stop");
	assert_string_equal(stop_name(255), "unknown stop");
	assert_string_equal(stop_name(~0u), "unknown stop");
}

static void losses_are_told_from_ends_of_a_walk(void **state)
{
	assert_false(stop_is_loss(RPROF_STOP_END));
	assert_false(stop_is_loss(RPROF_STOP_KSTACK));
	assert_true(stop_is_loss(RPROF_STOP_LOST_RING));
	assert_true(stop_is_loss(RPROF_STOP_LOST_SPACE));
	assert_false(stop_is_loss(RPROF_STOP_OTHER_NS));
	assert_true(stop_is_loss(RPROF_STOP_LOST_CHILD));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_stop_has_words_of_its_own),
		cmocka_unit_test(words_need_no_escape),
		cmocka_unit_test(number_past_the_end_is_named_too),
		cmocka_unit_test(losses_are_told_from_ends_of_a_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
