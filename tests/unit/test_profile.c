// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "profile.h"

/* Interned names, as the resolver hands them out. */
static const char name_a[] = "a", name_b[] = "b", name_k[] = "k";

static void add(struct profile *p, __u64 id, const char *comm, __u32 tgid, const char *leaf,
		const char *root)
{
	char raw[RPROF_COMM_LEN] = "";
	struct resolved_stack s = { .n_frames = 2 };

	memcpy(raw, comm, strnlen(comm, sizeof(raw)));
	s.frames = calloc(2, sizeof(*s.frames));
	assert_non_null(s.frames);
	s.frames[0].name = leaf;
	s.frames[0].kind = leaf == name_k ? FRAME_KERNEL : FRAME_NATIVE;
	s.frames[1].name = root;
	assert_int_equal(profile_add_stack(p, id, raw, tgid, &s), 0);
}

static void stacks_that_read_the_same_are_one_line(void **state)
{
	struct profile *p = profile_new(false, false);
	const struct profile_line **lines;

	add(p, 1, "x", 10, name_a, name_b);
	add(p, 2, "x", 11, name_a, name_b);
	assert_int_equal(profile_add_sample(p, 1, 10, 1), 0);
	assert_int_equal(profile_add_sample(p, 2, 11, 2), 0);
	assert_int_equal(profile_lines(p, &lines), 1);
	assert_int_equal(lines[0]->count, 3);
	assert_int_equal(lines[0]->tgid, 0);
	assert_int_equal(profile_n_stacks(p), 2);
	free(lines);
	profile_free(p);
}

static void lines_differ_by_comm_frames_and_asked_for_ids(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(true, true);

	add(p, 1, "x", 10, name_a, name_b);
	add(p, 2, "y", 10, name_a, name_b);
	add(p, 3, "x", 10, name_k, name_b);
	add(p, 4, "x", 11, name_a, name_b);
	for (__u64 id = 1; id <= 4; id++)
		assert_int_equal(profile_add_sample(p, id, 10, 1), 0);
	assert_int_equal(profile_add_sample(p, 1, 12, 5), 0);
	assert_int_equal(profile_lines(p, &lines), 5);
	assert_int_equal(lines[0]->count, 5);
	assert_int_equal(lines[0]->tid, 12);
	free(lines);
	profile_free(p);
}

static void a_sample_of_an_unknown_stack_is_refused(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, false);

	assert_int_equal(profile_add_sample(p, 1, 1, 1), -ENOENT);
	assert_int_equal(profile_lines(p, &lines), 0);
	assert_int_equal(profile_n_samples(p), 0);
	free(lines);
	profile_free(p);
}

static void a_comm_of_16_bytes_is_whole(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, false);

	add(p, 1, "0123456789abcdefX", 1, name_a, name_b);
	assert_int_equal(profile_add_sample(p, 1, 1, 1), 0);
	assert_int_equal(profile_lines(p, &lines), 1);
	assert_string_equal(lines[0]->comm, "0123456789abcdef");
	free(lines);
	profile_free(p);
}

static void counts_past_32_bits_are_ranked_right(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, false);

	add(p, 1, "x", 1, name_a, name_b);
	add(p, 2, "x", 1, name_b, name_a);
	assert_int_equal(profile_add_sample(p, 1, 1, 1), 0);
	assert_int_equal(profile_add_sample(p, 2, 1, 1ULL << 33), 0);
	assert_int_equal(profile_lines(p, &lines), 2);
	assert_int_equal(lines[0]->count, 1ULL << 33);
	free(lines);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_that_read_the_same_are_one_line),
		cmocka_unit_test(lines_differ_by_comm_frames_and_asked_for_ids),
		cmocka_unit_test(a_sample_of_an_unknown_stack_is_refused),
		cmocka_unit_test(a_comm_of_16_bytes_is_whole),
		cmocka_unit_test(counts_past_32_bits_are_ranked_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
