// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
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

static struct check_settings settings;
static struct caps_facts caps;
static char *text;

static int begin(void **state)
{
	settings = (struct check_settings){
		.release = "6.1.0-20-amd64",
		.machine = "x86_64",
		.jit = 1,
		.max_rate = 100000,
		.cpu_percent = 25,
		.mlock_kb = 516,
		.max_stack = 127,
		.unprivileged = 2,
		.has_btf = true,
		.steal_percent = -1,
		.nofile = 20000,
	};
	caps = (struct caps_facts){
		.perf_event_paranoid = 3,
		.kptr_restrict = 1,
		.lockdown = "none",
	};
	return 0;
}

static int end(void **state)
{
	free(text);
	text = NULL;
	return 0;
}

static enum check_state judge(__u32 frequency)
{
	struct check_report *r = check_report_new();
	enum check_state verdict;
	size_t size;
	FILE *f;

	free(text);
	f = open_memstream(&text, &size);
	check_group(r, "kernel");
	check_settings(r, &settings, &caps, frequency);
	assert_int_equal(check_write_text(r, f), 0);
	fclose(f);
	verdict = check_verdict(r);
	check_report_free(r);
	return verdict;
}

static void assert_says(const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

static void debian_is_fine(void **state)
{
	assert_int_equal(judge(99), CHECK_FINE);
	assert_says("Linux 6.1.0-20-amd64, x86_64");
}

static void an_old_kernel_degrades(void **state)
{
	strcpy(settings.release, "5.4.0-42-generic");
	assert_int_equal(judge(99), CHECK_DEGRADED);
	strcpy(settings.release, "5.10.0");
	assert_int_equal(judge(99), CHECK_FINE);
}

static void a_rate_that_is_refused_is_impossible(void **state)
{
	settings.max_rate = 500;
	assert_int_equal(judge(500), CHECK_FINE);
	assert_int_equal(judge(501), CHECK_IMPOSSIBLE);
	assert_says("-> -F 500, or sysctl");
}

static void the_interpreter_degrades(void **state)
{
	settings.jit = 0;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	assert_says("net.core.bpf_jit_enable=1");
	/* Only root may read it: nothing is claimed then. */
	settings.jit = CAPS_UNKNOWN;
	assert_int_equal(judge(99), CHECK_FINE);
	assert_null(strstr(text, "JIT"));
}

static void no_btf_degrades(void **state)
{
	settings.has_btf = false;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	assert_says("user frames");
	assert_says("thread pointer");
	assert_says("-s");
	settings.places.task_stack = settings.places.task_tgid = 8;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	assert_says("thread pointer");
	assert_null(strstr(text, "user frames"));
	settings.places.task_tp = 8;
	assert_int_equal(judge(99), CHECK_FINE);
	assert_says("threads of our own");
}

static void confidentiality_is_impossible(void **state)
{
	strcpy(caps.lockdown, "integrity");
	assert_int_equal(judge(99), CHECK_FINE);
	strcpy(caps.lockdown, "confidentiality");
	assert_int_equal(judge(99), CHECK_IMPOSSIBLE);
}

static void ubuntus_strict_level_may_need_more(void **state)
{
	caps.perf_event_paranoid = 4;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	caps.effective = 1ull << CAP_SYS_ADMIN;
	assert_int_equal(judge(99), CHECK_FINE);
}

static void no_perf_events_is_impossible(void **state)
{
	caps.perf_event_paranoid = CAPS_UNKNOWN;
	assert_int_equal(judge(99), CHECK_IMPOSSIBLE);
}

static void short_kernel_stacks_and_few_files_degrade(void **state)
{
	settings.max_stack = 20;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	assert_says("20 frames");
	settings.max_stack = 200;
	assert_int_equal(judge(99), CHECK_FINE);
	settings.nofile = 256;
	assert_int_equal(judge(99), CHECK_DEGRADED);
}

static void little_memory_for_events_degrades(void **state)
{
	settings.mlock_kb = 100;
	assert_int_equal(judge(99), CHECK_DEGRADED);
	caps.effective = 1ull << CAP_IPC_LOCK;
	assert_int_equal(judge(99), CHECK_FINE);
}

static void this_machine_has_numbers(void **state)
{
	struct check_settings here;

	check_read_settings(&here);
	assert_true(strlen(here.release) > 0 && strlen(here.machine) > 0);
	assert_true(here.nofile > 0);
	assert_true(here.steal_percent <= 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(debian_is_fine),
		TEST(an_old_kernel_degrades),
		TEST(a_rate_that_is_refused_is_impossible),
		TEST(the_interpreter_degrades),
		TEST(no_btf_degrades),
		TEST(confidentiality_is_impossible),
		TEST(ubuntus_strict_level_may_need_more),
		TEST(no_perf_events_is_impossible),
		TEST(short_kernel_stacks_and_few_files_degrade),
		TEST(little_memory_for_events_degrades),
		TEST(this_machine_has_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
