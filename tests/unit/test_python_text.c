// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <linux/types.h>

#include "python_text.h"

#define FFFD "\xef\xbf\xbd"

static void assert_text(const void *bytes, size_t size, unsigned int kind, const char *want)
{
	char *text = python_text(bytes, size, kind);

	assert_non_null(text);
	assert_string_equal(text, want);
	free(text);
}

static void one_byte_is_latin_1(void **state)
{
	assert_text("caf\xe9 \xff\x80", 7, 1, "caf\xc3\xa9 \xc3\xbf\xc2\x80");
	assert_text("", 0, 1, "");
}

static void two_bytes_are_the_basic_plane(void **state)
{
	static const __u16 two[] = { 'f', 0x3b1, 0x7ff, 0x800, 0x4e2d, 0xffff };

	assert_text(two, sizeof(two), 2, "f\xce\xb1\xdf\xbf\xe0\xa0\x80\xe4\xb8\xad\xef\xbf\xbf");
}

static void four_bytes_are_all_planes(void **state)
{
	static const __u32 four[] = { 'g', 0x10000, 0x1f40d, 0x10ffff };

	assert_text(four, sizeof(four), 4, "g\xf0\x90\x80\x80\xf0\x9f\x90\x8d\xf4\x8f\xbf\xbf");
}

static void what_is_no_character_is_replaced(void **state)
{
	/* A lone surrogate of a file name that was no UTF-8; a pair, which CPython does not use. */
	static const __u16 two[] = { 'a', 0xdcff, 0xd83d, 0xdc0d, 0, 'z' };
	static const __u32 four[] = { 0x110000, 0xffffffff, 0xd800, 0xdfff, 0 };

	assert_text(two, sizeof(two), 2, "a" FFFD FFFD FFFD FFFD "z");
	assert_text(four, sizeof(four), 4, FFFD FFFD FFFD FFFD FFFD);
	assert_text("a\0b", 3, 1, "a" FFFD "b");
}

static void bytes_that_are_no_whole_one_are_dropped(void **state)
{
	static const char bytes[] = "\0a\0\0\0b\0\0\0c"; /* unaligned, too */
	const __u32 b = 'b';
	char copy[9];

	memcpy(copy + 1, &b, 4);
	memcpy(copy + 5, bytes, 3);
	assert_text(copy + 1, 7, 4, "b");
	assert_text(copy + 1, 3, 4, "");
}

static void other_kinds_are_none(void **state)
{
	assert_null(python_text("abcd", 4, 0));
	assert_null(python_text("abcd", 4, 3));
	assert_null(python_text("abcd", 4, 8));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_byte_is_latin_1),
		cmocka_unit_test(two_bytes_are_the_basic_plane),
		cmocka_unit_test(four_bytes_are_all_planes),
		cmocka_unit_test(what_is_no_character_is_replaced),
		cmocka_unit_test(bytes_that_are_no_whole_one_are_dropped),
		cmocka_unit_test(other_kinds_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
