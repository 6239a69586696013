// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "jitdump.h"
#include "jitdump_image.h"

/* From @at, of an image that ends at @len: the sanitizer sees a byte too many. */
static __u64 parse(struct jitdump *d, const struct image *f, __u64 at, size_t len)
{
	unsigned char *copy;
	__u64 done;

	if (at >= len)
		return 0;
	copy = malloc(len - at);
	memcpy(copy, f->bytes + at, len - at);
	done = jitdump_parse(d, copy, len - at);
	free(copy);
	return done;
}

static void expect_name(struct jitdump *d, __u64 addr, __u64 time, const char *name)
{
	const char *found = jitdump_find(d, addr, time);

	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
}

static void each_time_has_its_name(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };

	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "f");
	image_record(&f, 2, 24, 150);	/* lines: skipped */
	image_u64(&f, 0);
	image_load(&f, 200, 0x1000, 32, "g");
	image_record(&f, 3, 16, 300);	/* the end */
	assert_int_equal(parse(&d, &f, 0, f.len), f.len);
	assert_null(d.problem);
	expect_name(&d, 0x1000, 99, NULL);
	expect_name(&d, 0x1000, 100, "f");
	expect_name(&d, 0x103f, 199, "f");
	expect_name(&d, 0x1040, 199, NULL);
	expect_name(&d, 0x1000, 200, "g");
	expect_name(&d, 0x101f, ~0ULL, "g");
	/* The rest of the old one is not known to be gone. */
	expect_name(&d, 0x1020, 200, "f");
	assert_int_equal(d.n_dropped, 0);
	jitdump_fini(&d);
}

static void moved_code_takes_its_name_along(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };

	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "f");
	image_move(&f, 200, 0x1000, 0x1020, 64);
	image_move(&f, 300, 0x9000, 0xa000, 64);	/* of what is not known */
	assert_int_equal(parse(&d, &f, 0, f.len), f.len);
	expect_name(&d, 0x1000, 199, "f");
	expect_name(&d, 0x1050, 199, NULL);
	expect_name(&d, 0x1000, 200, NULL);
	expect_name(&d, 0x1020, 200, "f");
	expect_name(&d, 0x105f, 200, "f");
	expect_name(&d, 0xa000, 300, NULL);
	assert_int_equal(d.n_dropped, 1);
	jitdump_fini(&d);
}

static void times_of_the_cpu_are_not_compared(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };

	image_header(&f, 1);
	image_load(&f, 1ULL << 60, 0x1000, 64, "old");
	image_load(&f, 1ULL << 50, 0x1000, 64, "new");
	parse(&d, &f, 0, f.len);
	expect_name(&d, 0x1000, 1, "new");
	jitdump_fini(&d);
}

/* The file grows byte by byte, and what is done with is not given again. */
static void file_that_grows_is_read_on(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };
	__u64 at = 0;

	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "first");
	image_load(&f, 200, 0x2000, 64, "second");
	for (size_t len = 0; len <= f.len; len++) {
		__u64 done = parse(&d, &f, at, len);

		at += done;
		if (len < f.len - 64)
			expect_name(&d, 0x2000, 200, NULL);
	}
	assert_int_equal(at, f.len);
	expect_name(&d, 0x1000, 200, "first");
	expect_name(&d, 0x2000, 200, "second");
	jitdump_fini(&d);
}

static void big_code_is_not_read(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };
	size_t record;

	image_header(&f, 0);
	record = f.len;
	image_load(&f, 100, 0x1000, 64, "f");
	f.len = record + 4;
	image_u32(&f, 0xfffffff0);	/* its size */
	f.len = 4096;
	/* Too little of it yet: the name may be long. */
	assert_int_equal(parse(&d, &f, 0, f.len), record);
	expect_name(&d, 0x1000, 100, NULL);
	f.len = record + 4;
	image_u32(&f, 3900);
	assert_int_equal(parse(&d, &f, record, 4096), 3900);
	expect_name(&d, 0x1000, 100, "f");
	/* Record of an unknown kind, of 4 GiB. */
	f.len = 0;
	image_record(&f, 77, 0xffffffff, 0);
	assert_int_equal(parse(&d, &f, 0, f.len), 0xffffffff);
	jitdump_fini(&d);
}

static void other_files_are_refused_and_why_is_said(void **state)
{
	static const struct {
		size_t at;
		__u32 value;
		const char *problem;
	} cases[] = {
		{ 0, 0x12345678, "it is not a jitdump file" },
		{ 0, 0x4454694a, "it is of the other byte order" },
		{ 4, 2, "its version is not 1" },
		{ 8, 39, "it is not a jitdump file" },
		{ 12, 0x7777, "it is of another machine" },
		{ 44, 15, "a record of it is too short" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct jitdump d = { 0 };
		struct image f = { 0 };

		image_header(&f, 0);
		image_load(&f, 100, 0x1000, 64, "f");
		memcpy(f.bytes + cases[i].at, &cases[i].value, 4);
		parse(&d, &f, 0, f.len);
		assert_string_equal(d.problem, cases[i].problem);
		assert_int_equal(parse(&d, &f, 0, f.len), 0);
		expect_name(&d, 0x1000, 100, NULL);
		jitdump_fini(&d);
	}
}

static void records_that_say_nothing_are_dropped(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };

	image_header(&f, 0);
	image_load(&f, 100, 0x1000, 64, "");
	image_load(&f, 100, ~0ULL - 5, 64, "beyond");
	image_record(&f, 0, 16, 100);
	image_record(&f, 1, 16, 100);
	image_record(&f, 0, 60, 100);	/* the name has no end */
	memset(f.bytes + f.len, 'x', 44);
	f.len += 44;
	image_load(&f, 100, 0x2000, 64, "ok");
	assert_int_equal(parse(&d, &f, 0, f.len), f.len);
	assert_int_equal(d.n_dropped, 5);
	expect_name(&d, 0x2000, 100, "ok");
	jitdump_fini(&d);
}

static void room_of_zeros_is_waited_for(void **state)
{
	struct jitdump d = { 0 };
	struct image f = { 0 };
	size_t record;

	image_header(&f, 0);
	record = f.len;
	assert_int_equal(parse(&d, &f, 0, 4096), record);
	assert_int_equal(parse(&d, &f, record, 4096), 0);
	assert_null(d.problem);
	image_load(&f, 100, 0x1000, 64, "f");
	parse(&d, &f, record, 4096);
	expect_name(&d, 0x1000, 100, "f");
	jitdump_fini(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_time_has_its_name),
		cmocka_unit_test(moved_code_takes_its_name_along),
		cmocka_unit_test(times_of_the_cpu_are_not_compared),
		cmocka_unit_test(file_that_grows_is_read_on),
		cmocka_unit_test(big_code_is_not_read),
		cmocka_unit_test(other_files_are_refused_and_why_is_said),
		cmocka_unit_test(records_that_say_nothing_are_dropped),
		cmocka_unit_test(room_of_zeros_is_waited_for),
	};

	return cmocka_run_group_tests_name("jitdump", tests, NULL, NULL);
}
