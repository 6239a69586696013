// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The frame pointer chain: how far it is followed, and why it is not. */
#include "thread_x86.h"

#define FP (STACK + 0x8000)

static void chain_ends_at_link_0_and_keeps_the_outermost_frame(void **state)
{
	struct seen seen;

	put_chain(FP, 3, 64);
	seen = sample_at(FP);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

static void frame_pointer_0_ends_the_walk_at_once(void **state)
{
	struct seen seen = sample_user(PC, FP, 0);

	assert_chain(&seen, 1, 0, 0, RPROF_STOP_END);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
}

static void unaligned_frame_pointer_stops(void **state)
{
	put_chain(FP, 1, 64);
	for (u64 off = 1; off < 8; off++) {
		struct seen seen = sample_user(PC, FP - 64, FP + off);

		assert_chain(&seen, 1, 0, 0, RPROF_STOP_UNALIGNED);
	}
}

static void unaligned_link_stops_after_its_frame(void **state)
{
	struct seen seen;

	put_chain(FP, 1, 64);
	put_frame(FP, FP + 64 + 4, RA(0));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_UNALIGNED);
}

static void frame_pointer_below_sp_stops(void **state)
{
	struct seen seen;

	put_chain(FP, 2, 64);
	seen = sample_user(PC, FP + 16, FP);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_DOWN);
}

static void frame_pointer_equal_to_sp_is_a_frame(void **state)
{
	struct seen seen;

	put_chain(FP, 2, 64);
	put_frame(FP, FP + 64, RA(0));
	/* [sp + 8] is the frame's own return address: a candidate, which analysis judges. */
	seen = sample_user(PC, FP, FP);
	assert_frame(&seen, 1, RA(0), RPROF_HOW_WORD_SP8);
	assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);
}

static void chain_that_goes_down_stops(void **state)
{
	struct seen seen;

	put_frame(FP, FP + 64, RA(0));
	put_frame(FP + 64, FP + 32, RA(1));
	put_frame(FP + 32, 0, RA(2));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_DOWN);
}

static void frame_that_links_to_itself_stops(void **state)
{
	struct seen seen;

	put_frame(FP, FP, RA(0));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_DOWN);
}

static void frames_that_overlap_stop(void **state)
{
	struct seen seen;

	put_frame(FP, FP + 8, RA(0));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_DOWN);
}

static void frames_side_by_side_are_followed(void **state)
{
	struct seen seen;

	put_chain(FP, 20, 16);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 20, 0, RPROF_STOP_END);
}

static void chain_that_leaves_the_stack_mapping_stops(void **state)
{
	static const u64 beyond[] = {
		STACK_END, STACK_END - 8, STACK_END + 0x1000, 0xffffffff80000000ULL, ~7ULL, ~15ULL
	};

	host_user_region(STACK_END, HOST_PAGE);
	for (u32 i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		struct seen seen;

		put_frame(FP, beyond[i], RA(0));
		seen = sample_at(FP);
		assert_chain(&seen, 1, 1, 0, RPROF_STOP_BOUNDS);
	}
}

static void frame_at_the_very_top_of_the_mapping_is_read(void **state)
{
	struct seen seen;

	put_frame(FP, STACK_END - 16, RA(0));
	put_frame(STACK_END - 16, 0, RA(1));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static void sp_in_the_last_word_of_the_mapping_is_no_fault(void **state)
{
	struct seen seen = sample_user(PC, STACK_END - 8, STACK_END - 8);

	assert_chain(&seen, 1, 0, 0, RPROF_STOP_BOUNDS);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
}

static void return_address_outside_executable_memory_stops(void **state)
{
	static const u64 bad[] = { 0, 1, 65535, DATA, DATA_END - 1, STACK, STACK_END - 1 };

	put_chain(FP, 3, 64);
	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct seen seen;

		put_frame(FP + 64, FP + 128, bad[i]);
		seen = sample_at(FP);
		assert_chain(&seen, 1, 1, 0, RPROF_STOP_NOT_EXEC);
	}
}

