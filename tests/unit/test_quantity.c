// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quantity.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define SECOND 1000000000ull

static void frequencies_are_read_exactly(void **state)
{
	static const struct {
		const char *text;
		__u32 hz;
	} good[] = {
		{ "1", 1 },	      { "99", 99 },	  { "0099", 99 },   { "997hz", 997 },
		{ "997Hz", 997 },     { "1k", 1000 },	  { "1khz", 1000 }, { "1KHZ", 1000 },
		{ "4.5khz", 4500 },   { "4.999k", 4999 }, { "99.0", 99 },   { "100khz", 100000 },
		{ "100000", 100000 }, { "0.001k", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		__u32 hz = 0;

		assert_int_equal(quantity_hz(good[i].text, &hz), 0);
		assert_int_equal(hz, good[i].hz);
	}
}

static void frequencies_out_of_range_are_told_from_nonsense(void **state)
{
	static const char *const range[] = {
		"0",	   "0.5",	 "99.5",
		"100001",  "1000000000", "101khz",
		"0.0005k", "0khz",	 "99999999999999999999999999999999"
	};
	static const char *const nonsense[] = { "",    "-1",   "+1",   " 99",	"99 ", "nan",
						"inf", "1e3",  "0x63", ".5",	"5.",  "k",
						"hz",  "1mhz", "99,5", "1.2.3", "--",  "1khz " };
	__u32 hz = 7;

	for (size_t i = 0; i < ARRAY_SIZE(range); i++)
		assert_int_equal(quantity_hz(range[i], &hz), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		assert_int_equal(quantity_hz(nonsense[i], &hz), -EINVAL);
	assert_int_equal(hz, 7);
}

static void durations_are_read_exactly(void **state)
{
	static const struct {
		const char *text;
		__u64 ns;
	} good[] = {
		{ "30", 30 * SECOND },
		{ "30s", 30 * SECOND },
		{ "30S", 30 * SECOND },
		{ "500ms", SECOND / 2 },
		{ "0.5", SECOND / 2 },
		{ "1.5s", 3 * SECOND / 2 },
		{ "5m", 300 * SECOND },
		{ "5min", 300 * SECOND },
		{ "1h", 3600 * SECOND },
		{ "0.1h", 360 * SECOND },
		{ "2d", 2 * 86400 * SECOND },
		{ "1ms", SECOND / 1000 },
		{ "1000d", QUANTITY_DURATION_MAX_NS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		__u64 ns = 0;

		assert_int_equal(quantity_duration(good[i].text, &ns), 0);
		assert_true(ns == good[i].ns);
	}
}

static void durations_of_nothing_or_of_ages_are_refused(void **state)
{
	static const char *const range[] = { "0",
					     "0s",
					     "0.0",
					     "0.5ms",
					     "0.0000000001",
					     "1001d",
					     "86400001",
					     "99999999999h",
					     "18446744073709551616",
					     "1000000000000000000000000000000000d" };
	static const char *const nonsense[] = { "", "-5", "5x", "s", "5 s", "1h30m", "nan", "1e1" };
	__u64 ns = 7;

	for (size_t i = 0; i < ARRAY_SIZE(range); i++)
		assert_int_equal(quantity_duration(range[i], &ns), -ERANGE);
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++)
		assert_int_equal(quantity_duration(nonsense[i], &ns), -EINVAL);
	assert_true(ns == 7);
}

static void percents_go_from_0_to_100(void **state)
{
	double percent = -1;

	assert_int_equal(quantity_percent("0", &percent), 0);
	assert_true(percent == 0);
	assert_int_equal(quantity_percent("0.5%", &percent), 0);
	assert_true(percent == 0.5);
	assert_int_equal(quantity_percent("100", &percent), 0);
	assert_true(percent == 100);
	assert_int_equal(quantity_percent("100.1", &percent), -ERANGE);
	assert_int_equal(quantity_percent("-1", &percent), -EINVAL);
	assert_int_equal(quantity_percent("nan", &percent), -EINVAL);
	assert_int_equal(quantity_percent("%", &percent), -EINVAL);
	assert_true(percent == 100);
}

static void pid_lists_are_taken_one_by_one(void **state)
{
	const char *list = "1,4194304,007";
	__u32 pid;

	assert_int_equal(quantity_pid(&list, &pid), 0);
	assert_int_equal(pid, 1);
	assert_int_equal(quantity_pid(&list, &pid), 0);
	assert_int_equal(pid, 4194304);
	assert_int_equal(quantity_pid(&list, &pid), 0);
	assert_int_equal(pid, 7);
	assert_string_equal(list, "");
}

static void pids_that_cannot_be_are_refused(void **state)
{
	static const char *const range[] = { "0", "4194305", "4294967297", "18446744073709551617" };
	static const char *const nonsense[] = { "", "-1", "1,", ",1", "1;2", "1 ", "x", "1x", "," };

	for (size_t i = 0; i < ARRAY_SIZE(range); i++) {
		const char *list = range[i];
		__u32 pid = 7;

		assert_int_equal(quantity_pid(&list, &pid), -ERANGE);
		assert_ptr_equal(list, range[i]);
		assert_int_equal(pid, 7);
	}
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		const char *list = nonsense[i];
		__u32 pid = 7;

		assert_int_equal(quantity_pid(&list, &pid), -EINVAL);
		assert_ptr_equal(list, nonsense[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frequencies_are_read_exactly),
		cmocka_unit_test(frequencies_out_of_range_are_told_from_nonsense),
		cmocka_unit_test(durations_are_read_exactly),
		cmocka_unit_test(durations_of_nothing_or_of_ages_are_refused),
		cmocka_unit_test(percents_go_from_0_to_100),
		cmocka_unit_test(pid_lists_are_taken_one_by_one),
		cmocka_unit_test(pids_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
