// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <jansson.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "caps.h"
#include "check_parts.h"
#include "check_report.h"

#define BIT(cap) (1ull << (cap))
#define ALL ((1ull << 41) - 1)

static struct check_report *report;
static json_t *findings;
static bool allowed;

static int begin(void **state)
{
	report = check_report_new();
	check_group(report, "rights");
	return report ? 0 : -1;
}

static int end(void **state)
{
	check_report_free(report);
	json_decref(findings);
	findings = NULL;
	return 0;
}

static void check(__u64 effective, bool as_user, bool user_namespace)
{
	const struct caps_facts caps = {
		.effective = effective,
		.user_namespace = user_namespace,
		.perf_event_paranoid = 2,
	};
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	allowed = check_rights(report, &caps, as_user);
	assert_int_equal(check_write_json(report, f), 0);
	fclose(f);
	findings = json_loads(text, 0, NULL);
	free(text);
}

static json_t *finding(const char *subject)
{
	json_t *list = json_object_get(findings, "findings"), *x;
	size_t i;

	json_array_foreach(list, i, x) if (!strcmp(json_string_value(json_object_get(x, "subject")),
						   subject)) return x;
	return NULL;
}

static void assert_state(const char *subject, const char *want)
{
	json_t *x = finding(subject);

	if (!x)
		fail_msg("nothing is said of %s", subject);
	assert_string_equal(json_string_value(json_object_get(x, "state")), want);
	if (strcmp(want, "fine"))
		assert_true(strlen(json_string_value(json_object_get(x, "advice"))) > 0);
}

static void all_rights_are_fine(void **state)
{
	check(ALL, true, false);
	assert_true(allowed);
	assert_int_equal(check_verdict(report), CHECK_FINE);
}

static void what_sampling_needs_is_impossible_without(void **state)
{
	check(ALL & ~BIT(CAP_BPF) & ~BIT(CAP_SYS_ADMIN), false, false);
	assert_false(allowed);
	assert_state("CAP_BPF", "impossible");
	assert_state("CAP_PERFMON", "fine");
}

static void no_events_without_perfmon(void **state)
{
	check(ALL & ~BIT(CAP_PERFMON) & ~BIT(CAP_SYS_ADMIN), false, false);
	assert_false(allowed);
	assert_state("CAP_PERFMON", "impossible");
}

static void sys_admin_takes_the_place_of_newer_ones(void **state)
{
	check(BIT(CAP_SYS_ADMIN), false, false);
	assert_true(allowed);
	assert_state("CAP_BPF", "fine");
	assert_state("CAP_CHECKPOINT_RESTORE", "fine");
	assert_state("CAP_SYS_PTRACE", "degraded");
	assert_state("CAP_DAC_READ_SEARCH", "degraded");
}

static void what_only_names_need_degrades(void **state)
{
	check(BIT(CAP_BPF) | BIT(CAP_PERFMON), false, false);
	assert_true(allowed);
	assert_int_equal(check_verdict(report), CHECK_DEGRADED);
	assert_state("CAP_SYS_PTRACE", "degraded");
	assert_state("CAP_CHECKPOINT_RESTORE", "degraded");
}

static void the_users_command_is_judged_only_after_sudo(void **state)
{
	check(ALL & ~BIT(CAP_SETUID) & ~BIT(CAP_KILL), false, false);
	assert_null(finding("CAP_SETUID"));
	assert_int_equal(check_verdict(report), CHECK_FINE);
	json_decref(findings);
	check(ALL & ~BIT(CAP_SETUID) & ~BIT(CAP_KILL), true, false);
	assert_state("CAP_SETUID", "degraded");
	assert_state("CAP_KILL", "degraded");
	assert_state("CAP_CHOWN", "fine");
}

static void capabilities_of_a_user_namespace_do_not_count(void **state)
{
	check(ALL, false, true);
	assert_false(allowed);
	assert_state("user namespace", "impossible");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_rights_are_fine),
		TEST(what_sampling_needs_is_impossible_without),
		TEST(no_events_without_perfmon),
		TEST(sys_admin_takes_the_place_of_newer_ones),
		TEST(what_only_names_need_degrades),
		TEST(the_users_command_is_judged_only_after_sudo),
		TEST(capabilities_of_a_user_namespace_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
