// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <linux/types.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "btf_file.h"
#include "kernel.h"
#include "proc.h"
#include "task_layout.h"

#define SIZE 4096u
#define STACK 24u
#define PID 1200u
#define TP 2052u	/* as on s390x: words of 4 bytes */
#define FAULTS 1400u
#define TGID 1000u

static unsigned char bytes[2][SIZE];
static struct task_view views[2];
static struct rprof_config config;

static void poke(int i, size_t at, __u64 word)
{
	memcpy(bytes[i] + at, &word, sizeof(word));
}

static void poke_half(int i, size_t at, __u32 half)
{
	memcpy(bytes[i] + at, &half, sizeof(half));
}

/* Two threads of a process, each where it is in a kernel. */
static int begin(void **state)
{
	memset(bytes, 0, sizeof(bytes));
	config = (struct rprof_config){ .thread_size = 16384 };
	for (int i = 0; i < 2; i++) {
		const __u64 stack = 0x38000000000ULL + 0x10000 * (__u64)i;

		views[i] = (struct task_view){
			.bytes = bytes[i],
			.size = SIZE,
			.tp = 0x3fff7f80700ULL + 0x1000 * (__u64)i,
			.sp = stack + 0x3a08,
			.tid = TGID + (__u32)i,
			.tgid = TGID,
			.faults = { 500 - 490 * (__u64)i, 0 },
			.faults_known = true,
		};
		poke(i, STACK, stack);
		poke_half(i, PID, views[i].tid);
		poke_half(i, PID + 4, TGID);
		poke(i, TP, views[i].tp);
		poke(i, FAULTS, views[i].faults[0]);
		/* What looks alike: the list of robust futexes, a stack pointer, numbers that are another's. */
		poke(i, 1504, views[i].tp + 736);
		poke(i, 2000, stack + 0x3c00);
		poke_half(i, 1800, TGID);
		poke_half(i, 1804, TGID);
	}
	return 0;
}

static void places_are_those_of_both_threads(void **state)
{
	task_layout_of(views, 2, &config);
	assert_int_equal(config.task_tp, TP);
	assert_int_equal(config.task_stack, STACK);
	assert_int_equal(config.task_pid, PID);
	assert_int_equal(config.task_tgid, PID + 4);
	assert_int_equal(config.task_faults, FAULTS);
}

static void place_that_one_thread_alone_has_is_none(void **state)
{
	poke(0, 3000, views[0].tp);
	poke(0, 3008, 0x38000000000ULL + 0x1000);
	poke(1, 3016, views[1].tp);
	places_are_those_of_both_threads(state);
}

static void of_two_places_none_is_known(void **state)
{
	for (int i = 0; i < 2; i++) {
		poke(i, 3000, views[i].tp);
		poke(i, 3008, views[i].sp & ~4095ULL);
		poke_half(i, 3016, views[i].tid);
		poke_half(i, 3020, TGID);
	}
	task_layout_of(views, 2, &config);
	assert_int_equal(config.task_tp, 0);
	assert_int_equal(config.task_stack, 0);
	assert_int_equal(config.task_pid, 0);
	assert_int_equal(config.task_tgid, 0);
}

static void what_is_not_there_is_not_known(void **state)
{
	poke(1, TP, 0);
	poke(1, STACK, views[1].sp + 8);
	poke_half(1, PID, 1);
	poke(1, FAULTS + 8, 1);
	task_layout_of(views, 2, &config);
	assert_int_equal(config.task_faults, 0);
	assert_int_equal(config.task_tp, 0);
	assert_int_equal(config.task_stack, 0);
	assert_int_equal(config.task_pid, 0);
}

static void numbers_of_another_namespace_are_not_looked_for(void **state)
{
	for (int i = 0; i < 2; i++)
		views[i].tid = views[i].tgid = 0;
	task_layout_of(views, 2, &config);
	assert_int_equal(config.task_pid, 0);
	assert_int_equal(config.task_tp, TP);
}

static void faults_that_happened_meanwhile_are_not_looked_for(void **state)
{
	views[1].faults_known = false;
	task_layout_of(views, 2, &config);
	assert_int_equal(config.task_faults, 0);
	assert_int_equal(config.task_tp, TP);
}

static void nothing_is_read_behind_the_end(void **state)
{
	unsigned char *cut[2];

	for (size_t size = 0; size < 2100; size += 7) {
		for (int i = 0; i < 2; i++) {
			cut[i] = malloc(size ? size : 1);
			memcpy(cut[i], bytes[i], size);
			views[i].bytes = cut[i];
			views[i].size = size;
		}
		task_layout_of(views, 2, &config);
		assert_int_equal(config.task_tp, size >= TP + 8 ? TP : 0);
		free(cut[0]);
		free(cut[1]);
	}
}

/* The kernel that the test runs on says itself where they are. */
static void they_are_where_this_kernel_says(void **state)
{
	struct rprof_config found = { .thread_size = 16384 }, said = { 0 };
	struct btf_file btf;

	if (geteuid() || btf_file_open(&btf, "/sys/kernel/btf/vmlinux"))
		skip();
	btf_file_close(&btf);
	kernel_offsets(&said);
	/* A kernel that runs no programs of ours says nothing. */
	if (task_layout_find(&found) == -EPERM)
		skip();
	assert_int_equal(found.task_tp, said.task_tp);
	assert_int_equal(found.task_stack, said.task_stack);
	/* Others may be in the way: faults of the process meanwhile. */
	if (found.task_faults)
		assert_int_equal(found.task_faults, said.task_faults);
	if (!proc_is_nested()) {
		assert_int_equal(found.task_pid, said.task_pid);
		assert_int_equal(found.task_tgid, said.task_tgid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(places_are_those_of_both_threads, begin),
		cmocka_unit_test_setup(place_that_one_thread_alone_has_is_none, begin),
		cmocka_unit_test_setup(of_two_places_none_is_known, begin),
		cmocka_unit_test_setup(what_is_not_there_is_not_known, begin),
		cmocka_unit_test_setup(numbers_of_another_namespace_are_not_looked_for, begin),
		cmocka_unit_test_setup(faults_that_happened_meanwhile_are_not_looked_for, begin),
		cmocka_unit_test_setup(nothing_is_read_behind_the_end, begin),
		cmocka_unit_test(they_are_where_this_kernel_says),
	};

	return cmocka_run_group_tests_name("task_layout", tests, NULL, NULL);
}
