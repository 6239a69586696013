// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "idmap.h"

static void empty_map_finds_nothing(void **state)
{
	struct idmap m;
	__u32 v = 7;

	idmap_init(&m);
	assert_false(idmap_find(&m, 0, 0, &v));
	assert_int_equal(v, 7);
	idmap_fini(&m);
}

static void both_halves_of_the_key_count(void **state)
{
	struct idmap m;
	__u32 v;

	idmap_init(&m);
	assert_int_equal(idmap_put(&m, 1, 2, 12), 0);
	assert_int_equal(idmap_put(&m, 2, 1, 21), 0);
	assert_int_equal(idmap_put(&m, 0, 0, 0), 0);
	assert_true(idmap_find(&m, 1, 2, &v));
	assert_int_equal(v, 12);
	assert_true(idmap_find(&m, 2, 1, &v));
	assert_int_equal(v, 21);
	assert_true(idmap_find(&m, 0, 0, &v));
	assert_int_equal(v, 0);
	assert_false(idmap_find(&m, 1, 1, &v));
	assert_int_equal(idmap_put(&m, 1, 2, 13), 0);
	assert_true(idmap_find(&m, 1, 2, &v));
	assert_int_equal(v, 13);
	assert_int_equal(m.n_used, 3);
	idmap_fini(&m);
}

static void many_keys_are_kept_apart(void **state)
{
	enum { N = 200000 };
	struct idmap m;
	__u32 v;

	idmap_init(&m);
	/* Addresses as they come: one page apart, in few spaces. */
	for (__u32 i = 0; i < N; i++)
		assert_int_equal(idmap_put(&m, 0x7f0000000000ULL + i * 4096ULL, i % 3, i), 0);
	for (__u32 i = 0; i < N; i++) {
		assert_true(idmap_find(&m, 0x7f0000000000ULL + i * 4096ULL, i % 3, &v));
		assert_int_equal(v, i);
		assert_false(idmap_find(&m, 0x7f0000000000ULL + i * 4096ULL, 3, &v));
	}
	assert_int_equal(m.n_used, N);
	idmap_fini(&m);
}

/* Against a plain array: whatever is removed and put, in any order, is found or not as it should. */
static void removed_keys_are_gone_and_the_others_stay(void **state)
{
	enum { KEYS = 500, STEPS = 200000 };
	__u32 have[KEYS] = { 0 };
	unsigned int seed = 7;
	size_t n = 0;
	struct idmap m;
	__u32 v;

	idmap_init(&m);
	idmap_remove(&m, 1, 1);
	for (__u32 step = 1; step <= STEPS; step++) {
		__u32 key = (__u32)rand_r(&seed) % KEYS;

		if (rand_r(&seed) % 2) {
			n += !have[key];
			have[key] = step;
			assert_int_equal(idmap_put(&m, key, 5, step), 0);
		} else {
			n -= have[key] != 0;
			have[key] = 0;
			idmap_remove(&m, key, 5);
		}
		assert_int_equal(m.n_used, n);
		if (step % 1000)
			continue;
		for (key = 0; key < KEYS; key++) {
			assert_int_equal(idmap_find(&m, key, 5, &v), have[key] != 0);
			if (have[key])
				assert_int_equal(v, have[key]);
		}
	}
	idmap_fini(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_map_finds_nothing),
		cmocka_unit_test(both_halves_of_the_key_count),
		cmocka_unit_test(many_keys_are_kept_apart),
		cmocka_unit_test(removed_keys_are_gone_and_the_others_stay),
	};

	return cmocka_run_group_tests_name("idmap", tests, NULL, NULL);
}