/* It may have been mapped since the table was written. */
static void return_address_in_no_known_mapping_is_kept_unchecked(void **state)
{
	static const u64 unknown[] = { 65536, TEXT - 1, TEXT_END, LIB - 1, STACK_END, ~0ULL };

	put_chain(FP, 3, 64);
	for (u32 i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		struct seen seen;

		put_frame(FP + 64, FP + 128, unknown[i]);
		seen = sample_at(FP);
		assert_int_equal(seen.n, 4);
		assert_frame(&seen, 1, RA(0), RPROF_HOW_CHAIN);
		assert_frame(&seen, 2, unknown[i], RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
		assert_frame(&seen, 3, RA(2), RPROF_HOW_CHAIN);
		assert_int_equal(seen.stop, RPROF_STOP_END);
	}
}

static void lowest_addresses_are_no_code_even_without_a_table(void **state)
{
	struct seen seen;

	thread_no_table();
	put_chain(FP, 3, 64);
	put_frame(FP + 64, FP + 128, 65535);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 1, RPROF_NATIVE_UNCHECKED, RPROF_STOP_NOT_EXEC);
	put_frame(FP + 64, FP + 128, 65536);
	seen = sample_at(FP);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void return_addresses_at_both_ends_of_a_mapping_are_in_it(void **state)
{
	struct seen seen;

	put_frame(FP, FP + 64, TEXT);
	put_frame(FP + 64, FP + 128, LIB_END - 1);
	put_frame(FP + 128, FP + 192, TEXT_END - 1);
	put_frame(FP + 192, 0, LIB);
	seen = sample_at(FP);
	assert_int_equal(seen.n, 5);
	assert_int_equal(seen.stop, RPROF_STOP_END);
	assert_frame(&seen, 2, LIB_END - 1, RPROF_HOW_CHAIN);
	assert_frame(&seen, 4, LIB, RPROF_HOW_CHAIN);
}

static void page_that_is_not_there_stops_after_the_frames_before_it(void **state)
{
	host_user_hole(FP + HOST_PAGE);
	for (u32 n = 1; n < 60; n += 7) {
		struct seen seen;

		put_chain(FP, n, 64);
		put_frame(FP + (n - 1) * 64, FP + HOST_PAGE + 64, RA(n - 1));
		seen = sample_at(FP);
		assert_chain(&seen, 1, n, 0, RPROF_STOP_FAULT);
	}
}

static void depth_is_512_frames_in_all(void **state)
{
	struct seen seen;

	put_chain(FP, 510, 64);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 510, 0, RPROF_STOP_END);
	put_chain(FP, 511, 64);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_END);
	put_chain(FP, 512, 64);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_DEPTH);
	put_chain(FP, 2000, 64);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_DEPTH);
	assert_int_equal(counter(RPROF_STOP_DEPTH), 2);
}

static void candidates_count_against_the_depth(void **state)
{
	struct seen seen;

	put_chain(FP, 510, 64);
	host_poke(FP - 64, RA(900));
	host_poke(FP - 56, RA(901));
	seen = sample_at(FP);
	assert_chain(&seen, 3, 509, 0, RPROF_STOP_DEPTH);
}

static void deepest_stacks_of_both_sides_fit_one_record(void **state)
{
	struct bpf_perf_event_data ctx = kernel_regs(), user = user_regs(PC, FP - 64, FP);
	u64 kstack[RPROF_MAX_KERNEL + 1];
	struct seen seen;

	for (u32 i = 0; i <= RPROF_MAX_KERNEL; i++)
		kstack[i] = 0xffffffff81000000ULL + i;
	host.kstack = kstack;
	host.n_kstack = RPROF_MAX_KERNEL + 1;
	put_chain(FP, 600, 64);
	save_regs(&user, 0);
	rprof_clock(&ctx);
	seen = last_seen();
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_DEPTH);
	assert_int_equal(seen.stack->n_kernel, RPROF_MAX_KERNEL);
	assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_DEPTH);
	assert_int_equal(seen.stack->h.len,
			 RPROF_MAX_STACK_LEN -
				 RPROF_MAX_PYTHON * sizeof(struct rprof_python_frame));
	assert_int_equal(seen.kernel[126], kstack[126]);
}

