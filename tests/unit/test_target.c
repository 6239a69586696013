// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "target.h"

static int parse(const char *text, struct target_stat *s)
{
	size_t len = strlen(text);
	char *copy = malloc(len ? len : 1);
	int err;

	memcpy(copy, text, len);
	err = target_parse_stat(copy, len, s);
	free(copy);
	return err;
}

static void stat_is_read_behind_the_last_parenthesis(void **state)
{
	struct target_stat s;

	assert_int_equal(
		parse("2 (kthreadd) S 0 0 0 0 -1 2129984 1 2 3 4 5 6 7 8 20 0 1 0 33 0 0", &s), 0);
	assert_int_equal(s.state, 'S');
	assert_int_equal(s.ppid, 0);
	assert_int_equal(s.flags, 2129984);
	assert_int_equal(s.start_time, 33);
	/* A comm may look like the fields behind it. */
	assert_int_equal(parse("7 (a) Z 1 (b) R 1 7 7 0 -1 4194304 18446744073709551615 0 0 0 0 0 "
			       "-1 -1 39 19 64 0 18446744073709551615",
			       &s),
			 0);
	assert_int_equal(s.state, 'R');
	assert_int_equal(s.ppid, 1);
	assert_int_equal(s.flags, 4194304);
	assert_true(s.start_time == ~0ULL);
}

static void malformed_stat_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"7",
		"7 (a)",
		"7 (a) ",
		"7 (a) R",
		"7 a R 1 2 3",
		"7 (a) R 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0",
	};
	struct target_stat s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse(texts[i], &s), -EINVAL);
}

static void tasks_are_told_apart(void **state)
{
	__u32 tgid = 0;
	pid_t child;

	assert_int_equal(target_look(getpid(), &tgid), TARGET_OK);
	assert_int_equal(tgid, getpid());
	child = fork();
	if (!child)
		_exit(0);
	assert_true(child > 0);
	while (target_look(child, &tgid) == TARGET_OK)
		usleep(1000);
	assert_int_equal(target_look(child, &tgid), TARGET_ZOMBIE);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(target_look(child, &tgid), TARGET_GONE);
}

static void threads_are_of_one_process(void **state)
{
	const __u32 us = (__u32)getpid(), parent = (__u32)getppid();

	assert_true(target_has_thread(us, us));
	assert_false(target_has_thread(us, parent));
	assert_false(target_has_thread(parent, us));
	assert_false(target_has_thread(us, 0));
}

static bool among(__u32 pid, const __u32 *ids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_true(!i || ids[i] > ids[i - 1]);
		if (ids[i] == pid)
			return true;
	}
	return false;
}

/* A child that waits for the end of the pipe @fds, and a child of its own that does. */
static pid_t start_two(const int *fds, const int *report, __u32 *grandchild)
{
	pid_t child = fork();
	char c;

	if (!child) {
		pid_t second = fork();

		close(fds[1]);
		if (second && write(report[1], &second, sizeof(second)) != sizeof(second))
			_exit(1);
		while (read(fds[0], &c, 1) > 0)
			;
		_exit(second ? waitpid(second, NULL, 0) < 0 : 0);
	}
	assert_true(child > 0);
	assert_int_equal(read(report[0], grandchild, sizeof(*grandchild)), sizeof(*grandchild));
	return child;
}

static void descendants_are_found_at_any_depth(void **state)
{
	__u32 own = getpid(), roots[2] = { own }, grandchild = 0, *ids;
	int fds[2], report[2];
	pid_t child;
	size_t n;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pipe(report), 0);
	child = start_two(fds, report, &grandchild);

	assert_int_equal(target_descendants(roots, 1, &ids, &n), 0);
	assert_true(among(own, ids, n));
	assert_true(among(child, ids, n));
	assert_true(among(grandchild, ids, n));
	assert_false(among(getppid(), ids, n));
	free(ids);

	/* From the child down; a root that is not there is left out. */
	roots[0] = child;
	roots[1] = 0x7ffffffe;
	assert_int_equal(target_descendants(roots, 2, &ids, &n), 0);
	assert_int_equal(n, 2);
	assert_true(among(child, ids, n));
	assert_true(among(grandchild, ids, n));
	free(ids);

	close(fds[1]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(target_descendants(roots, 2, &ids, &n), 0);
	assert_int_equal(n, 0);
	free(ids);
	close(fds[0]);
	close(report[0]);
	close(report[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_is_read_behind_the_last_parenthesis),
		cmocka_unit_test(malformed_stat_is_refused),
		cmocka_unit_test(tasks_are_told_apart),
		cmocka_unit_test(threads_are_of_one_process),
		cmocka_unit_test(descendants_are_found_at_any_depth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
