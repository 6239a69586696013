// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "writer.h"

static void default_is_folded(void **state)
{
	assert_ptr_equal(writer_at(0), &writer_folded);
	assert_ptr_equal(writer_find("folded"), &writer_folded);
}

static void unknown_names_are_not_found(void **state)
{
	assert_null(writer_find(""));
	assert_null(writer_find("fold"));
	assert_null(writer_find("Folded"));
	assert_null(writer_at((size_t)-1));
}

static void every_format_is_complete_and_found_by_its_name(void **state)
{
	size_t i;

	for (i = 0; writer_at(i); i++) {
		const struct writer *w = writer_at(i);

		assert_ptr_equal(writer_find(w->name), w);
		assert_non_null(w->begin);
		assert_non_null(w->stack);
		assert_non_null(w->end);
		assert_true(*w->help && strlen(w->help) < 70);
		assert_null(strchr(w->help, '\n'));
	}
	assert_true(i > 0);
	assert_null(writer_at(i + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(default_is_folded),
		cmocka_unit_test(unknown_names_are_not_found),
		cmocka_unit_test(every_format_is_complete_and_found_by_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
