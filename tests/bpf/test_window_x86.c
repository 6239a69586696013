// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Windows: every frame is found wherever it lies, and few reads find it. */
#include "thread_x86.h"

#define FP (STACK + 0x8000)

static void frames_are_found_at_every_distance(void **state)
{
	for (u64 step = 16; step <= 3 * HOST_PAGE; step += 8) {
		struct seen seen;

		put_chain(FP, 3, step);
		seen = sample_at(FP);
		assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	}
}

static void frames_are_found_at_every_place_in_a_page(void **state)
{
	for (u64 off = 64; off < HOST_PAGE; off += 8) {
		struct seen seen;

		put_chain(FP + off, 5, 2040);
		seen = sample_at(FP + off);
		assert_chain(&seen, 1, 5, 0, RPROF_STOP_END);
	}
}

/* sp decides where the first window starts, the frame where it is looked for in it. */
static void frame_at_the_end_of_a_window_is_read_whole(void **state)
{
	for (u64 d = 4064; d <= 4128; d += 8) {
		struct seen seen;

		put_chain(FP, 2, 64);
		seen = sample_user(PC, FP - d, FP);
		assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
	}
}

static void frame_that_ends_with_the_last_page_is_read(void **state)
{
	struct seen seen;

	host_user_hole(FP + HOST_PAGE);
	put_frame(FP, FP + HOST_PAGE - 16, RA(0));
	put_frame(FP + HOST_PAGE - 16, 0, RA(1));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static void frame_that_crosses_into_a_hole_is_a_fault(void **state)
{
	struct seen seen;

	put_frame(FP, FP + HOST_PAGE - 8, RA(0));
	put_frame(FP + HOST_PAGE - 8, 0, RA(1));
	host_user_hole(FP + HOST_PAGE);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_FAULT);
}

static void frame_that_crosses_pages_is_read_though_the_next_is_a_hole(void **state)
{
	struct seen seen;

	host_user_hole(FP + 2 * HOST_PAGE);
	put_frame(FP, FP + HOST_PAGE - 8, RA(0));
	put_frame(FP + HOST_PAGE - 8, FP + 2 * HOST_PAGE - 16, RA(1));
	put_frame(FP + 2 * HOST_PAGE - 16, 0, RA(2));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

/* The chain skips pages that are not there: a hole costs no frame beyond it. */
static void holes_between_frames_cost_nothing(void **state)
{
	struct seen seen;

	for (u32 i = 1; i < 20; i += 2)
		host_user_hole(FP + i * HOST_PAGE);
	for (u64 off = 0; off <= HOST_PAGE - 16; off += 8) {
		put_chain(FP + off, 10, 2 * HOST_PAGE);
		/* The frame pointer is given, so the place of sp below it may be a hole, too. */
		seen = sample_user(PC, FP + off, FP + off);
		assert_int_equal(seen.stop, RPROF_STOP_END);
		assert_frame(&seen, seen.n - 1, RA(9), RPROF_HOW_CHAIN);
	}
}

static void shallow_stack_takes_one_or_two_reads(void **state)
{
	put_chain(FP, 100, 40);
	sample_at(FP);
	assert_in_range(counter(RPROF_COUNT_READS), 1, 2);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
	/* And one that no counter shows: the code at pc. */
	assert_in_range(host.user_reads, 1, 3);
}

static void deep_stack_takes_a_read_per_window(void **state)
{
	put_chain(FP, 511, 16 * 8);
	sample_at(FP);
	/* 64 KiB of frames, and a window that starts at a frame may end 127 bytes early. */
	assert_in_range(counter(RPROF_COUNT_READS), 16, 18);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
}

static void big_frames_take_a_read_each(void **state)
{
	struct seen seen;

	put_chain(FP, 40, 16384);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 40, 0, RPROF_STOP_END);
	assert_in_range(counter(RPROF_COUNT_READS), 40, 41);
}

static void window_is_clipped_to_the_mapping(void **state)
{
	put_chain(STACK_END - 1024, 16, 64);
	sample_at(STACK_END - 1024);
	assert_int_equal(counter(RPROF_COUNT_READS), 1);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
	assert_true(host.user_bytes <= 1024 + 64 + 16);
}

