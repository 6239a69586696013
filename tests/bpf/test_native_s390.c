// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The s390x back chain: how far it is followed, why it is not, and whose registers start it. */
#include "thread_s390.h"

#define SP (STACK + 0x8000)

/* Frames. The first one's caller returns to RA(0), which lies in the second one's save area. */

static void chain_ends_at_back_chain_0_and_keeps_the_outermost_frame(void **state)
{
	struct seen seen;

	put_chain(SP, 3, FRAME);
	seen = sample_at(SP);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

static void back_chain_0_of_the_interrupted_frame_ends_the_walk(void **state)
{
	struct seen seen = sample_at(SP);

	assert_chain(&seen, 1, 0, 0, RPROF_STOP_END);
}

static void unaligned_stack_pointer_stops(void **state)
{
	struct seen seen = sample_at(SP + 4);

	assert_chain(&seen, 1, 0, 0, RPROF_STOP_UNALIGNED);
}

static void unaligned_back_chain_stops(void **state)
{
	struct seen seen;

	put_chain(SP, 2, FRAME);
	host_poke(SP + FRAME, SP + 2 * FRAME + 1);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_UNALIGNED);
}

static void back_chain_that_goes_down_or_nowhere_stops(void **state)
{
	struct seen seen;

	put_chain(SP, 2, FRAME);
	host_poke(SP + FRAME, SP);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_DOWN);
	host_poke(SP, SP);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_DOWN);
	host_poke(SP, SP - 8);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_DOWN);
}

static void back_chain_that_leaves_the_mapping_stops(void **state)
{
	static const u64 beyond[] = { STACK_END - 112, STACK_END - 8, STACK_END, ~7ULL, -120ULL };

	host_user_region(STACK_END, HOST_PAGE);
	put_chain(SP, 2, FRAME);
	for (u32 i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		struct seen seen;

		host_poke(SP + FRAME, beyond[i]);
		seen = sample_at(SP);
		assert_chain(&seen, 1, 1, 0, RPROF_STOP_BOUNDS);
	}
}

static void return_address_slot_may_end_with_the_mapping(void **state)
{
	struct seen seen;

	host_poke(SP, STACK_END - 120);
	host_poke(STACK_END - 120, 0);
	host_poke(STACK_END - 8, RA(0));
	seen = sample_at(SP);
	assert_chain(&seen, 1, 1, 0, RPROF_STOP_END);
}

static void sp_in_the_last_word_of_the_mapping_is_read(void **state)
{
	struct seen seen = sample_at(STACK_END - 8);

	assert_chain(&seen, 1, 0, 0, RPROF_STOP_END);
	host_poke(STACK_END - 8, STACK_END);
	seen = sample_at(STACK_END - 8);
	assert_chain(&seen, 1, 0, 0, RPROF_STOP_BOUNDS);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
}

static void return_address_outside_executable_memory_stops(void **state)
{
	static const u64 bad[] = { 0, 65535, DATA, DATA_END - 1, STACK };

	put_chain(SP, 3, FRAME);
	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct seen seen;

		host_poke(SP + 2 * FRAME + 112, bad[i]);
		seen = sample_at(SP);
		assert_chain(&seen, 1, 1, 0, RPROF_STOP_NOT_EXEC);
	}
}

static void return_address_in_no_known_mapping_is_kept_unchecked(void **state)
{
	struct seen seen;

	put_chain(SP, 3, FRAME);
	host_poke(SP + 2 * FRAME + 112, TEXT_END);
	seen = sample_at(SP);
	assert_int_equal(seen.n, 4);
	assert_frame(&seen, 2, TEXT_END, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	assert_frame(&seen, 3, RA(2), RPROF_HOW_CHAIN);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void depth_is_512_frames_in_all(void **state)
{
	struct seen seen;

	put_chain(SP, 510, FRAME);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 510, 0, RPROF_STOP_END);
	put_chain(SP, 511, FRAME);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_END);
	put_chain(SP, 512, FRAME);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 511, 0, RPROF_STOP_DEPTH);
}

static void back_chain_ends_before_2_to_the_64(void **state)
{
	const u64 top = -4096ULL;
	struct seen seen;

	thread_no_table();
	host_user_region(top, HOST_PAGE);
	host_poke(top, -128ULL);
	host_poke(-128ULL, -8ULL);
	host_poke(-128ULL + 112, RA(0));
	seen = sample_at(top);
	assert_chain(&seen, 1, 1, RPROF_NATIVE_UNCHECKED, RPROF_STOP_BOUNDS);
}

static void unmapped_sp_is_a_fault(void **state)
{
	struct seen seen = sample_at(0x1000);

	assert_chain(&seen, 1, 0, RPROF_NATIVE_UNBOUND, RPROF_STOP_FAULT);
}

/* Windows. */

static void frames_are_found_at_every_distance(void **state)
{
	for (u64 step = 120; step <= 2 * HOST_PAGE + 256; step += 8) {
		struct seen seen;

		put_chain(SP, 3, step);
		seen = sample_at(SP);
		assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	}
}

static void return_address_slot_is_found_at_every_place_in_a_page(void **state)
{
	for (u64 off = 0; off < HOST_PAGE; off += 8) {
		struct seen seen;

		put_chain(SP + off, 4, 4000);
		seen = sample_at(SP + off);
		assert_chain(&seen, 1, 4, 0, RPROF_STOP_END);
	}
}

