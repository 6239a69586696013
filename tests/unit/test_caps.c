// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "caps.h"

#define BIT(cap) (1ull << (cap))
#define ALL ((1ull << 41) - 1)
#define NARROW                                                                                     \
	(BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_PTRACE) | BIT(CAP_CHECKPOINT_RESTORE) |     \
	 BIT(CAP_SYSLOG) | BIT(CAP_DAC_READ_SEARCH))

static char text[2048];

static struct caps_facts root(void)
{
	return (struct caps_facts){
		.effective = ALL,
		.perf_event_paranoid = 2,
		.kptr_restrict = 1,
		.lockdown = "none",
	};
}

static struct caps_facts user(__u64 effective)
{
	struct caps_facts f = root();

	f.effective = effective;
	f.euid = 1000;
	return f;
}

static bool explain(struct caps_facts f)
{
	return caps_explain(&f, text, sizeof(text));
}

static void assert_says(const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in: %s", words, text);
}

static void assert_silent_about(const char *words)
{
	if (strstr(text, words))
		fail_msg("\"%s\" is in: %s", words, text);
}

static void nothing_missing_nothing_said(void **state)
{
	struct caps_facts debian = root();

	assert_true(explain(root()));
	assert_string_equal(text, "");
	assert_true(explain(user(NARROW)));
	assert_string_equal(text, "");
	/* Debian's level 3 takes CAP_PERFMON. */
	debian.perf_event_paranoid = 3;
	assert_true(explain(debian));
	assert_string_equal(text, "");
	/* Settings that could not be read are not complained about. */
	debian.perf_event_paranoid = CAPS_UNKNOWN;
	debian.kptr_restrict = CAPS_UNKNOWN;
	debian.lockdown[0] = '\0';
	assert_true(explain(debian));
	assert_string_equal(text, "");
}

static void plain_user_is_told_to_use_sudo(void **state)
{
	assert_false(explain(user(0)));
	assert_says("CAP_BPF is missing: needed to load BPF programs\n");
	assert_says("CAP_PERFMON is missing: needed to");
	assert_says("sudo rprof-bpf");
	assert_says("setcap CAP_BPF,CAP_PERFMON,CAP_SYS_PTRACE,CAP_CHECKPOINT_RESTORE,CAP_SYSLOG,"
		    "CAP_DAC_READ_SEARCH=ep");
	assert_silent_about("--cap-add");
}

static void root_of_a_container_is_told_what_to_add(void **state)
{
	struct caps_facts f = root();

	f.effective = BIT(CAP_CHOWN) | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYSLOG) |
		      BIT(CAP_DAC_OVERRIDE);
	assert_false(explain(f));
	assert_says(
		"--cap-add=BPF --cap-add=PERFMON --cap-add=CHECKPOINT_RESTORE, or --privileged");
	assert_silent_about("sudo");
	assert_silent_about("SYS_PTRACE");
}

static void sys_admin_stands_for_the_newer_ones(void **state)
{
	assert_true(explain(user(BIT(CAP_SYS_ADMIN) | BIT(CAP_SYS_PTRACE) | BIT(CAP_SYSLOG) |
				 BIT(CAP_DAC_READ_SEARCH))));
	assert_string_equal(text, "");
}

static void each_required_one_alone_is_not_enough(void **state)
{
	assert_false(explain(user(NARROW & ~BIT(CAP_BPF))));
	assert_says("CAP_BPF");
	assert_silent_about("CAP_PERFMON is missing");
	assert_false(explain(user(NARROW & ~BIT(CAP_PERFMON))));
	assert_says("CAP_PERFMON");
}

static void optional_ones_only_warn(void **state)
{
	assert_true(explain(user(NARROW & ~BIT(CAP_SYS_PTRACE))));
	assert_says("CAP_SYS_PTRACE is missing: without it we cannot name the frames");
	assert_true(explain(user(NARROW & ~BIT(CAP_CHECKPOINT_RESTORE))));
	assert_says("CAP_CHECKPOINT_RESTORE is missing");
	assert_true(explain(user(NARROW & ~BIT(CAP_SYSLOG))));
	assert_says("CAP_SYSLOG is missing: without it we cannot name kernel frames");
}

