// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The line tables. With the name of a file as its argument, the program compares instead what the
 * decoder says with what an interpreter said of its own code objects (tests/e2e/pylines.py).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "python_lines.h"

#define TABLE(v, first, ...)                                                                       \
	(const struct python_lines)                                                                \
	{                                                                                          \
		.bytes = (const __u8[]){ __VA_ARGS__ },                                            \
		.size = sizeof((const __u8[]){ __VA_ARGS__ }), .firstlineno = (first),             \
		.version = (v),                                                                    \
	}

static __s32 line(const struct python_lines *t, __u32 unit)
{
	return python_lines_find(t, NULL, unit, NULL);
}

static void assert_lines(const struct python_lines *t, const __s32 *want, __u32 n)
{
	for (__u32 i = 0; i < n; i++)
		assert_int_equal(line(t, i), want[i]);
}

static void lnotab_adds_lines_behind_bytes(void **state)
{
	/* 2 bytes of line 10, then a line up, then two entries at one place. */
	const struct python_lines t = TABLE(0x0309, 10, 2, 1, 4, 0xff, 0, 5);

	assert_lines(&t, (const __s32[]){ 10, 11, 11, 15, 15, 15 }, 6);
	assert_int_equal(line(&t, 0xffffff), 15);
}

static void lnotab_without_entries_is_the_first_line(void **state)
{
	const struct python_lines t = { .firstlineno = 7, .version = 0x0309 };

	assert_int_equal(line(&t, 0), 7);
	assert_int_equal(line(&t, 1000), 7);
}

static void linetable_has_ranges_and_lines_that_are_none(void **state)
{
	const struct python_lines t = TABLE(0x030a, 10, 2, 0, 4, 0x80, 0, 3, 2, 0xff);

	assert_lines(&t, (const __s32[]){ 10, 0, 0, 12, 0 }, 5);
}

static void locations_of_every_form(void **state)
{
	const struct python_lines t = TABLE(
		0x030b, 10,
		/* short, 2 units; the same line */ 0x80 | 3 << 3 | 1, 0x11,
		/* one line further */ 0x80 | 11 << 3, 1, 2,
		/* two */ 0x80 | 12 << 3, 1, 2,
		/* none */ 0x80 | 15 << 3,
		/* no columns, 100 lines back: 201 = 3 * 64 + 9 */ 0x80 | 13 << 3, 0x40 | 9, 3,
		/* long, 70 lines further: 140; its end 64 lines behind */ 0x80 | 14 << 3,
		0x40 | 12, 2, 0x40, 1, 5, 6,
		/* this line */ 0x80 | 10 << 3, 1, 2);

	assert_lines(&t, (const __s32[]){ 10, 10, 11, 13, 0, 0, 0, 0 }, 4);
	assert_int_equal(line(&t, 4), 0);
	/* 13 - 100: no line. */
	assert_int_equal(line(&t, 5), 0);
	/* -87 + 70, and still none. */
	assert_int_equal(line(&t, 6), 0);
	assert_int_equal(line(&t, 8), 0);
}

static void long_locations_add_up(void **state)
{
	const struct python_lines t = TABLE(0x030f, 1000, 0x80 | 14 << 3 | 7, 0x40 | 12, 2, 0x40, 1,
					    5, 6, 0x80 | 13 << 3, 0x40 | 9, 3);

	for (__u32 i = 0; i < 8; i++)
		assert_int_equal(line(&t, i), 1070);
	assert_int_equal(line(&t, 8), 970);
}

static void prologue_is_what_no_line_comes_before(void **state)
{
	const struct python_lines t =
		TABLE(0x030d, 10, 0x80 | 15 << 3, 0x80 | 10 << 3, 1, 2, 0x80 | 15 << 3);
	bool prologue;

	assert_int_equal(python_lines_find(&t, NULL, 0, &prologue), 0);
	assert_true(prologue);
	assert_int_equal(python_lines_find(&t, NULL, 1, &prologue), 10);
	assert_false(prologue);
	assert_int_equal(python_lines_find(&t, NULL, 2, &prologue), 0);
	assert_false(prologue);
	/* Not in the table. */
	assert_int_equal(python_lines_find(&t, NULL, 3, &prologue), 0);
	assert_false(prologue);
}

static void cut_tables_give_no_line(void **state)
{
	static const __u8 bytes[] = { 0x80 | 14 << 3, 0x40 | 12, 2, 0x40, 1, 5, 6 };

	for (size_t size = 0; size < sizeof(bytes); size++) {
		__u8 *copy = malloc(size + !size); /* nothing readable behind it */
		struct python_lines t = { copy, size, 10, 0x030b };

		assert_non_null(copy);
		memcpy(copy, bytes, size);
		assert_int_equal(line(&t, 0), 0);
		free(copy);
	}
}

static void endless_varint_is_no_table(void **state)
{
	__u8 bytes[4096];
	struct python_lines t = { bytes, sizeof(bytes), 10, 0x030b };

	memset(bytes, 0xff, sizeof(bytes));
	bytes[0] = 0x80 | 13 << 3;
	assert_int_equal(line(&t, 0), 0);
	bytes[0] = 0x80 | 14 << 3;
	assert_int_equal(line(&t, 0), 0);
}

static void entries_without_their_top_bit_are_no_table(void **state)
{
	const struct python_lines t = TABLE(0x030b, 10, 3 << 3, 0x11);

	assert_int_equal(line(&t, 0), 0);
}

