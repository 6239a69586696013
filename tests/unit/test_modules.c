// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Over files of the test's own; the process that has them mapped is "gone" (-1) or the test itself. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "compile.h"
#include "maps.h"
#include "module.h"
#include "modules.h"

static const char source[] = "int alpha(int x) { return x + 1; }\n";

static struct modules *new_modules(bool keep_going)
{
	struct modules *m = modules_new(&(struct modules_config){ .keep_going = keep_going });

	assert_non_null(m);
	return m;
}

static struct maps_entry entry_of(const char *path)
{
	struct maps_entry e = { .start = 4096, .end = 8192, .executable = true };
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	e.inode = st.st_ino;
	e.dev_major = major(st.st_dev);
	e.dev_minor = minor(st.st_dev);
	e.path = path;
	e.path_len = strlen(path);
	return e;
}

static __u32 add(struct modules *m, const char *path)
{
	struct maps_entry e = entry_of(path);

	return modules_add(m, -1, 1, &e);
}

static bool has_alpha(struct module *module)
{
	__u64 start;

	for (__u64 at = 0x1000; at < 0x2000; at++) {
		const char *name = module ? module_symbol(module, at, &start) : NULL;

		if (name && !strcmp(name, "alpha"))
			return true;
	}
	return false;
}

/* @n copies: PATH.0 ... */
static void copy_files(const char *path, int n)
{
	static char bytes[1 << 20];
	int in = open(path, O_RDONLY);
	ssize_t size = read(in, bytes, sizeof(bytes));

	assert_true(size > 0);
	close(in);
	for (int i = 0; i < n; i++) {
		char copy[700];
		int out;

		snprintf(copy, sizeof(copy), "%s.%d", path, i);
		out = open(copy, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_int_equal(write(out, bytes, (size_t)size), size);
		close(out);
	}
}

static void one_file_has_one_number(void **state)
{
	struct modules *m = new_modules(false);
	const char *path = compile("one.so", "c", source, "-shared -fPIC");
	struct maps_entry e = entry_of(path);
	char *moved = strdup(compile_path("sub"));
	char other[700];
	__u32 a = add(m, path), b;
	struct module *module;

	assert_int_equal(a, 1);
	assert_int_equal(add(m, path), a);
	assert_string_equal(modules_name(m, a), "one.so");
	assert_int_equal(modules_get(m, a, &module), 0);
	assert_true(has_alpha(module));
	/* As a process in another root calls it: the same inode, time and last name. */
	assert_int_equal(mkdir(moved, 0700), 0);
	snprintf(other, sizeof(other), "%s/one.so", moved);
	assert_int_equal(link(path, other), 0);
	assert_int_equal(add(m, other), a);
	/* What is not where its path says has no names, and is no one else. */
	e.inode++;
	b = modules_add(m, -1, 1, &e);
	assert_true(b && b != a);
	assert_int_equal(modules_get(m, b, &module), 0);
	assert_null(module);
	/* Memory without a file. */
	e.path = "[heap]";
	e.path_len = 6;
	assert_int_equal(modules_add(m, -1, 1, &e), 0);
	assert_string_equal(modules_name(m, 0), "[anon]");
	assert_string_equal(modules_name(m, 999), "[unknown]");
	free(moved);
	modules_free(m);
}

static void a_rebuilt_file_is_another_one(void **state)
{
	struct modules *m = new_modules(false);
	const char *path = compile("again.so", "c", source, "-shared -fPIC");
	__u32 a = add(m, path);
	struct timespec times[2] = { { 1, 0 }, { 1000000000, 5 } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_not_equal(add(m, path), a);
	assert_false(modules_same_file(m, a, a + 1));
	assert_true(modules_same_file(m, a, a));
	modules_free(m);
}

static void a_thread_reads_and_says_when_it_is_done(void **state)
{
	struct modules *m = new_modules(true);
	__u32 a = add(m, compile("thread.so", "c", source, "-shared -fPIC"));
	struct pollfd fd = { .fd = modules_fd(m), .events = POLLIN };
	struct module *module = NULL;

	assert_int_equal(modules_get(m, a, &module), -EAGAIN);
	assert_null(module);
	/* Nobody wants it any more: the thread still does. */
	modules_unref(m, a);
	assert_int_equal(poll(&fd, 1, 10000), 1);
	modules_loaded(m);
	assert_int_equal(poll(&fd, 1, 0), 0);
	assert_int_equal(modules_get(m, a, &module), 0);
	assert_true(has_alpha(module));
	modules_wait(m, 0);
	modules_free(m);
	/* Given up while it reads. */
	m = new_modules(true);
	for (int i = 0; i < 50; i++) {
		a = add(m, compile_path("thread.so"));
		modules_get(m, a, &module);
	}
	modules_free(m);
}

/* A compile farm: each file is mapped once. */
static void files_that_nothing_maps_are_forgotten_the_oldest_first(void **state)
{
	enum { N = 1500 };
	struct modules *m = new_modules(false);
	const char *path = compile("farm.so", "c", source, "-shared -fPIC");
	struct module *module;
	char copy[700];
	__u32 first, kept;

	kept = add(m, path);
	copy_files(path, N);
	for (int i = 0; i < N; i++) {
		__u32 a;

		snprintf(copy, sizeof(copy), "%s.%d", path, i);
		a = add(m, copy);
		assert_true(a);
		modules_unref(m, a);
	}
	/* The last one is still known by its number, the first is a new one; none has an old number. */
	assert_int_equal(add(m, copy), kept + N);
	snprintf(copy, sizeof(copy), "%s.0", path);
	first = add(m, copy);
	assert_int_equal(first, kept + N + 1);
	assert_string_equal(modules_name(m, kept + 1), "[unknown]");
	assert_int_equal(modules_get(m, first, &module), 0);
	assert_true(has_alpha(module));
	/* What is mapped stays. */
	assert_int_equal(modules_get(m, kept, &module), 0);
	assert_true(has_alpha(module));
	modules_free(m);
}

/* Random references to few files: a number is its file's as long as anyone has it. */
static void references_keep_files(void **state)
{
	enum { FILES = 40, STEPS = 20000 };
	struct modules *m = new_modules(false);
	const char *path = compile("ref.so", "c", source, "-shared -fPIC");
	__u32 numbers[FILES] = { 0 };
	unsigned int refs[FILES] = { 0 }, seed = 3;
	char copy[FILES][700], name[32];

	copy_files(path, FILES);
	for (int i = 0; i < FILES; i++)
		snprintf(copy[i], sizeof(copy[i]), "%s.%d", path, i);
	for (int step = 0; step < STEPS; step++) {
		int i = rand_r(&seed) % FILES;

		if (rand_r(&seed) % 2) {
			__u32 a = add(m, copy[i]);

			assert_true(!refs[i] || a == numbers[i]);
			numbers[i] = a;
			refs[i]++;
		} else if (refs[i]) {
			modules_unref(m, numbers[i]);
			refs[i]--;
		}
		snprintf(name, sizeof(name), "ref.so.%d", i);
		if (refs[i])
			assert_string_equal(modules_name(m, numbers[i]), name);
	}
	modules_free(m);
}

/* A jitdump is mapped so that profilers see where it is, and written to as long as its process runs. */
static void a_file_that_grew_can_be_opened_again(void **state)
{
	struct modules *m = new_modules(false);
	const char *path = compile("jit-1.dump", "c", source, "-shared -fPIC");
	struct maps_entry e = entry_of(path);
	__u32 a = modules_add(m, -1, 0x7ffffff1, &e);
	int fd = open(path, O_WRONLY | O_APPEND), again;

	assert_int_equal(write(fd, "more", 4), 4);
	close(fd);
	again = modules_open(m, a);
	assert_true(again >= 0);
	close(again);
	/* Another file in its place. */
	assert_int_equal(unlink(path), 0);
	copy_files(compile("other.so", "c", source, "-shared -fPIC"), 1);
	assert_int_equal(rename(compile_path("other.so.0"), compile_path("jit-1.dump")), 0);
	assert_int_equal(modules_open(m, a), -ESTALE);
	modules_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_file_has_one_number),
		cmocka_unit_test(a_rebuilt_file_is_another_one),
		cmocka_unit_test(a_thread_reads_and_says_when_it_is_done),
		cmocka_unit_test(files_that_nothing_maps_are_forgotten_the_oldest_first),
		cmocka_unit_test(references_keep_files),
		cmocka_unit_test(a_file_that_grew_can_be_opened_again),
	};

	return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}