/* Without a mapping table the end of the stack is found by falling off it, once. */
static void unknown_end_costs_one_failed_read(void **state)
{
	struct seen seen;

	thread_no_table();
	put_chain(STACK_END - 1024, 16, 64);
	seen = sample_at(STACK_END - 1024);
	assert_chain(&seen, 1, 16, RPROF_NATIVE_UNCHECKED, RPROF_STOP_END);
	assert_in_range(counter(RPROF_COUNT_READS), 1, 2);
	assert_in_range(counter(RPROF_COUNT_READ_FAULTS), 0, 1);
}

static void hole_behind_the_frames_costs_one_failed_read(void **state)
{
	struct seen seen;

	host_user_hole(FP + HOST_PAGE);
	put_chain(FP, 100, 40);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 100, 0, RPROF_STOP_END);
	assert_in_range(counter(RPROF_COUNT_READS), 1, 3);
	assert_in_range(counter(RPROF_COUNT_READ_FAULTS), 0, 1);
	/* The next sample knows, or pays the same again, never more. */
	sample_at(FP);
	assert_in_range(counter(RPROF_COUNT_READ_FAULTS), 0, 2);
}

static void chain_into_a_hole_gives_up_after_three_reads(void **state)
{
	struct seen seen;

	host_user_hole(FP + 2 * HOST_PAGE);
	put_frame(FP, FP + 2 * HOST_PAGE + 64, RA(0));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_FAULT);
	assert_in_range(counter(RPROF_COUNT_READ_FAULTS), 1, 3);
	assert_in_range(counter(RPROF_COUNT_READS), 2, 5);
}

/* The window outlives no walk: what it held was another thread's, or the same one's past. */
static void window_of_the_last_sample_is_not_used(void **state)
{
	struct seen seen;

	put_chain(FP, 2, 64);
	sample_at(FP);
	put_frame(FP + 64, 0, RA(7));
	seen = sample_at(FP);
	assert_frame(&seen, 2, RA(7), RPROF_HOW_CHAIN);
	host_user_hole(FP);
	seen = sample_user(PC, FP, FP);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_FAULT);
}

static void page_that_came_back_is_read_again(void **state)
{
	struct seen seen;

	thread_no_table();
	put_chain(STACK_END - 32, 1, 64);
	put_frame(STACK_END - 32, STACK_END + 32, RA(0));
	seen = sample_at(STACK_END - 32);
	assert_chain(&seen, 1, 1, RPROF_NATIVE_UNCHECKED, RPROF_STOP_FAULT);
	host_user_region(STACK_END, HOST_PAGE);
	put_frame(STACK_END + 32, 0, RA(1));
	seen = sample_at(STACK_END - 32);
	assert_chain(&seen, 1, 2, RPROF_NATIVE_UNCHECKED, RPROF_STOP_END);
	/* And the frame that lies across the border. */
	put_frame(STACK_END - 32, STACK_END - 8, RA(0));
	put_frame(STACK_END - 8, 0, RA(1));
	seen = sample_at(STACK_END - 32);
	assert_chain(&seen, 1, 2, RPROF_NATIVE_UNCHECKED, RPROF_STOP_END);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(frames_are_found_at_every_distance),
		THREAD_TEST(frames_are_found_at_every_place_in_a_page),
		THREAD_TEST(frame_at_the_end_of_a_window_is_read_whole),
		THREAD_TEST(frame_that_ends_with_the_last_page_is_read),
		THREAD_TEST(frame_that_crosses_into_a_hole_is_a_fault),
		THREAD_TEST(frame_that_crosses_pages_is_read_though_the_next_is_a_hole),
		THREAD_TEST(holes_between_frames_cost_nothing),
		THREAD_TEST(shallow_stack_takes_one_or_two_reads),
		THREAD_TEST(deep_stack_takes_a_read_per_window),
		THREAD_TEST(big_frames_take_a_read_each),
		THREAD_TEST(window_is_clipped_to_the_mapping),
		THREAD_TEST(unknown_end_costs_one_failed_read),
		THREAD_TEST(hole_behind_the_frames_costs_one_failed_read),
		THREAD_TEST(chain_into_a_hole_gives_up_after_three_reads),
		THREAD_TEST(window_of_the_last_sample_is_not_used),
		THREAD_TEST(page_that_came_back_is_read_again),
	};

	return cmocka_run_group_tests_name("window_x86", tests, NULL, NULL);
}