static void kernel_symbols_follow_the_kernels_own_rule(void **state)
{
	struct caps_facts f = user(NARROW & ~BIT(CAP_SYSLOG));

	f.kptr_restrict = 0;
	assert_true(explain(f));
	assert_says("CAP_SYSLOG"); /* perf_event_paranoid is 2 */
	f.perf_event_paranoid = 1;
	assert_true(explain(f));
	assert_string_equal(text, "");
	f.kptr_restrict = 1;
	assert_true(explain(f));
	assert_says("CAP_SYSLOG");

	/* At 2 not even root sees them, and CAP_SYSLOG would not help. */
	f.kptr_restrict = 2;
	assert_true(explain(f));
	assert_silent_about("CAP_SYSLOG");
	assert_says("sysctl kernel.kptr_restrict=1");
	f = root();
	f.kptr_restrict = 2;
	assert_true(explain(f));
	assert_says("kernel.kptr_restrict=2");
}

static void only_confidentiality_is_in_the_way(void **state)
{
	struct caps_facts f = root();

	strcpy(f.lockdown, "integrity");
	assert_true(explain(f));
	assert_string_equal(text, "");
	strcpy(f.lockdown, "confidentiality");
	assert_true(explain(f));
	assert_says("lockdown: the kernel is in confidentiality mode");
}

static void ubuntus_level_4_is_named_only_without_sys_admin(void **state)
{
	struct caps_facts f = root();

	f.perf_event_paranoid = 4;
	assert_true(explain(f));
	assert_string_equal(text, "");
	f = user(NARROW);
	f.perf_event_paranoid = 4;
	assert_true(explain(f));
	assert_says("kernel.perf_event_paranoid=4");
}

static void capabilities_of_a_user_namespace_do_not_count(void **state)
{
	struct caps_facts f = root();

	f.user_namespace = true;
	assert_false(explain(f));
	assert_says("user namespace");
	assert_says("on the host");
}

static void small_buffers_are_not_overrun(void **state)
{
	struct caps_facts f = user(0);

	for (size_t size = 0; size < 100; size++) {
		memset(text, 'x', sizeof(text));
		assert_false(caps_explain(&f, text, size));
		assert_int_equal(text[size], 'x');
		if (size)
			assert_true(strlen(text) < size);
	}
}

static void lines_end_with_a_newline_each(void **state)
{
	assert_false(explain(user(0)));
	assert_int_equal(text[strlen(text) - 1], '\n');
	assert_null(strstr(text, "\n\n"));
}

static void facts_of_this_process_can_be_read(void **state)
{
	struct caps_facts f;

	caps_read(&f);
	assert_true(f.perf_event_paranoid == CAPS_UNKNOWN || f.perf_event_paranoid >= -1);
	caps_explain(&f, text, sizeof(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_missing_nothing_said),
		cmocka_unit_test(plain_user_is_told_to_use_sudo),
		cmocka_unit_test(root_of_a_container_is_told_what_to_add),
		cmocka_unit_test(sys_admin_stands_for_the_newer_ones),
		cmocka_unit_test(each_required_one_alone_is_not_enough),
		cmocka_unit_test(optional_ones_only_warn),
		cmocka_unit_test(kernel_symbols_follow_the_kernels_own_rule),
		cmocka_unit_test(only_confidentiality_is_in_the_way),
		cmocka_unit_test(ubuntus_level_4_is_named_only_without_sys_admin),
		cmocka_unit_test(capabilities_of_a_user_namespace_do_not_count),
		cmocka_unit_test(small_buffers_are_not_overrun),
		cmocka_unit_test(lines_end_with_a_newline_each),
		cmocka_unit_test(facts_of_this_process_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
