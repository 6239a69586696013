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

#include "arch.h"
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

/* What is kept of them is taken off what all files may have, beside the file's own tables. */
static void chains_of_a_file_are_charged_for(void **state)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const __u64 all = 1ULL << 40;
	__u64 left = all, size;
	struct module *m;

	assert_true(fd >= 0);
	assert_int_equal(module_open(fd, &m), 0);
	size = module_table_size(m);
	assert_int_equal(module_load_within(m, NULL, &left), 0);
	if (ARCH_HAS_FP_CHAIN)
		assert_int_equal(all - left, size);
	else
		assert_true(all - left > size + 1000);
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
		cmocka_unit_test(chains_of_a_file_are_charged_for),
	};

	if (argc > 1)
		return print_rules(argv[1]);
	return cmocka_run_group_tests_name("back_chain", tests, NULL, NULL);
}
