// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A directory of ours stands for /proc/PID, so that its files can say what no kernel would. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "compile.h"
#include "proc_maps.h"

#define STAT_TAIL " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21\n"

static int proc_dir(const char *stat, const char *maps)
{
	const char *names[] = { "stat", "maps" };
	const char *texts[] = { stat, maps };
	int dir;

	compile_path("");
	dir = open(compile_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	for (int i = 0; i < 2; i++) {
		int fd = openat(dir, names[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);

		assert_int_equal(write(fd, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
		close(fd);
	}
	return dir;
}

static int read_fake(struct proc_maps *p, const char *stat, const char *maps)
{
	int dir = proc_dir(stat, maps);
	int err = proc_maps_read(p, dir);

	close(dir);
	return err;
}

static void lines_are_kept_in_order_and_apart(void **state)
{
	struct proc_maps p;

	proc_maps_init(&p);
	assert_int_equal(read_fake(&p, "1 (x)" STAT_TAIL,
				   "1000-2000 r-xp 00000000 fe:00 7 /a\n"
				   "nonsense\n"
				   "1800-3000 r-xp 00000000 fe:00 7 /overlaps\n"
				   "2000-3000 rw-p 00000000 00:00 0 \n"
				   "0500-0900 rw-p 00000000 00:00 0 \n"
				   "4000-5000 r-xp 00000000 fe:00 8 /last"),
			 0);
	assert_int_equal(p.n, 3);
	assert_int_equal(p.entries[0].start, 0x1000);
	assert_int_equal(p.entries[1].start, 0x2000);
	assert_int_equal(p.entries[2].start, 0x4000);
	assert_memory_equal(p.entries[2].path, "/last", 5);
	/* The next reading starts afresh. */
	assert_int_equal(read_fake(&p, "1 (x)" STAT_TAIL, "1000-2000 r-xp 00000000 fe:00 7 /a\n"),
			 0);
	assert_int_equal(p.n, 1);
	proc_maps_fini(&p);
}

static void start_time_is_found_behind_any_name(void **state)
{
	static const char *const names[] = { "1 (x)",	      "1 (a b c)",  "1 ())",
					     "1 () R 1 2 3)", "1 (\n\xff)", "1 ()" };
	struct proc_maps p;

	proc_maps_init(&p);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char stat[256];

		snprintf(stat, sizeof(stat), "%s" STAT_TAIL, names[i]);
		assert_int_equal(read_fake(&p, stat, "1000-2000 r-xp 00000000 fe:00 7 /a\n"), 0);
		assert_int_equal(p.start_time, 777);
	}
	assert_int_equal(read_fake(&p, "1 (x) S 1 2 3", "1000-2000 r-xp 00000000 fe:00 7 /a\n"),
			 -EINVAL);
	assert_int_equal(read_fake(&p, "garbage", "1000-2000 r-xp 00000000 fe:00 7 /a\n"), -EINVAL);
	assert_int_equal(read_fake(&p, "", "1000-2000 r-xp 00000000 fe:00 7 /a\n"), -ESRCH);
	proc_maps_fini(&p);
}

static void no_mappings_are_an_error_of_their_own(void **state)
{
	struct proc_maps p;
	int dir;

	proc_maps_init(&p);
	assert_int_equal(read_fake(&p, "1 (x)" STAT_TAIL, ""), -ENODATA);
	assert_int_equal(read_fake(&p, "1 (x)" STAT_TAIL, "nonsense\n"), -ENODATA);
	dir = proc_dir("1 (x)" STAT_TAIL, "");
	assert_int_equal(unlinkat(dir, "maps", 0), 0);
	assert_int_equal(proc_maps_read(&p, dir), -ESRCH);
	assert_int_equal(unlinkat(dir, "stat", 0), 0);
	assert_int_equal(proc_maps_read(&p, dir), -ESRCH);
	close(dir);
	proc_maps_fini(&p);
}

static void long_lists_are_read_whole(void **state)
{
	enum { N = 30000 };
	char *maps = malloc(N * 64);
	struct proc_maps p;
	size_t at = 0;

	for (int i = 1; i <= N; i++)
		at += (size_t)sprintf(maps + at, "%x000-%x800 rw-p 00000000 00:00 0 \n", i, i);
	proc_maps_init(&p);
	assert_int_equal(read_fake(&p, "1 (x)" STAT_TAIL, maps), 0);
	assert_int_equal(p.n, N);
	proc_maps_fini(&p);
	free(maps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_kept_in_order_and_apart),
		cmocka_unit_test(start_time_is_found_behind_any_name),
		cmocka_unit_test(no_mappings_are_an_error_of_their_own),
		cmocka_unit_test(long_lists_are_read_whole),
	};

	return cmocka_run_group_tests_name("proc_maps", tests, NULL, NULL);
}
