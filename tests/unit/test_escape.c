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

#include "escape.h"

#define FFFD "\xef\xbf\xbd"

static void assert_escapes(const char *bytes, size_t len, const char *expected)
{
	char *text = escape_string(bytes, len), *written = NULL;
	size_t size;
	FILE *f = open_memstream(&written, &size);

	assert_non_null(text);
	assert_string_equal(text, expected);

	assert_non_null(f);
	assert_int_equal(escape_write(f, bytes, len), 0);
	fclose(f);
	assert_string_equal(written, expected);
	free(text);
	free(written);
}

#define ASSERT_ESCAPES(literal, expected) assert_escapes(literal, sizeof(literal) - 1, expected)

static int hex(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* What a reader does to get the bytes back. Returns their number. */
static size_t unescape(const char *text, char *bytes)
{
	size_t n = 0;

	while (*text) {
		if (text[0] == '\\') {
			assert_int_equal(text[1], 'x');
			bytes[n++] = hex(text[2]) << 4 | hex(text[3]);
			text += 4;
			continue;
		}
		bytes[n++] = *text++;
	}
	return n;
}

static void plain_text_stays(void **state)
{
	ASSERT_ESCAPES("", "");
	ASSERT_ESCAPES("std::vector<int, a>::push_back(int&&) [clone .cold]",
		       "std::vector<int, a>::push_back(int&&) [clone .cold]");
	ASSERT_ESCAPES(" a  b ", " a  b ");
	ASSERT_ESCAPES("za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xe2\x82\xac \xf0\x9f\x90\x8d",
		       "za\xc5\xbc\xc3\xb3\xc5\x82\xc4\x87 \xe2\x82\xac \xf0\x9f\x90\x8d");
}

static void separators_and_controls_become_hex(void **state)
{
	ASSERT_ESCAPES("a;b", "a\\x3bb");
	ASSERT_ESCAPES("a\\x3bb", "a\\x5cx3bb");
	ASSERT_ESCAPES("a\nb 1\n", "a\\x0ab 1\\x0a");
	ASSERT_ESCAPES("\x1b[31m\x7f\t\0", "\\x1b[31m\\x7f\\x09\\x00");
}

static void c1_controls_become_hex(void **state)
{
	ASSERT_ESCAPES("\xc2\x9bm", "\\xc2\\x9bm");
	ASSERT_ESCAPES("\xc2\x80\xc2\x9f\xc2\xa0", "\\xc2\\x80\\xc2\\x9f\xc2\xa0");
}

static void invalid_utf8_becomes_replacement(void **state)
{
	ASSERT_ESCAPES("\xff", FFFD);
	ASSERT_ESCAPES("a\x80z", "a" FFFD "z");
	ASSERT_ESCAPES("\xc0\xaf", FFFD FFFD);			/* overlong '/' */
	ASSERT_ESCAPES("\xe0\x80\xaf", FFFD FFFD FFFD);
	ASSERT_ESCAPES("\xed\xa0\x80", FFFD FFFD FFFD);		/* surrogate */
	ASSERT_ESCAPES("\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD); /* past U+10FFFF */
	ASSERT_ESCAPES("\xf0\x80\x80\x80", FFFD FFFD FFFD FFFD);
	ASSERT_ESCAPES("\xf5", FFFD);
}

static void cut_sequences_are_one_replacement_and_eat_nothing(void **state)
{
	ASSERT_ESCAPES("\xe2\x82", FFFD);
	ASSERT_ESCAPES("\xf0\x9f\x90", FFFD);
	ASSERT_ESCAPES("\xe2\x82;", FFFD "\\x3b");
	ASSERT_ESCAPES("\xf0\x9f\x90\n", FFFD "\\x0a");
	ASSERT_ESCAPES("\xe2\xe2\x82\xac", FFFD "\xe2\x82\xac");
	/* Bytes behind the given length are not looked at. */
	assert_escapes("\xe2\x82\xac", 2, FFFD);
	assert_escapes("\xe2\x82\xac", 1, FFFD);
}

static void every_two_bytes_round_trip_or_are_replaced(void **state)
{
	for (unsigned int i = 0; i < 0x10000; i++) {
		char bytes[2] = { (char)(i >> 8), (char)i }, back[16];
		char *text = escape_string(bytes, sizeof(bytes));
		size_t n;

		assert_non_null(text);
		assert_null(strpbrk(text, ";\n\t\r\x1b\x7f"));
		n = unescape(text, back);
		if (!strstr(text, FFFD)) {
			assert_int_equal(n, 2);
			assert_memory_equal(back, bytes, 2);
		}
		free(text);
	}
}

static void a_failed_write_is_an_error(void **state)
{
	char *name = malloc(1 << 16);
	FILE *f = fopen("/dev/full", "w");

	assert_non_null(f);
	assert_non_null(name);
	memset(name, 'a', 1 << 16);
	assert_int_equal(escape_write(f, name, 1 << 16), -ENOSPC);
	fclose(f);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_stays),
		cmocka_unit_test(separators_and_controls_become_hex),
		cmocka_unit_test(c1_controls_become_hex),
		cmocka_unit_test(invalid_utf8_becomes_replacement),
		cmocka_unit_test(cut_sequences_are_one_replacement_and_eat_nothing),
		cmocka_unit_test(every_two_bytes_round_trip_or_are_replaced),
		cmocka_unit_test(a_failed_write_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
