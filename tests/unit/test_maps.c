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

#include "maps.h"

/* A copy that ends exactly where the text ends, so that ASan sees a read beyond. */
static int parse(const char *line, struct maps_entry *e, char **copy)
{
	size_t len = strlen(line);

	*copy = malloc(len ? len : 1);
	memcpy(*copy, line, len);
	return maps_parse_line(*copy, len, e);
}

static void assert_path(const char *line, const char *path)
{
	struct maps_entry e;
	char *copy;

	assert_int_equal(parse(line, &e, &copy), 0);
	assert_int_equal(e.path_len, strlen(path));
	assert_memory_equal(e.path, path, e.path_len);
	free(copy);
}

static void line_of_a_library_is_read_in_full(void **state)
{
	struct maps_entry e;
	char *copy;

	assert_int_equal(parse("7f1c2a400000-7f1c2a555000 r-xp 00026000 103:02 3018573"
			       "                    /usr/lib/x86_64-linux-gnu/libc.so.6",
			       &e, &copy),
			 0);
	assert_int_equal(e.start, 0x7f1c2a400000);
	assert_int_equal(e.end, 0x7f1c2a555000);
	assert_int_equal(e.pgoff, 0x26000);
	assert_int_equal(e.dev_major, 0x103);
	assert_int_equal(e.dev_minor, 2);
	assert_int_equal(e.inode, 3018573);
	assert_true(e.readable);
	assert_false(e.writable);
	assert_true(e.executable);
	assert_false(e.shared);
	assert_int_equal(e.path_len, strlen("/usr/lib/x86_64-linux-gnu/libc.so.6"));
	free(copy);
}

static void last_page_and_largest_inode_are_read(void **state)
{
	struct maps_entry e;
	char *copy;

	assert_int_equal(parse("ffffffffff600000-ffffffffffffffff --xs ffffffffffffffff "
			       "ffffffff:ffffffff 18446744073709551615 [vsyscall]",
			       &e, &copy),
			 0);
	assert_int_equal(e.end, ~0ULL);
	assert_int_equal(e.pgoff, ~0ULL);
	assert_int_equal(e.inode, ~0ULL);
	assert_int_equal(e.dev_minor, ~0U);
	assert_true(e.shared);
	free(copy);
}

static void path_may_hold_anything_but_newline(void **state)
{
	assert_path("1000-2000 rw-p 00000000 00:00 0 ", "");
	assert_path("1000-2000 rw-p 00000000 00:00 0", "");
	assert_path("1000-2000 r-xp 00000000 fe:00 7   /a b/c  d ", "/a b/c  d ");
	assert_path("1000-2000 r-xp 00000000 fe:00 7   /x\\012y", "/x\\012y");
	assert_path("1000-2000 r-xp 00000000 fe:00 7   /x (deleted)", "/x (deleted)");
	assert_path("1000-2000 r-xp 00000000 fe:00 7   /\xff\x01;\x1b[31m", "/\xff\x01;\x1b[31m");
	assert_path("1000-2000 rw-p 00000000 00:00 0   [anon:1000-2000 r-xp]",
		    "[anon:1000-2000 r-xp]");
}

static void malformed_lines_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"-",
		"1000",
		"1000-",
		"1000-2000",
		"1000-2000 ",
		"1000-2000 r-xp",
		"1000-2000 r-xp 00000000 fe:00",
		"1000-2000 r-xp 00000000 fe:00 ",
		"1000-2000 r-xp 00000000 fe:00 7x",
		"1000-2000 r-xp 00000000 fe:00 7/x",
		"1000-2000 r-xp 00000000 fe 7 /x",
		"1000-2000 r-x 00000000 fe:00 7 /x",
		"1000-2000 r-xq 00000000 fe:00 7 /x",
		"1000-2000 x-rp 00000000 fe:00 7 /x",
		"1000-2000  r-xp 00000000 fe:00 7 /x",
		" 1000-2000 r-xp 00000000 fe:00 7 /x",
		"0x1000-2000 r-xp 00000000 fe:00 7 /x",
		"1000-2000 r-xp 00000000 fe:00 a /x",
		"1000-2000 r-xp 00000000 FE:00 7 /x",
		"+1000-2000 r-xp 00000000 fe:00 7 /x",
		/* empty, backwards */
		"1000-1000 r-xp 00000000 fe:00 7 /x",
		"2000-1000 r-xp 00000000 fe:00 7 /x",
		/* too large */
		"1000-10000000000000000 r-xp 00000000 fe:00 7 /x",
		"1000-2000 r-xp 00000000 fe:100000000 7 /x",
		"1000-2000 r-xp 00000000 fe:00 18446744073709551616 /x",
		/* two lines */
		"1000-2000 r-xp 00000000 fe:00 7 /x\n3000-4000 r-xp 00000000 fe:00 8 /y",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct maps_entry e = { .start = 42 };
		char *copy;

		assert_int_equal(parse(bad[i], &e, &copy), -EINVAL);
		assert_int_equal(e.start, 42);
		free(copy);
	}
	assert_int_equal(maps_parse_line("1000-2000 r-xp 00000000 fe:00 7 /\0y", 35,
					 &(struct maps_entry){ 0 }),
			 -EINVAL);
}

static void every_prefix_of_a_line_is_safe(void **state)
{
	static const char line[] = "7f1c2a400000-7f1c2a555000 r-xp 00026000 fe:02 30185 /lib/x";

	for (size_t len = 0; len < sizeof(line); len++) {
		struct maps_entry e;
		char *copy = malloc(len ? len : 1);

		memcpy(copy, line, len);
		maps_parse_line(copy, len, &e);
		free(copy);
	}
}

static void lines_of_this_process_are_all_accepted(void **state)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct maps_entry e;
	char line[8192];
	bool found = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		assert_int_equal(maps_parse_line(line, strcspn(line, "\n"), &e), 0);
		if (e.start <= (size_t)&every_prefix_of_a_line_is_safe &&
		    (size_t)&every_prefix_of_a_line_is_safe < e.end)
			found = e.executable;
	}
	fclose(f);
	assert_true(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_of_a_library_is_read_in_full),
		cmocka_unit_test(last_page_and_largest_inode_are_read),
		cmocka_unit_test(path_may_hold_anything_but_newline),
		cmocka_unit_test(malformed_lines_are_refused),
		cmocka_unit_test(every_prefix_of_a_line_is_safe),
		cmocka_unit_test(lines_of_this_process_are_all_accepted),
	};

	return cmocka_run_group_tests_name("maps", tests, NULL, NULL);
}
