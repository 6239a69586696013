// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perf_map.h"

static size_t parse(struct perf_map *m, const char *text)
{
	size_t len = strlen(text), done;
	char *copy = malloc(len ? len : 1);

	/* Ends where the text ends: the sanitizer sees a byte too many. */
	memcpy(copy, text, len);
	done = perf_map_parse(m, copy, len);
	free(copy);
	return done;
}

static void expect_name(struct perf_map *m, __u64 addr, const char *name)
{
	const char *found = perf_map_find(m, addr);

	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
}

static void names_are_the_rest_of_the_line(void **state)
{
	struct perf_map m = { 0 };

	parse(&m, "7f0000001000 40 LazyCompile:*f /tmp/a b.js:1:2\n"
		  "0x7F0000002000 0x10 py::g:<string>\n"
		  "3000 8  \xff;\x1b[2J\n");
	expect_name(&m, 0x7f0000001000, "LazyCompile:*f /tmp/a b.js:1:2");
	expect_name(&m, 0x7f000000103f, "LazyCompile:*f /tmp/a b.js:1:2");
	expect_name(&m, 0x7f0000001040, NULL);
	expect_name(&m, 0x7f000000200f, "py::g:<string>");
	/* Raw bytes: whoever prints them escapes them. */
	expect_name(&m, 0x3000, " \xff;\x1b[2J");
	assert_int_equal(m.n_dropped, 0);
	perf_map_fini(&m);
}

static void last_line_for_an_address_counts(void **state)
{
	struct perf_map m = { 0 };

	parse(&m, "1000 100 old\n1000 100 new\n1040 10 inner\n");
	expect_name(&m, 0x1000, "new");
	expect_name(&m, 0x1048, "inner");
	parse(&m, "1000 200 newest\n");
	expect_name(&m, 0x1048, "newest");
	perf_map_fini(&m);
}

static void line_without_an_end_is_left_for_later(void **state)
{
	static const char text[] = "1000 10 first\n2000 10 second\n";
	const size_t first = 14;

	for (size_t cut = 0; cut < sizeof(text); cut++) {
		struct perf_map m = { 0 };
		char part[sizeof(text)] = "";
		size_t done;

		memcpy(part, text, cut);
		done = parse(&m, part);
		assert_int_equal(done, cut == sizeof(text) - 1 ? cut : cut < first ? 0 : first);
		expect_name(&m, 0x2000, cut == sizeof(text) - 1 ? "second" : NULL);
		parse(&m, text + done);
		expect_name(&m, 0x1000, "first");
		expect_name(&m, 0x2000, "second");
		assert_int_equal(m.n_dropped, 0);
		perf_map_fini(&m);
	}
}

static void what_is_no_line_is_dropped_and_counted(void **state)
{
	static const char *const bad[] = {
		"1000 10",
		"1000 10 ",
		"1000",
		" 1000 10 f",
		"x 10 f",
		"0x 10 f",
		"1000 0 f",
		"1000 -1 f",
		"1000  10 f",
		"1000\t10 f",
		"+1 10 f",
		"1000 10,f",
		"11112222333344445 10 f",
		"ffffffffffffffff 2 f",
		"1000 ffffffffffffffff f",
	};
	struct perf_map m = { 0 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "%s\n", bad[i]);
		parse(&m, line);
		assert_int_equal(m.n_dropped, i + 1);
		assert_int_equal(m.ranges.n, 0);
	}
	parse(&m, "\n\n");
	assert_int_equal(perf_map_parse(&m, "1000 10 a\0b\n2000 10 ok\n", 23), 23);
	expect_name(&m, 0x1000, NULL);
	expect_name(&m, 0x2000, "ok");
	perf_map_fini(&m);
}

static void line_of_a_megabyte_is_skipped(void **state)
{
	const size_t len = 1 << 20, slice = 65536;
	char *text = malloc(len);
	struct perf_map m = { 0 };
	size_t at = 0;

	memset(text, 'x', len);
	memcpy(text, "1000 10 f", 9);
	while (at < len) {
		size_t n = len - at < slice ? len - at : slice;
		size_t done = perf_map_parse(&m, text + at, n);

		assert_int_equal(done, n);
		at += done;
	}
	parse(&m, "the end of it 1000 10 f\n2000 10 g\n");
	assert_int_equal(m.n_dropped, 1);
	expect_name(&m, 0x1000, NULL);
	expect_name(&m, 0x2000, "g");
	assert_int_equal(m.ranges.n, 1);
	free(text);
	perf_map_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_the_rest_of_the_line),
		cmocka_unit_test(last_line_for_an_address_counts),
		cmocka_unit_test(line_without_an_end_is_left_for_later),
		cmocka_unit_test(what_is_no_line_is_dropped_and_counted),
		cmocka_unit_test(line_of_a_megabyte_is_skipped),
	};

	return cmocka_run_group_tests_name("perf_map", tests, NULL, NULL);
}