static void chain_ends_before_2_to_the_64(void **state)
{
	const u64 top = -4096ULL;
	struct seen seen;

	thread_no_table();
	host_user_region(top, HOST_PAGE);
	put_frame(top, -40ULL, RA(0));
	/* -24 is the last place whose frame record does not touch the last 8 bytes. */
	put_frame(-40ULL, -24ULL, RA(1));
	put_frame(-24ULL, -8ULL, RA(2));
	seen = sample_user(PC, top - 64, top);
	assert_chain(&seen, 1, 3, RPROF_NATIVE_UNCHECKED, RPROF_STOP_BOUNDS);
	seen = sample_user(PC, top - 64, -8ULL);
	assert_chain(&seen, 1, 0, RPROF_NATIVE_UNCHECKED, RPROF_STOP_BOUNDS);
	seen = sample_user(PC, top - 64, -16ULL);
	assert_chain(&seen, 1, 0, RPROF_NATIVE_UNCHECKED, RPROF_STOP_BOUNDS);
}

static void sp_at_the_end_of_the_address_space_wraps_nowhere(void **state)
{
	struct seen seen = sample_user(PC, -8ULL, -8ULL);

	assert_frame(&seen, 0, PC, RPROF_HOW_PC | RPROF_NATIVE_UNBOUND);
	assert_chain(&seen, 1, 0, RPROF_NATIVE_UNBOUND, RPROF_STOP_BOUNDS);
}

static void unmapped_sp_is_unbound_and_its_chain_still_followed(void **state)
{
	struct seen seen;

	put_chain(FP, 3, 64);
	seen = sample_user(PC, 0x1000, FP);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC | RPROF_NATIVE_UNBOUND);
	assert_chain(&seen, 1, 3, RPROF_NATIVE_UNBOUND, RPROF_STOP_END);
	seen = sample_user(PC, 0x1000, 0x2000);
	assert_chain(&seen, 1, 0, RPROF_NATIVE_UNBOUND, RPROF_STOP_FAULT);
}

static void every_stop_is_counted_once(void **state)
{
	sample_user(PC, FP, FP + 4);
	assert_int_equal(counter(RPROF_STOP_UNALIGNED), 1);
	sample_user(PC, FP, FP - 8);
	assert_int_equal(counter(RPROF_STOP_DOWN), 1);
	sample_user(PC, FP, STACK_END);
	assert_int_equal(counter(RPROF_STOP_BOUNDS), 1);
	sample_at(FP);
	assert_int_equal(counter(RPROF_STOP_NOT_EXEC), 1);
	sample_user(PC, FP, 0);
	assert_int_equal(counter(RPROF_STOP_END), 0);
	assert_int_equal(counter(RPROF_STOP_NONE), 0);
}

/* Where a fault ended the walk. */

static void fault_says_which_frame_record_it_was(void **state)
{
	struct seen seen;

	put_chain(FP, 3, 3 * HOST_PAGE);
	host_user_hole(FP + 6 * HOST_PAGE);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_FAULT);
	assert_next(&seen, FP + 6 * HOST_PAGE, 3 * HOST_PAGE);
	/* The word for the return address is in the hole, the link is not. */
	put_frame(FP + 3 * HOST_PAGE, FP + 6 * HOST_PAGE - 8, RA(1));
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_FAULT);
	assert_next(&seen, FP + 6 * HOST_PAGE - 8, 3 * HOST_PAGE - 8);
}

