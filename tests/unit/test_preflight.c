// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "preflight.h"

static int create_err;

static int create(void)
{
	return create_err;
}

/* What preflight_ring_buffers() returns where making one returns @err, and in @said what it says. */
static int asked(int err, char *said, size_t size)
{
	const int kept = dup(STDERR_FILENO);
	FILE *f = tmpfile();
	int result;

	assert_non_null(f);
	fflush(stderr);
	dup2(fileno(f), STDERR_FILENO);
	create_err = err;
	result = preflight_ring_buffers(create);
	fflush(stderr);
	dup2(kept, STDERR_FILENO);
	close(kept);
	rewind(f);
	said[fread(said, 1, size - 1, f)] = '\0';
	fclose(f);
	return result;
}

static void kernel_without_ring_buffers_is_refused_by_name(void **state)
{
	char said[512];

	assert_int_equal(asked(-EINVAL, said, sizeof(said)), -ENOTSUP);
	assert_non_null(strstr(said, "ring buffers"));
	assert_non_null(strstr(said, "5.10"));
}

static void kernel_with_them_is_not(void **state)
{
	const int errs[] = { 0, -EPERM, -ENOMEM, -EMFILE };
	char said[512];

	for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
		assert_int_equal(asked(errs[i], said, sizeof(said)), 0);
		assert_string_equal(said, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_without_ring_buffers_is_refused_by_name),
		cmocka_unit_test(kernel_with_them_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
