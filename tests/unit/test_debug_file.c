// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The link; finding the file that it names is tested with the rest in test_symbol_sources.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "debug_file.h"

/* A name, its NUL, padding and the checksum 0x01020304, in a buffer of its size. */
static int parse(const char *name, size_t len, size_t cut, struct debug_link *out)
{
	size_t crc_at = (len + 4) & ~(size_t)3, size = crc_at + 4 - cut;
	const __u32 crc = 0x01020304;
	char *whole = calloc(1, crc_at + 4), *data = malloc(size + !size);
	int err;

	memcpy(whole, name, len);
	memcpy(whole + crc_at, &crc, sizeof(crc));
	memcpy(data, whole, size);
	err = debug_link_parse(data, size, out);
	free(whole);
	free(data);
	return err;
}

static void name_and_checksum_are_read(void **state)
{
	static const char *const names[] = {
		"a", "ab", "abc", "abcd", "program.debug", "...", "a b"
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct debug_link link;

		assert_int_equal(parse(names[i], strlen(names[i]), 0, &link), 0);
		assert_string_equal(link.name, names[i]);
		assert_int_equal(link.crc, 0x01020304);
	}
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
	static const char *const names[] = {
		"", "/", "/etc/passwd", "a/b", "../a", "..", ".", "a/"
	};
	char longest[DEBUG_LINK_NAME_MAX + 2];
	struct debug_link link;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_int_equal(parse(names[i], strlen(names[i]), 0, &link), -EINVAL);
	memset(longest, 'x', sizeof(longest));
	assert_int_equal(parse(longest, DEBUG_LINK_NAME_MAX, 0, &link), 0);
	assert_int_equal(strlen(link.name), DEBUG_LINK_NAME_MAX);
	assert_int_equal(parse(longest, DEBUG_LINK_NAME_MAX + 1, 0, &link), -EINVAL);
}

static void links_cut_short_are_refused(void **state)
{
	struct debug_link link;

	for (size_t len = 1; len < 9; len++) {
		for (size_t cut = 1; cut <= ((len + 4) & ~(size_t)3) + 4; cut++)
			assert_int_equal(parse("abcdefghi", len, cut, &link), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(name_and_checksum_are_read),
		cmocka_unit_test(names_that_lead_elsewhere_are_refused),
		cmocka_unit_test(links_cut_short_are_refused),
	};

	return cmocka_run_group_tests_name("debug_file", tests, NULL, NULL);
}
