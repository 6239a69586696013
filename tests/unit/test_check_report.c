// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "check_report.h"
#include "escape.h"

static char *text_of(const struct check_report *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_int_equal(check_write_text(r, f), 0);
	fclose(f);
	return text;
}

static json_t *json_of(const struct check_report *r)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	json_t *root;

	assert_int_equal(check_write_json(r, f), 0);
	fclose(f);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

static const char *field(json_t *root, size_t i, const char *key)
{
	return json_string_value(
		json_object_get(json_array_get(json_object_get(root, "findings"), i), key));
}

static void the_verdict_is_the_worst_finding(void **state)
{
	struct check_report *r = check_report_new();

	assert_int_equal(check_verdict(r), CHECK_FINE);
	check_group(r, "kernel");
	check_add(r, CHECK_FINE, "a", NULL, "well");
	assert_int_equal(check_verdict(r), CHECK_FINE);
	check_add(r, CHECK_IMPOSSIBLE, "b", NULL, "not at all");
	check_add(r, CHECK_DEGRADED, "c", NULL, "not quite");
	assert_int_equal(check_verdict(r), CHECK_IMPOSSIBLE);
	check_report_free(r);
}

static void the_worst_comes_first_within_its_group(void **state)
{
	static const char *const order[] = { "bad", "worse-less", "good", "first", "second" };
	struct check_report *r = check_report_new();
	json_t *root;

	check_group(r, "one");
	check_add(r, CHECK_FINE, "good", NULL, "x");
	check_add(r, CHECK_DEGRADED, "worse-less", NULL, "x");
	check_add(r, CHECK_IMPOSSIBLE, "bad", NULL, "x");
	check_group(r, "two");
	check_add(r, CHECK_DEGRADED, "first", NULL, "x");
	check_add(r, CHECK_DEGRADED, "second", NULL, "x");
	root = json_of(r);
	for (size_t i = 0; i < 5; i++) {
		assert_string_equal(field(root, i, "subject"), order[i]);
		assert_string_equal(field(root, i, "group"), i < 3 ? "one" : "two");
	}
	assert_null(field(root, 5, "subject"));
	json_decref(root);
	check_report_free(r);
}

static void text_and_json_say_the_same(void **state)
{
	struct check_report *r = check_report_new();
	char *text;
	json_t *root;

	check_group(r, "process %d", 7);
	check_add(r, CHECK_DEGRADED, "thing", "mend it", "is %s", "broken");
	text = text_of(r);
	root = json_of(r);
	assert_string_equal(json_string_value(json_object_get(root, "verdict")), "degraded");
	assert_string_equal(field(root, 0, "group"), "process 7");
	assert_string_equal(field(root, 0, "state"), "degraded");
	assert_string_equal(field(root, 0, "text"), "is broken");
	assert_string_equal(field(root, 0, "advice"), "mend it");
	assert_non_null(strstr(text, "process 7\n  degraded    thing               is broken\n"));
	assert_non_null(strstr(text, "-> mend it\n"));
	assert_non_null(strstr(text, "\nverdict: degraded"));
	json_decref(root);
	free(text);
	check_report_free(r);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void advice_that_many_share_is_printed_once(void **state)
{
	struct check_report *r = check_report_new();
	char *text;

	check_group(r, "files");
	check_add(r, CHECK_DEGRADED, "a", "build it anew", "x");
	check_add(r, CHECK_DEGRADED, "b", "build it anew", "y");
	check_add(r, CHECK_DEGRADED, "c", "another", "z");
	check_add(r, CHECK_DEGRADED, "d", "build it anew", "z");
	text = text_of(r);
	assert_int_equal(count(text, "-> build it anew"), 2);
	assert_int_equal(count(text, "-> another"), 1);
	assert_true(strstr(text, "-> build it anew") > strstr(text, "  b "));
	free(text);
	check_report_free(r);
}

/* @text: no line has more than 79 columns. */
static void assert_narrow(const char *text)
{
	int columns = 0;

	for (; *text; text++) {
		columns += ((unsigned char)*text & 0xc0) != 0x80;
		if (*text == '\n')
			columns = 0;
		assert_in_range(columns, 0, 79);
	}
}

static void lines_fit_80_columns(void **state)
{
	struct check_report *r = check_report_new();
	char word[301], *text;

	memset(word, 'w', 300);
	word[300] = '\0';
	check_group(r, "group");
	check_add(r, CHECK_FINE, "s", NULL, "%s",
		  "words words words words words words words words words words words words words");
	check_add(r, CHECK_FINE, word, word, "%s", word);
	check_add(
		r, CHECK_FINE, "caf\xc3\xa9",
		"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3"
		"\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
		"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9",
		"x");
	text = text_of(r);
	assert_narrow(text);
	assert_non_null(strstr(text, "-> \xc3\xa9"));
	free(text);
	check_report_free(r);
}

static void escaped_bytes_are_sound_json(void **state)
{
	char *name = escape_string("a\xff\xfe\n\x1b[31m;\"\\\xc3", 13);
	struct check_report *r = check_report_new();
	json_t *root;

	check_group(r, "g");
	check_add(r, CHECK_FINE, name, NULL, "%s", name);
	root = json_of(r);
	assert_string_equal(field(root, 0, "subject"), name);
	assert_null(strchr(field(root, 0, "text"), '\x1b'));
	json_decref(root);
	free(name);
	check_report_free(r);
}

static void an_empty_report_is_written(void **state)
{
	struct check_report *r = check_report_new();
	char *text = text_of(r);
	json_t *root = json_of(r);

	assert_non_null(strstr(text, "verdict: fine"));
	assert_int_equal(json_array_size(json_object_get(root, "findings")), 0);
	json_decref(root);
	free(text);
	check_report_free(r);
}

static void a_full_device_is_an_error(void **state)
{
	struct check_report *r = check_report_new();
	FILE *f = fopen("/dev/full", "w");

	check_group(r, "g");
	check_add(r, CHECK_FINE, "s", NULL, "t");
	if (!f)
		skip();
	assert_int_equal(check_write_text(r, f), -EIO);
	fclose(f);
	f = fopen("/dev/full", "w");
	assert_int_equal(check_write_json(r, f), -EIO);
	fclose(f);
	check_report_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_verdict_is_the_worst_finding),
		cmocka_unit_test(the_worst_comes_first_within_its_group),
		cmocka_unit_test(text_and_json_say_the_same),
		cmocka_unit_test(advice_that_many_share_is_printed_once),
		cmocka_unit_test(lines_fit_80_columns),
		cmocka_unit_test(escaped_bytes_are_sound_json),
		cmocka_unit_test(an_empty_report_is_written),
		cmocka_unit_test(a_full_device_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
