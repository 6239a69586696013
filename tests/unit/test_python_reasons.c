// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "modules.h"
#include "python_reasons.h"

static struct modules *m_all;
static struct python_reasons reasons;

static bool say(__u32 module, const char *why)
{
	struct python_reason reason = { .of.module = module, .of.file.kind = PYTHON_PYPY };

	snprintf(reason.why, sizeof(reason.why), "%s", why);
	return python_reasons_say(&reasons, LOG_WARN, m_all, 7, &reason);
}

static void a_reason_is_said_once_for_each_file(void **state)
{
	python_reasons_init(&reasons);
	assert_true(say(1, "not supported"));
	assert_false(say(1, "not supported"));
	assert_true(say(1, "not read"));
	assert_true(say(2, "not supported"));
	python_reasons_fini(&reasons);
}

static void an_address_makes_no_other_reason(void **state)
{
	python_reasons_init(&reasons);
	assert_true(say(1, "the frame at 0x7f12abcd has no name"));
	assert_false(say(1, "the frame at 0x55 has no name"));
	assert_true(say(1, "the frame at 0x55 has no file name"));
	assert_true(say(1, "a frame at 0x"));
	assert_false(say(1, "a frame at 0xF00"));
	python_reasons_fini(&reasons);
}

static void there_is_an_end_of_it(void **state)
{
	__u32 said = 0;

	python_reasons_init(&reasons);
	for (__u32 i = 1; i <= 10000; i++)
		said += say(i, "not supported");
	assert_true(said >= 1000 && said < 10000);
	assert_true(reasons.is_full);
	assert_false(say(10001, "not supported"));
	python_reasons_fini(&reasons);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reason_is_said_once_for_each_file),
		cmocka_unit_test(an_address_makes_no_other_reason),
		cmocka_unit_test(there_is_an_end_of_it),
	};
	int failed;

	log_set_level(LOG_ERROR);
	m_all = modules_new(&(struct modules_config){ 0 });
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	modules_free(m_all);
	return failed;
}
