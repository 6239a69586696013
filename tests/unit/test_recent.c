// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "recent.h"

static struct rprof_stack *make(__u64 id, unsigned int n_kernel)
{
	static __u64 words[RPROF_MAX_STACK_LEN / 8];
	struct rprof_stack *s = (struct rprof_stack *)words;

	memset(words, 0, sizeof(words));
	s->h.len = (__u32)(sizeof(*s) + n_kernel * 8);
	s->stack = id;
	s->n_kernel = (__u16)n_kernel;
	for (unsigned int i = 0; i < n_kernel; i++)
		((__u64 *)(s + 1))[i] = id * 1000 + i;
	return s;
}

static void the_last_ones_are_there_and_whole(void **state)
{
	enum { N = 5000, MAX = 100000 };
	struct recent *r = recent_new(MAX);
	size_t kept = 0, size = 0;

	assert_null(recent_find(r, 1));
	for (__u64 id = 1; id <= N; id++)
		assert_int_equal(recent_add(r, make(id, id % 100)), 0);
	for (__u64 id = N; id >= 1; id--) {
		struct rprof_stack *s = recent_find(r, id);

		if (!s)
			break;
		kept++;
		size += s->h.len;
		assert_memory_equal(s, make(id, id % 100), s->h.len);
	}
	/* As many as fit, and no gap among them. */
	assert_true(size <= MAX && size > MAX - sizeof(struct rprof_stack) - 800);
	for (__u64 id = 1; id <= N - kept; id++)
		assert_null(recent_find(r, id));
	recent_free(r);
}

static void one_that_comes_again_is_the_newer_one(void **state)
{
	struct recent *r = recent_new(3 * sizeof(struct rprof_stack) + 8);

	assert_int_equal(recent_add(r, make(1, 0)), 0);
	assert_int_equal(recent_add(r, make(2, 0)), 0);
	assert_int_equal(recent_add(r, make(1, 1)), 0);
	/* The older copy goes, the newer stays. */
	assert_int_equal(recent_add(r, make(3, 0)), 0);
	assert_int_equal(recent_find(r, 1)->n_kernel, 1);
	assert_non_null(recent_find(r, 2));
	recent_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_last_ones_are_there_and_whole),
		cmocka_unit_test(one_that_comes_again_is_the_newer_one),
	};

	return cmocka_run_group_tests_name("recent", tests, NULL, NULL);
}