static void fault_at_the_first_frame_record_has_no_link(void **state)
{
	struct seen seen;

	host_user_hole(FP + HOST_PAGE);
	seen = sample_user(PC, FP, FP + HOST_PAGE);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_FAULT);
	assert_next(&seen, FP + HOST_PAGE, 0);
}

static void fault_in_a_stack_that_nothing_bounds_says_no_more(void **state)
{
	struct seen seen;

	host_user_region(0x10000, HOST_PAGE);
	put_frame(0x10040, 0x12000, RA(0));
	seen = sample_user(PC, 0x10000, 0x10040);
	assert_chain(&seen, 1, 1, RPROF_NATIVE_UNBOUND, RPROF_STOP_FAULT);
	thread_no_table();
	seen = sample_user(PC, 0x10000, 0x10040);
	assert_chain(&seen, 1, 1, RPROF_NATIVE_UNCHECKED, RPROF_STOP_FAULT);
}

static void fault_after_the_last_frame_that_fits_says_no_more(void **state)
{
	const u64 last = FP + 511 * 64;
	struct seen seen;

	put_chain(FP, 511, 64);
	put_frame(FP + 510 * 64, last + HOST_PAGE, RA(510));
	host_user_hole(last + HOST_PAGE);
	seen = sample_at(FP);
	assert_int_equal(seen.stop, RPROF_STOP_FAULT);
	assert_int_equal(seen.n, RPROF_MAX_NATIVE);
	assert_frame(&seen, 511, RA(510), RPROF_HOW_CHAIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(chain_ends_at_link_0_and_keeps_the_outermost_frame),
		THREAD_TEST(frame_pointer_0_ends_the_walk_at_once),
		THREAD_TEST(unaligned_frame_pointer_stops),
		THREAD_TEST(unaligned_link_stops_after_its_frame),
		THREAD_TEST(frame_pointer_below_sp_stops),
		THREAD_TEST(frame_pointer_equal_to_sp_is_a_frame),
		THREAD_TEST(chain_that_goes_down_stops),
		THREAD_TEST(frame_that_links_to_itself_stops),
		THREAD_TEST(frames_that_overlap_stop),
		THREAD_TEST(frames_side_by_side_are_followed),
		THREAD_TEST(chain_that_leaves_the_stack_mapping_stops),
		THREAD_TEST(frame_at_the_very_top_of_the_mapping_is_read),
		THREAD_TEST(sp_in_the_last_word_of_the_mapping_is_no_fault),
		THREAD_TEST(return_address_outside_executable_memory_stops),
		THREAD_TEST(return_address_in_no_known_mapping_is_kept_unchecked),
		THREAD_TEST(lowest_addresses_are_no_code_even_without_a_table),
		THREAD_TEST(return_addresses_at_both_ends_of_a_mapping_are_in_it),
		THREAD_TEST(page_that_is_not_there_stops_after_the_frames_before_it),
		THREAD_TEST(depth_is_512_frames_in_all),
		THREAD_TEST(candidates_count_against_the_depth),
		THREAD_TEST(deepest_stacks_of_both_sides_fit_one_record),
		THREAD_TEST(chain_ends_before_2_to_the_64),
		THREAD_TEST(sp_at_the_end_of_the_address_space_wraps_nowhere),
		THREAD_TEST(unmapped_sp_is_unbound_and_its_chain_still_followed),
		THREAD_TEST(every_stop_is_counted_once),
		THREAD_TEST(fault_says_which_frame_record_it_was),
		THREAD_TEST(fault_at_the_first_frame_record_has_no_link),
		THREAD_TEST(fault_in_a_stack_that_nothing_bounds_says_no_more),
		THREAD_TEST(fault_after_the_last_frame_that_fits_says_no_more),
	};

	return cmocka_run_group_tests_name("native_x86", tests, NULL, NULL);
}
