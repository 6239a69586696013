// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* As root and not as root the answers differ: each test says what holds for whoever runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "invoker.h"

static void set_sudo(const char *uid, const char *gid)
{
	if (uid)
		setenv("SUDO_UID", uid, 1);
	else
		unsetenv("SUDO_UID");
	if (gid)
		setenv("SUDO_GID", gid, 1);
	else
		unsetenv("SUDO_GID");
}

static void ids_count_only_for_root(void **state)
{
	uid_t uid = 1;
	gid_t gid = 2;

	set_sudo("1000", "1001");
	if (geteuid()) {
		assert_false(invoker_ids(&uid, &gid));
		assert_int_equal(uid, 1);
		return;
	}
	assert_true(invoker_ids(&uid, &gid));
	assert_int_equal(uid, 1000);
	assert_int_equal(gid, 1001);
}

static void ids_that_are_none_are_ignored(void **state)
{
	static const char *const bad[] = {
		NULL, "", "-1", "x", "1000 ", "4294967295", "4294967296", "18446744073709552616"
	};
	uid_t uid;
	gid_t gid;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set_sudo(bad[i], "1001");
		assert_false(invoker_ids(&uid, &gid));
		set_sudo("1000", bad[i]);
		assert_false(invoker_ids(&uid, &gid));
	}
}

static void roots_own_sudo_gives_nothing_away(void **state)
{
	uid_t uid;
	gid_t gid;

	set_sudo("0", "0");
	assert_false(invoker_ids(&uid, &gid));
}

static void root_replaces_only_its_own_and_the_invokers_files(void **state)
{
	bool root = geteuid() == 0;

	set_sudo("1000", "1000");
	assert_true(invoker_may_replace(0));
	assert_true(invoker_may_replace(1000));
	assert_int_equal(invoker_may_replace(1001), !root);
	set_sudo(NULL, NULL);
	assert_true(invoker_may_replace(0));
	assert_int_equal(invoker_may_replace(1000), !root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ids_count_only_for_root),
		cmocka_unit_test(ids_that_are_none_are_ignored),
		cmocka_unit_test(roots_own_sudo_gives_nothing_away),
		cmocka_unit_test(root_replaces_only_its_own_and_the_invokers_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
