// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "codes.h"
#include "compile.h"
#include "located.h"
#include "maps.h"
#include "modules.h"
#include "strset.h"

static __u32 add(struct modules *m, const char *path)
{
	struct maps_entry e = { .start = 4096, .end = 8192, .executable = true };
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	e.inode = st.st_ino;
	e.dev_major = major(st.st_dev);
	e.dev_minor = minor(st.st_dev);
	e.path = path;
	e.path_len = strlen(path);
	return modules_add(m, -1, 1, &e);
}

/* What was needed at once, while its file was still being read, has its name afterwards. */
static void a_name_that_was_not_waited_for_is_looked_up_again(void **state)
{
	struct codes_config config = {
		.modules = modules_new(&(struct modules_config){ .keep_going = true }),
	};
	struct located_frame f = { .kind = LOCATED_FILE, .in_file = true };
	struct strset strings;
	struct codes *c;
	struct code code;

	strset_init(&strings);
	config.strings = &strings;
	c = codes_new(&config);
	f.module =
		add(config.modules, compile("codes.so", "c", "int alpha(int x) { return x + 1; }\n",
					    "-shared -fPIC -nostdlib -Wl,-Ttext=0x1000"));
	f.vaddr = 0x1000;
	assert_int_equal(codes_native(c, &f, false, &code), -EAGAIN);
	assert_int_equal(codes_native(c, &f, true, &code), 0);
	assert_string_equal(code.name, "codes.so+0x1000");
	assert_false(code.symbolized);
	modules_wait(config.modules, 10000000000ULL);
	assert_int_equal(codes_native(c, &f, false, &code), 0);
	assert_string_equal(code.name, "alpha");
	assert_int_equal(codes_native(c, &f, false, &code), 0);
	assert_string_equal(code.name, "alpha");
	assert_int_equal(codes_stats(c)->hits, 1);
	codes_free(c);
	strset_fini(&strings);
	modules_free(config.modules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_that_was_not_waited_for_is_looked_up_again),
	};

	return cmocka_run_group_tests_name("codes", tests, NULL, NULL);
}
