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
	assert_int_equal(profile_add_stack(p, id, raw, tgid, 0), 0);
	assert_int_equal(profile_set_stack(p, id, &s), 0);
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

static void samples_move_to_another_stack(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, true);

	add(p, 1, "x", 10, name_a, name_b);
	add(p, 2, "x", 10, name_b, name_b);
	assert_int_equal(profile_add_sample(p, 1, 10, 3), 0);
	assert_int_equal(profile_move_samples(p, 1, 2, 10, 4), -ENOENT);
	assert_int_equal(profile_move_samples(p, 1, 2, 11, 1), -ENOENT);
	assert_int_equal(profile_move_samples(p, 1, 3, 10, 1), -ENOENT);
	assert_int_equal(profile_move_samples(p, 3, 2, 10, 1), -ENOENT);
	assert_int_equal(profile_move_samples(p, 1, 2, 10, 2), 0);
	assert_int_equal(profile_lines(p, &lines), 2);
	assert_int_equal(lines[0]->count, 2);
	assert_ptr_equal(lines[0]->stack->frames[0].name, name_b);
	free(lines);
	/* A line without samples is none. */
	assert_int_equal(profile_move_samples(p, 1, 2, 10, 1), 0);
	assert_int_equal(profile_lines(p, &lines), 1);
	assert_int_equal(lines[0]->count, 3);
	assert_int_equal(profile_n_samples(p), 1);
	free(lines);
	profile_free(p);
}

static void samples_move_between_stacks_that_wait_for_their_text(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, false);
	const char comm[RPROF_COMM_LEN] = "x";
	struct resolved_stack s = { 0 };

	for (__u64 id = 1; id <= 2; id++)
		assert_int_equal(profile_add_stack(p, id, comm, 10, 0), 0);
	assert_int_equal(profile_add_sample(p, 1, 10, 3), 0);
	assert_int_equal(profile_move_samples(p, 1, 2, 10, 2), 0);
	assert_int_equal(profile_n_waiting(p), 3);
	assert_int_equal(profile_set_stack(p, 2, &s), 0);
	assert_int_equal(profile_n_waiting(p), 1);
	assert_int_equal(profile_lines(p, &lines), 1);
	assert_int_equal(lines[0]->count, 2);
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

static struct resolved_stack one_frame(const char *name)
{
	struct resolved_stack s = { .n_frames = 1 };

	s.frames = calloc(1, sizeof(*s.frames));
	assert_non_null(s.frames);
	s.frames[0].name = name;
	return s;
}

static void samples_before_the_text_are_counted_with_it(void **state)
{
	const char comm[RPROF_COMM_LEN] = "x";
	const struct profile_line **lines;
	struct profile *p = profile_new(true, true);
	struct resolved_stack s;

	/* Three stacks that wait; two of them will read the same. */
	for (__u64 id = 1; id <= 3; id++)
		assert_int_equal(profile_add_stack(p, id, comm, 10, 7), 0);
	profile_set_may_change(p, 1, 5);
	assert_false(profile_has_text(profile_find(p, 1)));
	for (__u32 i = 0; i < 300; i++)
		assert_int_equal(profile_add_sample(p, 1 + i % 3, i % 5, 2), 0);
	assert_int_equal(profile_n_samples(p), 300);
	assert_int_equal(profile_n_waiting(p), 600);
	assert_int_equal(profile_lines(p, &lines), 0);
	free(lines);
	s = one_frame(name_a);
	assert_int_equal(profile_set_stack(p, 1, &s), 0);
	s = one_frame(name_a);
	assert_int_equal(profile_set_stack(p, 2, &s), 0);
	assert_int_equal(profile_n_waiting(p), 200);
	assert_true(profile_has_text(profile_find(p, 1)));
	assert_false(profile_has_text(profile_find(p, 3)));
	assert_true(profile_find(p, 1)->may_change && !profile_find(p, 3)->may_change);
	assert_int_equal(profile_find(p, 1)->changes, 5);
	assert_int_equal(profile_add_sample(p, 2, 0, 1), 0);
	assert_int_equal(profile_lines(p, &lines), 5);
	for (int i = 0; i < 5; i++) {
		assert_string_equal(lines[i]->stack->frames[0].name, "a");
		assert_int_equal(lines[i]->count, 80 + (lines[i]->tid == 0));
	}
	free(lines);
	/* What waits uses the places of what waited. */
	assert_int_equal(profile_add_stack(p, 4, comm, 10, 7), 0);
	assert_int_equal(profile_add_sample(p, 4, 1, 5), 0);
	s = one_frame(name_b);
	assert_int_equal(profile_set_stack(p, 3, &s), 0);
	s = one_frame(name_k);
	assert_int_equal(profile_set_stack(p, 4, &s), 0);
	assert_int_equal(profile_n_waiting(p), 0);
	assert_int_equal(profile_lines(p, &lines), 11);
	free(lines);
	s = one_frame(name_a);
	assert_int_equal(profile_set_stack(p, 5, &s), -ENOENT);
	profile_free(p);
}

static void a_sample_can_mean_something_else_than_its_stack(void **state)
{
	const struct profile_line **lines;
	struct profile *p = profile_new(false, false);
	struct resolved_stack s = one_frame(name_k);

	add(p, 1, "x", 10, name_a, name_b);
	assert_int_equal(profile_find(p, 1)->tgid, 10);
	assert_null(profile_find(p, 2));
	assert_int_equal(profile_add_sample(p, 1, 10, 1), 0);
	assert_int_equal(profile_add_other(p, profile_find(p, 1), 10, 2, &s), 0);
	assert_int_equal(profile_n_samples(p), 2);
	assert_int_equal(profile_lines(p, &lines), 2);
	assert_string_equal(lines[0]->stack->frames[0].name, "k");
	assert_string_equal(lines[0]->comm, "x");
	assert_int_equal(lines[0]->count, 2);
	free(lines);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_before_the_text_are_counted_with_it),
		cmocka_unit_test(a_sample_can_mean_something_else_than_its_stack),
		cmocka_unit_test(stacks_that_read_the_same_are_one_line),
		cmocka_unit_test(lines_differ_by_comm_frames_and_asked_for_ids),
		cmocka_unit_test(a_sample_of_an_unknown_stack_is_refused),
		cmocka_unit_test(samples_move_to_another_stack),
		cmocka_unit_test(samples_move_between_stacks_that_wait_for_their_text),
		cmocka_unit_test(a_comm_of_16_bytes_is_whole),
		cmocka_unit_test(counts_past_32_bits_are_ranked_right),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
