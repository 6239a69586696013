// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile.h"
#include "modules.h"
#include "python_files.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

#define LATER (~0ULL)	/* a deadline that does not come */

static void *load(const char *name, const char *source)
{
	void *handle = dlopen(compile(name, "c", source, "-shared -fPIC"), RTLD_NOW);

	assert_non_null(handle);
	return handle;
}

static void the_files_of_a_process_are_looked_at(void **state)
{
	struct spaces *spaces = new_spaces();
	struct python_files *f = python_files_new(m_all);
	struct python_candidate found[PYTHON_MAX_CANDIDATES];
	__u64 again_ns = 0;
	void *handle;

	assert_int_equal(python_files_find(f, read_self(spaces), LATER, found, &again_ns), 0);
	assert_true(again_ns == PYTHON_FILES_NEVER);
	handle = load("pypy.so", "const char *PyPy_Version;");
	assert_int_equal(python_files_find(f, read_self(spaces), LATER, found, &again_ns), 1);
	assert_true(again_ns == PYTHON_FILES_NEVER);
	assert_int_equal(found[0].file.kind, PYTHON_PYPY);
	assert_string_equal(modules_name(m_all, found[0].module), "pypy.so");
	dlclose(handle);
	python_files_free(f);
	free_spaces(spaces);
}

/* One in each call when there is no time, so that there is an end. */
static void what_there_is_no_time_for_is_left(void **state)
{
	void *handle = load("left.so", "const char *PyPy_Version;");
	struct spaces *spaces = new_spaces();
	struct python_files *f = python_files_new(m_all);
	const struct space *space = read_self(spaces);
	struct python_candidate found[PYTHON_MAX_CANDIDATES];
	__u64 again_ns = 0;
	size_t n = 0, calls = 0;

	for (; again_ns != PYTHON_FILES_NEVER; calls++) {
		assert_true(again_ns == 0);
		n = python_files_find(f, space, 0, found, &again_ns);
		assert_true(calls < space->n_mappings);
	}
	/* This program, the C library, cmocka, the library above. */
	assert_true(calls >= 4);
	assert_int_equal(n, 1);
	assert_int_equal(found[0].file.kind, PYTHON_PYPY);
	/* What is known takes no time. */
	assert_int_equal(python_files_find(f, space, 0, found, &again_ns), 1);
	assert_true(again_ns == PYTHON_FILES_NEVER);
	dlclose(handle);
	python_files_free(f);
	free_spaces(spaces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_files_of_a_process_are_looked_at),
		cmocka_unit_test(what_there_is_no_time_for_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