/* The back chain lies in one page, the slot for r14 in the next, and that is a hole. */
static void return_address_slot_in_a_hole_is_a_fault(void **state)
{
	for (u64 off = HOST_PAGE - 128; off < HOST_PAGE; off += 8) {
		struct seen seen;

		thread_setup(state);
		host_poke(SP, SP + off);
		host_poke(SP + off, 0);
		if (off + 112 < HOST_PAGE)
			host_poke(SP + off + 112, RA(0));
		host_user_hole(SP + HOST_PAGE);
		seen = sample_at(SP);
		if (off + 112 < HOST_PAGE)
			assert_chain(&seen, 1, 1, 0, RPROF_STOP_END);
		else
			assert_chain(&seen, 1, 0, 0, RPROF_STOP_FAULT);
	}
}

static void shallow_stack_takes_one_or_two_reads(void **state)
{
	put_chain(SP, 24, FRAME);
	sample_at(SP);
	assert_in_range(counter(RPROF_COUNT_READS), 1, 2);
	assert_int_equal(counter(RPROF_COUNT_READ_FAULTS), 0);
}

static void hole_behind_the_frames_costs_one_failed_read(void **state)
{
	struct seen seen;

	host_user_hole(SP + HOST_PAGE);
	put_chain(SP, 24, FRAME);
	seen = sample_at(SP);
	assert_chain(&seen, 1, 24, 0, RPROF_STOP_END);
	assert_in_range(counter(RPROF_COUNT_READ_FAULTS), 0, 1);
}

/* Registers. */

static void process_in_31_bit_mode_is_not_walked(void **state)
{
	struct bpf_perf_event_data ctx = user_regs(PC, SP);
	struct seen seen;

	put_chain(SP, 3, FRAME);
	ctx.regs.words[W_PSW_MASK] = PSW_USER31;
	rprof_clock(&ctx);
	seen = last_seen();
	assert_int_equal(seen.stop, RPROF_STOP_COMPAT);
	assert_int_equal(seen.n, 0);
	ctx.regs.words[W_PSW_MASK] = PSW_USER & ~0x180000000ULL; /* 24 bits */
	rprof_clock(&ctx);
	assert_int_equal(last_seen().stop, RPROF_STOP_COMPAT);
}

static void sample_in_the_kernel_walks_from_the_saved_registers(void **state)
{
	static const u64 kstack[] = { 0x100000, 0x200000 };
	struct bpf_perf_event_data ctx = kernel_regs(), user = user_regs(PC, SP);

	host.kstack = kstack;
	host.n_kstack = 2;
	put_chain(SP, 3, FRAME);
	save_regs(&user);
	for (u32 btf = 0; btf < 2; btf++) {
		struct seen seen;

		(btf ? rprof_clock_btf : rprof_clock)(&ctx);
		seen = last_seen();
		assert_int_equal(seen.stack->n_kernel, 2);
		assert_int_equal(seen.kernel[1], kstack[1]);
		assert_frame(&seen, 0, PC, RPROF_HOW_PC);
		assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	}
}

static void saved_registers_that_are_not_user_mode_are_refused(void **state)
{
	struct bpf_perf_event_data ctx = kernel_regs(), saved = kernel_regs();

	save_regs(&saved);
	rprof_clock(&ctx);
	assert_int_equal(last_seen().stop, RPROF_STOP_NO_REGS);
	rprof_clock_btf(&ctx);
	assert_int_equal(last_seen().stop, RPROF_STOP_NO_REGS);
	saved.regs.words[W_PSW_MASK] = PSW_USER31;
	save_regs(&saved);
	rprof_clock(&ctx);
	assert_int_equal(last_seen().stop, RPROF_STOP_COMPAT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(chain_ends_at_back_chain_0_and_keeps_the_outermost_frame),
		THREAD_TEST(back_chain_0_of_the_interrupted_frame_ends_the_walk),
		THREAD_TEST(unaligned_stack_pointer_stops),
		THREAD_TEST(unaligned_back_chain_stops),
		THREAD_TEST(back_chain_that_goes_down_or_nowhere_stops),
		THREAD_TEST(back_chain_that_leaves_the_mapping_stops),
		THREAD_TEST(return_address_slot_may_end_with_the_mapping),
		THREAD_TEST(sp_in_the_last_word_of_the_mapping_is_read),
		THREAD_TEST(return_address_outside_executable_memory_stops),
		THREAD_TEST(return_address_in_no_known_mapping_is_kept_unchecked),
		THREAD_TEST(depth_is_512_frames_in_all),
		THREAD_TEST(back_chain_ends_before_2_to_the_64),
		THREAD_TEST(unmapped_sp_is_a_fault),
		THREAD_TEST(frames_are_found_at_every_distance),
		THREAD_TEST(return_address_slot_is_found_at_every_place_in_a_page),
		THREAD_TEST(return_address_slot_in_a_hole_is_a_fault),
		THREAD_TEST(shallow_stack_takes_one_or_two_reads),
		THREAD_TEST(hole_behind_the_frames_costs_one_failed_read),
		THREAD_TEST(process_in_31_bit_mode_is_not_walked),
		THREAD_TEST(sample_in_the_kernel_walks_from_the_saved_registers),
		THREAD_TEST(saved_registers_that_are_not_user_mode_are_refused),
	};

	return cmocka_run_group_tests_name("native_s390", tests, NULL, NULL);
}
