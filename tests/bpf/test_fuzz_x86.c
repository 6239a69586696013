// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tests/fuzz/fuzz_walk_x86.c on seeded random bytes: what every run of the tests can afford. */
#include "../fuzz/fuzz_walk_x86.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ITERATIONS 30000

static u64 random_state = 88172645463325252ULL;

static u8 random_byte(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 24;
}

static void samples_of_random_memory_are_what_a_slow_walker_finds(void **state)
{
	static u8 data[512];
	u64 stops[RPROF_STOP_MAX];

	for (u32 i = 0; i < ITERATIONS; i++) {
		const char *wrong;
		u32 len = 64 + random_byte() % 192 * 2;

		for (u32 k = 0; k < len; k++)
			data[k] = random_byte();
		wrong = input_wrong(data, len);
		if (wrong)
			fail_msg("iteration %u: %s", i, wrong);
	}
	/* The inputs met every end of a walk, often. */
	memcpy(stops, host_cpu()->counters, sizeof(stops));
	for (u32 stop = RPROF_STOP_DEPTH; stop <= RPROF_STOP_NOT_EXEC; stop++) {
		print_message("# stop %u: %llu\n", stop, stops[stop]);
		assert_true(stops[stop] >= 50);
	}
	assert_true(host_cpu()->counters[RPROF_COUNT_SAMPLES] >= ITERATIONS);
	print_message("# frames that a signal interrupted: %llu\n", n_interrupted);
	assert_true(n_interrupted >= 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_of_random_memory_are_what_a_slow_walker_finds),
	};

	return cmocka_run_group_tests_name("fuzz_x86", tests, NULL, NULL);
}
