// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <linux/types.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rprof/stop.h"
#include "rprof/record.h"

#include "python_codes.h"
#include "python_names.h"
#include "strset.h"

static struct strset strings;

static const char *name(const char *file, __s32 line, bool coarse, bool full, bool no_lines)
{
	const struct python_place place = { "Some.thing", file, line, coarse };
	const struct python_style style = { full, no_lines };
	const char *text = python_name(&strings, &style, &place);

	assert_non_null(text);
	/* Interned. */
	assert_ptr_equal(text, python_name(&strings, &style, &place));
	return text;
}

static void file_is_its_last_two_parts(void **state)
{
	assert_string_equal(name("/usr/lib/python3.15/json/decoder.py", 12, false, false, false),
			    "Some.thing (json/decoder.py:12)");
	assert_string_equal(name("json/decoder.py", 1, false, false, false),
			    "Some.thing (json/decoder.py:1)");
	assert_string_equal(name("decoder.py", 1, false, false, false),
			    "Some.thing (decoder.py:1)");
	assert_string_equal(name("/decoder.py", 1, false, false, false),
			    "Some.thing (/decoder.py:1)");
	assert_string_equal(name("/x/decoder.py", 1, false, false, false),
			    "Some.thing (x/decoder.py:1)");
	assert_string_equal(name("/", 1, false, false, false), "Some.thing (/:1)");
	assert_string_equal(name("", 1, false, false, false), "Some.thing (:1)");
}

static void what_is_no_file_is_as_it_is(void **state)
{
	assert_string_equal(name("<string>", 3, false, false, false), "Some.thing (<string>:3)");
	assert_string_equal(name("<frozen importlib._bootstrap>", 3, false, false, false),
			    "Some.thing (<frozen importlib._bootstrap>:3)");
	assert_string_equal(name("<a/b/c>", 3, false, false, false), "Some.thing (<a/b/c>:3)");
}

static void options_say_how_much_is_shown(void **state)
{
	assert_string_equal(name("/a/b/c.py", 7, false, true, false), "Some.thing (/a/b/c.py:7)");
	assert_string_equal(name("/a/b/c.py", 7, false, false, true), "Some.thing (b/c.py)");
	assert_string_equal(name("/a/b/c.py", 7, true, true, true), "Some.thing (/a/b/c.py)");
}

static void line_that_is_not_known_is_left_out(void **state)
{
	assert_string_equal(name("/a/b/c.py", 0, false, false, false), "Some.thing (b/c.py)");
	assert_string_equal(name("/a/b/c.py", -1, false, false, false), "Some.thing (b/c.py)");
	assert_string_equal(name("/a/b/c.py", 0, true, false, false), "Some.thing (b/c.py)");
	assert_string_equal(name("c.py", 0x7fffffff, false, false, false),
			    "Some.thing (c.py:2147483647)");
}

static void line_of_jitted_code_is_about(void **state)
{
	assert_string_equal(name("/a/b/c.py", 12, true, false, false), "Some.thing (b/c.py:~12)");
}

/* A hundred thousand names of 64 KiB are cheap to make. */
static void long_texts_are_cut_between_characters(void **state)
{
	char function[2000] = "", file[2000] = "";
	const struct python_place place = { function, file, 5, false };
	const struct python_style style = { true, false };
	const char *text;

	for (int i = 0; i < 600; i++) {
		strcat(function, "\xc3\xa9");
		strcat(file, "\xc3\xa9");
	}
	function[0] = 'x'; /* so that a limit in bytes falls into a character */
	text = python_name(&strings, &style, &place);
	assert_non_null(text);
	assert_true(strlen(text) < 1100);
	assert_non_null(strstr(text, "\xc3\xa9... (...\xc3\xa9"));
	assert_string_equal(text + strlen(text) - 5, "\xc3\xa9:5)");
}

static void names_of_the_last_frames_are_kept_until_code_is_forgotten(void **state)
{
	static struct python_recent recent;
	const struct rprof_python_frame f = { 0x7f0000001000ULL, 7, 12 };
	struct rprof_python_frame other = f;
	const char *found;

	python_recent_begin(&recent, 1);
	python_recent_put(python_recent_at(&recent, 5, &f, &found), 5, &f, "name");
	python_recent_begin(&recent, 1);
	python_recent_at(&recent, 5, &f, &found);
	assert_string_equal(found, "name");
	python_recent_at(&recent, 6, &f, &found);
	assert_null(found);
	other.where = 13;
	python_recent_at(&recent, 5, &other, &found);
	assert_null(found);
	other = f;
	other.fingerprint = 8;
	python_recent_at(&recent, 5, &other, &found);
	assert_null(found);
	python_recent_begin(&recent, 2);
	python_recent_at(&recent, 5, &f, &found);
	assert_null(found);
}

static void interpreters_own_code_is_told_from_a_program_s(void **state)
{
	assert_true(python_is_cleanup(&(struct python_place){ "__init__", "__init__", 0, false }));
	assert_false(python_is_cleanup(&(struct python_place){ "__init__", "__init__", 1, false }));
	assert_false(python_is_cleanup(&(struct python_place){ "__init__", "a.py", 0, false }));
	assert_false(
		python_is_cleanup(&(struct python_place){ "A.__init__", "__init__", 0, false }));
}

static int tear_down(void **state)
{
	strset_fini(&strings);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_its_last_two_parts),
		cmocka_unit_test(what_is_no_file_is_as_it_is),
		cmocka_unit_test(options_say_how_much_is_shown),
		cmocka_unit_test(line_that_is_not_known_is_left_out),
		cmocka_unit_test(line_of_jitted_code_is_about),
		cmocka_unit_test(long_texts_are_cut_between_characters),
		cmocka_unit_test(names_of_the_last_frames_are_kept_until_code_is_forgotten),
		cmocka_unit_test(interpreters_own_code_is_told_from_a_program_s),
	};

	strset_init(&strings);
	return cmocka_run_group_tests(tests, NULL, tear_down);
}
