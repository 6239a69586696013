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

static int parse(const char *text, char *state, unsigned long *flags)
{
	return target_parse_stat(text, strlen(text), state, flags);
}

static void stat_is_read_behind_the_last_parenthesis(void **state)
{
	unsigned long flags;
	char s;

	assert_int_equal(parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0", &s, &flags), 0);
	assert_int_equal(s, 'S');
	assert_int_equal(flags, 2129984);
	/* A comm may look like the fields behind it. */
	assert_int_equal(parse("7 (a) Z 1 (b) R 1 7 7 0 -1 4194304 0", &s, &flags), 0);
	assert_int_equal(s, 'R');
	assert_int_equal(flags, 4194304);
}

static void malformed_stat_is_refused(void **state)
{
	static const char *const texts[] = { "", "7", "7 (a)", "7 (a) ", "7 (a) R", "7 a R 1 2 3" };
	unsigned long flags;
	char s;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse(texts[i], &s, &flags), -EINVAL);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stat_is_read_behind_the_last_parenthesis),
		cmocka_unit_test(malformed_stat_is_refused),
		cmocka_unit_test(tasks_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
