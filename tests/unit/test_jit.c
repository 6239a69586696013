// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A directory of ours stands for /proc/PID, with the root of a process that has number 7 in its own
 * pid namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "compile.h"
#include "jit.h"
#include "jitdump_image.h"

#define MAP "root/tmp/perf-7.map"
#define NOW ~0ULL

static int proc = -1;

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(compile_path(name), "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void append(const char *name, const char *text)
{
	FILE *f = fopen(compile_path(name), "a");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Started @ago seconds ago; negative: yet to start. */
static void set_start(int ago)
{
	struct timespec ts;
	char text[256];

	clock_gettime(CLOCK_BOOTTIME, &ts);
	snprintf(text, sizeof(text), "4711 (a) b) R %s %lld 0 0 0\n",
		 "1 2 3 4 -1 6 7 8 9 10 11 12 13 14 15 16 17 0",
		 (long long)(ts.tv_sec - ago) * sysconf(_SC_CLK_TCK));
	write_file("stat", text);
}

static void set_uid(unsigned int uid)
{
	char text[256];

	snprintf(text, sizeof(text),
		 "Name:\tx\\nUid:\t0\nPid:\t4711\nUid:\t0\t%u\t0\t0\nNSpid:\t4711\t12\t7\n"
		 "NSpgid:\t4711\t12\t7\n",
		 uid);
	write_file("status", text);
}

static int set_up(void **state)
{
	if (proc >= 0)
		close(proc);
	compile_path("");
	shell("cd '%s' && rm -rf root x && mkdir -p root/tmp", compile_dir);
	set_start(3600);
	set_uid(geteuid());
	proc = open(compile_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(proc >= 0);
	return 0;
}

static void expect_name(struct jit *j, int dir, __u64 addr, __u64 time, const char *name)
{
	const char *found = jit_find(j, dir, addr, time);

	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
}

static void map_of_the_number_in_the_innermost_namespace_is_read(void **state)
{
	struct jit *j = jit_new();

	write_file("root/tmp/perf-4711.map", "1000 10 not ours\n");
	write_file(MAP, "1000 10 f\n");
	expect_name(j, proc, 0x1008, NOW, "f");
	expect_name(j, proc, 0x1010, NOW, NULL);
	assert_null(jit_problem(j));
	jit_free(j);
}

static void map_that_grows_is_read_on_when_the_process_is_gone(void **state)
{
	struct jit *j = jit_new();

	write_file(MAP, "1000 10 f\n2000 1");
	expect_name(j, proc, 0x1000, NOW, "f");
	expect_name(j, proc, 0x2000, NOW, NULL);
	append(MAP, "0 g\n");
	expect_name(j, -1, 0x2000, NOW, "g");
	append(MAP, "1000 10 newer\n");
	expect_name(j, -1, 0x1000, NOW, "newer");
	jit_free(j);
	/* Nothing was opened while it was there. */
	j = jit_new();
	expect_name(j, -1, 0x1000, NOW, NULL);
	jit_free(j);
}

static void map_that_comes_later_is_found(void **state)
{
	const struct timespec second = { .tv_sec = 1, .tv_nsec = 1000000 };
	struct jit *j = jit_new();

	expect_name(j, proc, 0x1000, NOW, NULL);
	write_file(MAP, "1000 10 f\n");
	nanosleep(&second, NULL);
	expect_name(j, proc, 0x1000, NOW, "f");
	assert_null(jit_problem(j));
	/* And one that takes its place. */
	shell("cd '%s' && echo 1000 10 g > x && mv x " MAP, compile_dir);
	nanosleep(&second, NULL);
	expect_name(j, proc, 0x1000, NOW, "g");
	jit_free(j);
}

static void map_that_is_written_anew_loses_its_names(void **state)
{
	struct jit *j = jit_new();

	write_file(MAP, "1000 10 f\n2000 10 g\n");
	expect_name(j, proc, 0x2000, NOW, "g");
	write_file(MAP, "1000 10 new\n");
	expect_name(j, proc, 0x1000, NOW, "new");
	expect_name(j, proc, 0x2000, NOW, NULL);
	jit_free(j);
}

/* What jit_find() says on stderr. */
static void find_and_listen(struct jit *j, char *said, size_t size)
{
	FILE *f = tmpfile();
	int saved = dup(STDERR_FILENO);
	size_t n;

	fflush(stderr);
	dup2(fileno(f), STDERR_FILENO);
	expect_name(j, proc, 0x1000, NOW, NULL);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(f);
	n = fread(said, 1, size - 1, f);
	said[n] = '\0';
	fclose(f);
}

static void expect_refused(const char *problem)
{
	struct jit *j = jit_new();
	char said[1024], expected[256];

	find_and_listen(j, said, sizeof(said));
	assert_string_equal(jit_problem(j), problem);
	snprintf(expected, sizeof(expected), "/tmp/perf-7.map of process 4711: %s", problem);
	assert_non_null(strstr(said, expected));
	jit_free(j);
}

static void refusal_is_said_once(void **state)
{
	const struct timespec second = { .tv_sec = 1, .tv_nsec = 1000000 };
	struct jit *j = jit_new();
	char said[1024];

	assert_int_equal(symlink("/etc/passwd", compile_path(MAP)), 0);
	find_and_listen(j, said, sizeof(said));
	assert_string_not_equal(said, "");
	/* It is looked for again. */
	nanosleep(&second, NULL);
	find_and_listen(j, said, sizeof(said));
	assert_string_equal(said, "");
	assert_string_equal(jit_problem(j), "a link: not read");
	jit_free(j);
}

static void map_that_may_be_somebody_elses_is_refused(void **state)
{
	const char *path = compile_path("root/tmp/perf-7.map");

	write_file("root/tmp/target", "1000 10 f\n");
	assert_int_equal(symlink("target", path), 0);
	expect_refused("a link: not read");
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	expect_refused("a link: not read");
	unlink(path);
	assert_int_equal(mkfifo(path, 0666), 0);
	expect_refused("not a regular file: not read");
	unlink(path);
	assert_int_equal(mkdir(path, 0755), 0);
	expect_refused("not a regular file: not read");
	rmdir(path);
	assert_int_equal(link(compile_path("root/tmp/target"), path), 0);
	expect_refused("has another name: not read");
}

static void map_of_another_user_is_refused(void **state)
{
	struct jit *j;

	write_file(MAP, "1000 10 f\n");
	if (!geteuid()) {
		/* Root's is taken whoever runs. */
		set_uid(1000);
		j = jit_new();
		expect_name(j, proc, 0x1000, NOW, "f");
		jit_free(j);
		assert_int_equal(chown(compile_path(MAP), 1000, 1000), 0);
		j = jit_new();
		expect_name(j, proc, 0x1000, NOW, "f");
		jit_free(j);
	}
	set_uid(geteuid() + 1);
	expect_refused("not owned by its user: not read");
}

/* Left in /tmp by one that had the number before. */
static void map_that_is_older_than_the_process_is_refused(void **state)
{
	write_file(MAP, "1000 10 f\n");
	set_start(-2);
	expect_refused("older than the process: not read");
}

static void process_that_ends_meanwhile_has_no_names(void **state)
{
	struct jit *j = jit_new();

	write_file(MAP, "1000 10 f\n");
	shell("rm '%s/status'", compile_dir);
	expect_name(j, proc, 0x1000, NOW, NULL);
	assert_null(jit_problem(j));
	jit_free(j);
	write_file("status", "Name:\tx\n");
	j = jit_new();
	expect_name(j, proc, 0x1000, NOW, NULL);
	jit_free(j);
}

/* A hole costs nothing to make: 4 GB of what is no line. */
static void map_of_gigabytes_is_not_read_to_its_end(void **state)
{
	struct jit *j = jit_new();

	write_file(MAP, "1000 10 f\n");
	assert_int_equal(truncate(compile_path(MAP), 4LL << 30), 0);
	expect_name(j, proc, 0x1000, NOW, "f");
	assert_string_equal(jit_problem(j), "too long: not read to its end");
	jit_free(j);
}

static void write_image(const char *name, const struct image *f)
{
	int fd = open(compile_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_int_equal(write(fd, f->bytes, f->len), f->len);
	close(fd);
}

static int open_image(const char *name)
{
	return open(compile_path(name), O_RDONLY | O_CLOEXEC);
}

static void dump_comes_before_the_map_and_knows_times(void **state)
{
	struct jit *j = jit_new();
	struct image f = { 0 };

	write_file(MAP, "1000 10 from the map\n9000 10 g\n");
	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "old");
	write_image("root/tmp/jit-7.dump", &f);
	jit_set_dump(j, open_image("root/tmp/jit-7.dump"));
	expect_name(j, proc, 0x1000, 150, "old");
	image_load(&f, 200, 0x1000, 64, "new");
	write_image("root/tmp/jit-7.dump", &f);
	expect_name(j, proc, 0x1000, 150, "old");
	expect_name(j, proc, 0x1000, 250, "new");
	/* Seen again: known. */
	jit_set_dump(j, open_image("root/tmp/jit-7.dump"));
	expect_name(j, proc, 0x1000, 150, "old");
	expect_name(j, proc, 0x1000, 50, "from the map");
	expect_name(j, proc, 0x9000, 50, "g");
	jit_free(j);
}

static void code_of_a_dump_is_skipped_not_read(void **state)
{
	struct jit *j = jit_new();
	struct image f = { 0 };
	__u32 size = 1u << 30;
	char record[256] = "";
	int fd;

	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "before");
	memcpy(f.bytes + 44, &size, 4);
	write_image("root/tmp/big.dump", &f);
	fd = open(compile_path("root/tmp/big.dump"), O_WRONLY | O_CLOEXEC);
	f.len = 0;
	image_load(&f, 100, 0x2000, 64, "after");
	assert_int_equal(pwrite(fd, f.bytes, f.len, 40 + (off_t)size), f.len);
	assert_int_equal(pwrite(fd, record, sizeof(record), 40 + (off_t)size + (off_t)f.len),
			 sizeof(record));
	close(fd);
	jit_set_dump(j, open_image("root/tmp/big.dump"));
	expect_name(j, -1, 0x1000, 100, "before");
	expect_name(j, -1, 0x2000, 100, "after");
	assert_null(jit_problem(j));
	jit_free(j);
}

static void dump_that_is_none_is_said(void **state)
{
	struct jit *j = jit_new();
	char said[1024];

	write_file("root/tmp/jit-7.dump", "1000 10 f\n, and more, so that it could be a header\n");
	jit_set_dump(j, open_image("root/tmp/jit-7.dump"));
	find_and_listen(j, said, sizeof(said));
	assert_non_null(strstr(said, "jitdump of process 4711: it is not a jitdump file"));
	jit_set_dump(j, open(compile_path("root"), O_RDONLY | O_DIRECTORY));
	find_and_listen(j, said, sizeof(said));
	assert_string_equal(said, "");
	jit_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(map_of_the_number_in_the_innermost_namespace_is_read,
				       set_up),
		cmocka_unit_test_setup(map_that_grows_is_read_on_when_the_process_is_gone, set_up),
		cmocka_unit_test_setup(map_that_comes_later_is_found, set_up),
		cmocka_unit_test_setup(map_that_is_written_anew_loses_its_names, set_up),
		cmocka_unit_test_setup(map_that_may_be_somebody_elses_is_refused, set_up),
		cmocka_unit_test_setup(refusal_is_said_once, set_up),
		cmocka_unit_test_setup(map_of_another_user_is_refused, set_up),
		cmocka_unit_test_setup(map_that_is_older_than_the_process_is_refused, set_up),
		cmocka_unit_test_setup(process_that_ends_meanwhile_has_no_names, set_up),
		cmocka_unit_test_setup(map_of_gigabytes_is_not_read_to_its_end, set_up),
		cmocka_unit_test_setup(dump_comes_before_the_map_and_knows_times, set_up),
		cmocka_unit_test_setup(code_of_a_dump_is_skipped_not_read, set_up),
		cmocka_unit_test_setup(dump_that_is_none_is_said, set_up),
	};

	return cmocka_run_group_tests_name("jit", tests, NULL, NULL);
}
