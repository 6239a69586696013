// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Without arguments: tests. With the name of a file: "ADDRESS STATE" for each address (hexadecimal)
 * that is read from stdin, for tests/backchain, which has another opinion of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <fcntl.h>

#include <cmocka.h>

#include "module.h"

static struct module *open_module(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct module *m;

	return fd >= 0 && !module_open(fd, &m) && !module_load(m) ? m : NULL;
}

/* This one is built with frame pointers, or with back chains. */
static void our_own_program_links_its_frames(void **state)
{
	struct module *m = open_module("/proc/self/exe");
	struct module_report report;

	assert_non_null(m);
	module_report(m, &report);
	assert_true(report.keeps_fp_known);
	assert_true(report.keeps_fp);
	module_free(m);
}

static int print_rules(const char *path)
{
	static const char *const words[] = {
		"unknown", "up", "untouched", "lost", "unlinked", "end"
	};
	struct module *m = open_module(path);
	unsigned long long vaddr;
	struct cfi_rule rule;

	if (!m)
		return 1;
	while (scanf("%llx", &vaddr) == 1 && !cfi_rule_at(m, vaddr, &rule))
		printf("%llx %s\n", vaddr, words[rule.state]);
	module_free(m);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_own_program_links_its_frames),
	};

	if (argc > 1)
		return print_rules(argv[1]);
	return cmocka_run_group_tests_name("back_chain", tests, NULL, NULL);
}
