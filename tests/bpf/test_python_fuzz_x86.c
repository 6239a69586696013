// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tests/fuzz/fuzz_walk_python.c on seeded random bytes: what every run of the tests can afford. */
#include "../fuzz/fuzz_walk_python.c"

#define ITERATIONS 500

static void samples_of_hostile_interpreters_are_bounded_and_keep_the_rules(void **state)
{
	static u8 data[512];
	static u64 stops[RPROF_STOP_MAX];
	u64 seed = 88172645463325252ULL;

	for (u32 i = 0; i < ITERATIONS; i++) {
		u32 len = 32 + next_random(&seed) % 480;
		const char *wrong;

		for (u32 k = 0; k < len; k++)
			data[k] = next_random(&seed) >> 24;
		wrong = input_wrong(data, len);
		if (wrong)
			fail_msg("iteration %u: %s", i, wrong);
		for (u32 k = 0; k < RPROF_STOP_MAX; k++)
			stops[k] += counter(k);
	}
	/* The inputs met every end of a walk, but for frames that did not begin: none is made. */
	for (u32 stop = 0; stop < RPROF_STOP_MAX; stop++)
		if (python_stop(stop) && stop > RPROF_STOP_NONE && stop != RPROF_STOP_UNLINKED) {
			print_message("# stop %u: %llu\n", stop, stops[stop]);
			assert_true(stops[stop] >= 1);
		}
	host_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_of_hostile_interpreters_are_bounded_and_keep_the_rules),
	};

	return cmocka_run_group_tests_name("python_fuzz", tests, NULL, NULL);
}
