// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile.h"
#include "loader.h"

static struct loader_job *new_job(const char *path, __u64 *budget)
{
	struct loader_job *job = calloc(1, sizeof(*job));

	assert_non_null(job);
	job->where.root_fd = -1;
	job->where.path = "";
	job->budget = budget;
	assert_int_equal(module_open(open(path, O_RDONLY), &job->module), 0);
	return job;
}

/* Files that wait at one time have one budget together, not each the whole. */
static void a_budget_is_given_once(void **state)
{
	enum { N = 5, FIT = 2 };
	const char *path =
		compile("budget.so", "c", "int alpha(int x) { return x + 1; }\n", "-shared -fPIC");
	struct loader *l = loader_new();
	struct pollfd fd = { .fd = loader_fd(l), .events = POLLIN };
	struct module *probe;
	__u64 size, budget, taken = 0;
	int n_fit = 0;

	assert_int_equal(module_open(open(path, O_RDONLY), &probe), 0);
	size = module_table_size(probe);
	module_free(probe);
	assert_true(size);
	budget = size * FIT + size / 2;
	for (int i = 0; i < N; i++)
		assert_int_equal(loader_give(l, new_job(path, &budget)), 0);
	while (!loader_is_idle(l)) {
		struct loader_job *job = loader_take(l);

		if (!job) {
			assert_true(poll(&fd, 1, 10000) > 0);
			continue;
		}
		assert_true(job->result == 0 || job->result == -E2BIG);
		n_fit += !job->result;
		taken += job->taken;
		module_free(job->module);
		free(job);
	}
	assert_true(n_fit >= 1 && n_fit <= FIT);
	assert_true(taken <= size * FIT + size / 2);
	assert_int_equal(budget, size * FIT + size / 2 - taken);
	loader_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_budget_is_given_once),
	};

	return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
