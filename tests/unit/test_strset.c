// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "strset.h"

static void equal_text_is_one_pointer(void **state)
{
	struct strset s;
	char a[] = "malloc", b[] = "malloc";
	const char *first;

	strset_init(&s);
	first = strset_add(&s, a);
	assert_string_equal(first, "malloc");
	assert_ptr_not_equal(first, a);
	assert_ptr_equal(strset_add(&s, b), first);
	assert_ptr_not_equal(strset_add(&s, "mallo"), first);
	assert_string_equal(strset_add(&s, ""), "");
	assert_ptr_equal(strset_add(&s, ""), strset_add(&s, ""));
	strset_fini(&s);
}

static void pointers_stay_while_the_set_grows(void **state)
{
	enum { N = 50000 };
	const char **p = calloc(N, sizeof(*p));
	struct strset s;
	char text[32];

	strset_init(&s);
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "function_%d", i);
		p[i] = strset_add(&s, text);
	}
	for (int i = 0; i < N; i++) {
		snprintf(text, sizeof(text), "function_%d", i);
		assert_string_equal(p[i], text);
		assert_ptr_equal(strset_add(&s, text), p[i]);
	}
	strset_fini(&s);
	free(p);
}

static void text_longer_than_a_chunk_is_kept_whole(void **state)
{
	size_t len = 300000;
	char *text = malloc(len + 1);
	struct strset s;

	memset(text, 'x', len);
	text[len] = '\0';
	strset_init(&s);
	assert_string_equal(strset_add(&s, "short"), "short");
	assert_string_equal(strset_add(&s, text), text);
	assert_string_equal(strset_add(&s, "after"), "after");
	strset_fini(&s);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_text_is_one_pointer),
		cmocka_unit_test(pointers_stay_while_the_set_grows),
		cmocka_unit_test(text_longer_than_a_chunk_is_kept_whole),
	};

	return cmocka_run_group_tests_name("strset", tests, NULL, NULL);
}