static void lines_that_overflow_are_none(void **state)
{
	/* 2^31 - 1 and 1 more; then 2^31 - 1 lines back from the least. */
	const struct python_lines t = TABLE(0x030b, 0x7fffffff, 0x80 | 11 << 3, 1, 2,
					    0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 3);

	assert_int_equal(line(&t, 0), 0);
	assert_int_equal(line(&t, 1), 1);
}

/* A table as hostile as may be, from a fixed seed. */
static void fill(__u8 *bytes, size_t size, __u32 seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1103515245 + 12345;
		bytes[i] = seed >> 16;
	}
}

static void marks_change_no_line(void **state)
{
	static const __u16 versions[] = { 0x0309, 0x030a, 0x030b };
	struct python_lines_mark marks[64];
	__u8 bytes[2000];

	for (size_t v = 0; v < 3; v++) {
		struct python_lines t = { bytes, sizeof(bytes), 1 << 30, versions[v] };
		size_t n, at = 0;

		fill(bytes, sizeof(bytes), 1);
		/* Entries of one byte and of three, which are sound. */
		for (size_t i = 0; i < sizeof(bytes) && versions[v] > 0x030a; i++)
			bytes[i] = i % 4 ? 0x80 | 15 << 3 | (bytes[i] & 7) : 0x80 | 11 << 3 | 1;
		n = python_lines_marks(&t, 64, marks, 64);
		assert_true(n > 10);
		for (__u32 unit = 0; unit < 200000; unit++) {
			__u32 want = versions[v] < 0x030b ? 2 * unit : unit;

			while (at < n && marks[at].end <= want)
				at++;
			assert_int_equal(python_lines_find(&t, at ? &marks[at - 1] : NULL, unit,
							   NULL),
					 line(&t, unit));
		}
	}
}

static void marks_are_as_many_as_asked_for(void **state)
{
	__u8 bytes[512];
	struct python_lines t = { bytes, sizeof(bytes), 1, 0x0309 };
	struct python_lines_mark marks[3];

	memset(bytes, 1, sizeof(bytes));
	assert_int_equal(python_lines_marks(&t, 2, marks, 3), 3);
	assert_int_equal(python_lines_marks(&t, 4096, marks, 3), 0);
	assert_int_equal(python_lines_marks(&t, 2, marks, 0), 0);
}

/* The next @size bytes of what an interpreter said, or NULL. */
static const void *take(const char **at, const char *end, size_t size)
{
	const char *from = *at;

	if ((size_t)(end - from) < size)
		return NULL;
	*at += size;
	return from;
}

/* {u32 version, s32 firstlineno, u32 size, u32 units}, table, s32 lines[units]; -1: at the end. */
static long compare_code(const char **at, const char *end, long *n_units)
{
	const void *table, *lines, *head = take(at, end, 16);
	static struct python_lines_mark marks[1 << 16];
	size_t n_marks, passed = 0;
	struct python_lines t;
	long wrong = 0;
	__u32 h[4];

	if (!head)
		return -1;
	memcpy(h, head, sizeof(h));
	table = take(at, end, h[2]);
	lines = take(at, end, 4ul * h[3]);
	if (!table || !lines)
		return -1;
	t = (struct python_lines){ table, h[2], (__s32)h[1], (__u16)h[0] };
	n_marks = python_lines_marks(&t, 64, marks, 1 << 16);
	for (__u32 i = 0; i < h[3]; i++) {
		const struct python_lines_mark *from;
		__s32 want;

		while (passed < n_marks && marks[passed].end <= (h[0] < 0x030b ? 2 * i : i))
			passed++;
		from = passed ? &marks[passed - 1] : NULL;
		memcpy(&want, (const char *)lines + 4ul * i, sizeof(want));
		wrong += python_lines_find(&t, from, i, NULL) != want;
	}
	*n_units += h[3];
	return wrong;
}

static int compare_file(const char *path)
{
	long n_codes = 0, n_units = 0, wrong = 0, of_code;
	FILE *f = fopen(path, "rb");
	const char *at, *end;
	char *bytes;
	long size;

	if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0)
		return 2;
	rewind(f);
	bytes = malloc((size_t)size + 1);
	if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size)
		return 2;
	fclose(f);
	at = bytes;
	end = bytes + size;
	while ((of_code = compare_code(&at, end, &n_units)) >= 0) {
		n_codes++;
		wrong += of_code;
	}
	printf("%ld code objects, %ld instructions, %ld differ\n", n_codes, n_units, wrong);
	of_code = end - at;
	free(bytes);
	return wrong || of_code ? 1 : 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lnotab_adds_lines_behind_bytes),
		cmocka_unit_test(lnotab_without_entries_is_the_first_line),
		cmocka_unit_test(linetable_has_ranges_and_lines_that_are_none),
		cmocka_unit_test(locations_of_every_form),
		cmocka_unit_test(long_locations_add_up),
		cmocka_unit_test(prologue_is_what_no_line_comes_before),
		cmocka_unit_test(cut_tables_give_no_line),
		cmocka_unit_test(endless_varint_is_no_table),
		cmocka_unit_test(entries_without_their_top_bit_are_no_table),
		cmocka_unit_test(lines_that_overflow_are_none),
		cmocka_unit_test(marks_change_no_line),
		cmocka_unit_test(marks_are_as_many_as_asked_for),
	};

	if (argc > 1)
		return compare_file(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
