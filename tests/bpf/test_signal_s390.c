// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks with signal frames on s390x: handler, trampoline, what was interrupted and its callers;
 * wherever the handler was interrupted, on whatever stack it runs, and with words that a target made
 * up. And the frames of the vDSO's entries.
 */
#include "thread_s390.h"

#define UP (STACK + 0x8000)	/* r15 of the interrupted function */
#define VICTIM (TEXT + 0x180)	/* where it was interrupted; zeros lie there */
#define RESTORER (TEXT + 0x800)
#define BASE (UP - 0x1000)	/* the signal frame */
#define HANDLER (BASE - 176)	/* r15 of the handler, when its frame is up */
#define ALT_STACK 0x7fe000000000ULL

static const u8 rt_sigreturn[] = { 0x0a, 173 }, old_sigreturn[] = { 0x0a, 119 };

/* A signal frame at @at, of an rt handler or an old one: the words that arch/s390/kernel/signal.c sets. */
static void put_signal(u64 at, bool old, u64 ip, u64 sp)
{
	u64 psw = at + (old ? 176 : 336);

	host_poke(at, sp);
	host_poke(psw, PSW_USER);
	host_poke(psw + 8, ip);
	host_poke(psw + 16 + 14 * 8, DATA);
	host_poke(psw + 16 + 15 * 8, sp);
}

/* A handler's frame @sp below the signal frame @at, which its r14 leads to. */
static void put_handler(u64 sp, u64 at)
{
	host_poke(sp, at);
	host_poke(at + 112, RESTORER);
}

static int setup(void **state)
{
	thread_setup(state);
	host_poke_bytes(RESTORER, rt_sigreturn, 2);
	put_chain(UP, 3, FRAME);
	put_signal(BASE, false, VICTIM, UP);
	put_handler(HANDLER, BASE);
	return 0;
}

static void assert_signal(const struct seen *seen, u32 from, u64 how)
{
	assert_frame(seen, from, RESTORER, how);
	assert_frame(seen, from + 1, VICTIM, RPROF_HOW_SIGNAL);
	assert_chain(seen, from + 2, 3, 0, RPROF_STOP_END);
}

static struct seen sample_r14(u64 pc, u64 sp, u64 r14)
{
	struct bpf_perf_event_data ctx = user_regs(pc, sp);

	ctx.regs.words[W_R14] = r14;
	rprof_clock(&ctx);
	return last_seen();
}

static void walk_passes_a_signal_frame(void **state)
{
	struct seen seen = sample_at(HANDLER);

	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void walk_passes_an_old_signal_frame(void **state)
{
	struct seen seen;

	put_signal(BASE, true, VICTIM, UP);
	host_poke(BASE + 336, 0);
	host_poke_bytes(RESTORER, old_sigreturn, 2);
	seen = sample_at(HANDLER);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void callees_of_a_handler_stand_below_it(void **state)
{
	struct seen seen;

	host_poke(HANDLER - 320, HANDLER);
	host_poke(HANDLER + 112, RA(9));
	seen = sample_at(HANDLER - 320);
	assert_frame(&seen, 1, RA(9), RPROF_HOW_CHAIN);
	assert_signal(&seen, 2, RPROF_HOW_CHAIN);
}

static void walk_leaves_a_signal_stack_of_its_own_mapping(void **state)
{
	struct rprof_mapping maps[N_MAPPINGS + 1];
	const u64 base = ALT_STACK + 0x2000 - 480; /* the words end with the mapping */
	struct seen seen;

	for (u32 i = 0; i < N_MAPPINGS - 1; i++)
		maps[i] = thread_mappings[i];
	maps[N_MAPPINGS - 1] = (struct rprof_mapping){ .start = ALT_STACK,
						       .end = ALT_STACK + 0x2000,
						       .flags = RPROF_MAPPING_STACK };
	maps[N_MAPPINGS] = thread_mappings[N_MAPPINGS - 1];
	thread_table(2, maps, N_MAPPINGS + 1);
	host_user_region(ALT_STACK, 0x2000);
	put_signal(base, false, VICTIM, UP);
	put_handler(base - 176, base);
	seen = sample_at(base - 176);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void walk_comes_down_from_a_signal_stack_above(void **state)
{
	const u64 base = STACK_END - 0x1000;
	struct seen seen;

	put_signal(base, false, VICTIM, UP);
	put_handler(base - 176, base);
	seen = sample_at(base - 176);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void a_signal_in_a_handler_is_passed_twice(void **state)
{
	const u64 inner = HANDLER - 0x1000;
	struct seen seen;

	put_signal(inner, false, PC, HANDLER);
	put_handler(inner - 176, inner);
	seen = sample_at(inner - 176);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_frame(&seen, 2, PC, RPROF_HOW_SIGNAL);
	assert_signal(&seen, 3, RPROF_HOW_CHAIN);
}

/* What is interrupted gets its words as the first frame does, by the registers of its signal frame. */
static void interrupted_frame_has_its_own_registers(void **state)
{
	static const u8 stg1[] = { 0xe3, 0x10, 0xf0, 0, 0, 0x24 };
	struct seen seen;

	host_poke(BASE + 352 + 14 * 8, RA(50));
	seen = sample_at(HANDLER);
	assert_frame(&seen, 2, VICTIM, RPROF_HOW_SIGNAL);
	assert_frame(&seen, 3, RA(50), RPROF_HOW_WORD_RA);
	assert_chain(&seen, 4, 3, 0, RPROF_STOP_END);

	/* Interrupted before its chain was stored, by r1. */
	host_poke_bytes(VICTIM, stg1, 6);
	host_poke(BASE + 352 + 8, UP + FRAME);
	host_poke(UP, DATA);
	seen = sample_at(HANDLER);
	assert_frame(&seen, 4, RA(0), RPROF_HOW_CHAIN_REG);
	assert_frame(&seen, 6, RA(2), RPROF_HOW_CHAIN);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void handler_whose_frame_is_not_up_is_passed(void **state)
{
	static const u8 br[] = { 0x07, 0xfe };
	struct seen seen = sample_r14(PC, BASE, RESTORER);

	assert_signal(&seen, 1, RPROF_HOW_WORD_RA);
	host_poke_bytes(PC, br, 2);
	seen = sample_r14(PC, BASE, RESTORER);
	assert_signal(&seen, 1, RPROF_HOW_RA);
}

static void handler_that_saved_r14_and_has_no_frame_yet_is_passed(void **state)
{
	static const u8 lay[] = { 0xe3, 0xf0, 0xff, 0x50, 0xff, 0x71, 0xe3, 0xe0, 0xf0, 0, 0, 0x24 };
	struct seen seen;

	host_poke_bytes(PC, lay, sizeof(lay));
	seen = sample_r14(PC, BASE, BASE);
	assert_signal(&seen, 1, RPROF_HOW_WORD_SLOT);
}

/* A handler that is a leaf with a frame: r14 was not saved, so the word in its place is an old one. */
static void handler_that_is_a_leaf_with_a_frame_is_passed(void **state)
{
	static const u64 old[] = { 0, RA(70) };

	for (u32 i = 0; i < 2; i++) {
		struct seen seen;

		host_poke(BASE + 112, old[i]);
		seen = sample_r14(PC, HANDLER, RESTORER);
		assert_frame(&seen, 1, RESTORER, RPROF_HOW_WORD_RA);
		assert_frame(&seen, 2, old[i], RPROF_HOW_CHAIN);
		assert_frame(&seen, 3, VICTIM, RPROF_HOW_SIGNAL);
		assert_chain(&seen, 4, 3, 0, RPROF_STOP_END);
	}
}

/* r15 in it is not what the link says: the signal frame of a handler that is gone. */
static void old_signal_frame_in_a_frame_that_is_up_is_none(void **state)
{
	struct seen seen;

	host_poke(BASE, UP + FRAME);
	seen = sample_r14(PC, BASE, RESTORER);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_WORD_RA);
	assert_frame(&seen, 2, RESTORER, RPROF_HOW_WORD_SLOT);
	assert_frame(&seen, 3, RA(0), RPROF_HOW_CHAIN);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void sample_in_the_trampoline_is_passed(void **state)
{
	struct seen seen = sample_at(HANDLER);

	seen = sample_r14(RESTORER, BASE, RESTORER);
	assert_frame(&seen, 0, RESTORER, RPROF_HOW_PC);
	assert_frame(&seen, 1, VICTIM, RPROF_HOW_SIGNAL);
	assert_chain(&seen, 2, 3, 0, RPROF_STOP_END);
}

static void other_code_is_no_trampoline(void **state)
{
	static const u8 codes[][2] = { { 0x0a, 174 }, { 0x0b, 173 }, { 0xa7, 0x0a }, { 0, 0 } };

	for (u32 i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct seen seen;

		host_poke_bytes(RESTORER, codes[i], 2);
		seen = sample_at(HANDLER);
		assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
		assert_int_equal(seen.n, 2);
		assert_int_equal(seen.stop, RPROF_STOP_NOT_EXEC);
	}
}

static void mode_of_31_bits_ends_the_walk(void **state)
{
	struct seen seen;

	host_poke(BASE + 336, PSW_USER31);
	seen = sample_at(HANDLER);
	assert_int_equal(seen.stop, RPROF_STOP_COMPAT);
	assert_int_equal(seen.n, 2);
}

static void made_up_words_end_the_walk(void **state)
{
	static const struct {
		u64 ip, sp;
		u32 stop, n;
	} cases[] = {
		{ 0, UP, RPROF_STOP_NOT_EXEC, 2 },
		{ DATA, UP, RPROF_STOP_NOT_EXEC, 2 },
		{ STACK, UP, RPROF_STOP_NOT_EXEC, 2 },
		{ VICTIM, UP + 4, RPROF_STOP_UNALIGNED, 3 },
		{ VICTIM, 0, RPROF_STOP_FAULT, 3 },
		{ VICTIM, ~7ULL, RPROF_STOP_FAULT, 3 },
		{ VICTIM, STACK_END - 8, RPROF_STOP_END, 3 },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen;

		print_message("# case %u\n", i);
		put_signal(BASE, false, cases[i].ip, cases[i].sp);
		seen = sample_at(HANDLER);
		assert_int_equal(seen.stop, cases[i].stop);
		assert_int_equal(seen.n, cases[i].n);
	}
}

static void signal_frames_in_a_circle_end_with_depth(void **state)
{
	struct seen seen;

	put_signal(BASE, false, PC, HANDLER);
	seen = sample_at(HANDLER);
	assert_int_equal(seen.stop, RPROF_STOP_DEPTH);
	assert_int_equal(seen.n, RPROF_MAX_NATIVE);
	assert_true(host.user_reads < 5 * RPROF_MAX_NATIVE);
}

static void ordinary_frames_cost_no_reads_of_code(void **state)
{
	put_chain(UP, 10, FRAME);
	sample_at(UP);
	/* The code at pc, and one window. */
	assert_int_equal(host.user_reads, 2);
}

/* vDSO. */

#define WRAPPER (LIB + 0x440) /* where an entry goes on after its C function */

static int setup_vdso(void **state)
{
	/* lg %r14,160(%r15); aghi %r15,168; br %r14 */
	static const u8 code[] = {
		0xe3, 0xe0, 0xf0, 0xa0, 0, 0x04, 0xa7, 0xfb, 0, 0xa8, 0x07, 0xfe
	};
	struct rprof_mapping maps[N_MAPPINGS];

	thread_setup(state);
	for (u32 i = 0; i < N_MAPPINGS; i++)
		maps[i] = thread_mappings[i];
	maps[2].flags |= RPROF_MAPPING_VDSO;
	thread_table(2, maps, N_MAPPINGS);
	host_user_region(LIB, HOST_PAGE);
	host_poke_bytes(WRAPPER, code, sizeof(code));
	put_chain(UP, 2, FRAME);
	host_poke(UP - 168 + 160, RA(50)); /* the entry's frame */
	host_poke(UP - 168 + 112, WRAPPER);
	host_poke(UP - 400, UP - 168); /* the C function's */
	return 0;
}

/* Its chain is 0 from 6.12 on, before it is what was there. */
static void entry_of_the_vdso_is_stepped_over(void **state)
{
	static const u64 chains[] = { 0, UP + FRAME };

	for (u32 i = 0; i < 2; i++) {
		struct seen seen;

		host_poke(UP - 168, chains[i]);
		seen = sample_r14(LIB + 0x700, UP - 400, 8);
		assert_frame(&seen, 1, WRAPPER, RPROF_HOW_CHAIN);
		assert_frame(&seen, 2, RA(50), RPROF_HOW_CHAIN);
		assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
	}
}

/* The C function calls none: r14 is never saved. Interrupted with a frame, and without. */
static void leaf_in_an_entry_of_the_vdso_is_stepped_over(void **state)
{
	static const u64 old[] = { 0, RA(70) };
	struct seen seen;

	host_poke(UP - 168, 0);
	for (u32 i = 0; i < 2; i++) {
		host_poke(UP - 168 + 112, old[i]);
		seen = sample_r14(LIB + 0x700, UP - 400, WRAPPER);
		assert_frame(&seen, 1, WRAPPER, RPROF_HOW_WORD_RA);
		assert_frame(&seen, 2, old[i], RPROF_HOW_CHAIN);
		assert_frame(&seen, 3, RA(50), RPROF_HOW_CHAIN);
		assert_chain(&seen, 4, 2, 0, RPROF_STOP_END);
	}
	seen = sample_r14(LIB + 0x700, UP - 168, WRAPPER);
	assert_frame(&seen, 1, WRAPPER, RPROF_HOW_WORD_RA);
	assert_frame(&seen, 2, RA(50), RPROF_HOW_CHAIN);
	assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
	/* Elsewhere it is what it says: the end. */
	seen = sample_r14(PC, UP - 168, WRAPPER);
	assert_frame(&seen, 1, WRAPPER, RPROF_HOW_WORD_RA);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void entry_of_the_vdso_is_left_where_it_was_interrupted(void **state)
{
	struct seen seen;

	host_poke(UP - 168, 0);
	seen = sample_r14(WRAPPER, UP - 168, 8);
	assert_frame(&seen, 0, WRAPPER, RPROF_HOW_PC);
	assert_int_equal(seen.native[seen.n - 1].pc, RA(1));
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void same_code_elsewhere_is_no_entry_of_the_vdso(void **state)
{
	struct seen seen;

	thread_table(3, thread_mappings, N_MAPPINGS);
	seen = sample_r14(LIB + 0x700, UP - 400, 8);
	assert_frame(&seen, 1, WRAPPER, RPROF_HOW_CHAIN);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void other_code_of_the_vdso_is_a_frame_as_any(void **state)
{
	struct seen seen;

	host_poke_bytes(WRAPPER, (const u8[]){ 0xe3, 0xe0, 0xf0, 0xa8 }, 4);
	host_poke(UP - 168, UP);
	host_poke(UP + 112, RA(51));
	seen = sample_r14(LIB + 0x700, UP - 400, 8);
	assert_frame(&seen, 1, WRAPPER, RPROF_HOW_CHAIN);
	assert_frame(&seen, 2, RA(51), RPROF_HOW_CHAIN);
	assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
}

/* Whether the frame has a chain is not known then: that there is none is not said. */
static void code_of_the_vdso_that_cannot_be_read_stops(void **state)
{
	static const u64 chains[] = { 0, UP };
	struct seen seen;

	host_poke(UP - 168 + 112, WRAPPER + HOST_PAGE);
	for (u32 i = 0; i < 2; i++) {
		host_poke(UP - 168, chains[i]);
		seen = sample_r14(LIB + 0x700, UP - 400, 8);
		assert_frame(&seen, 1, WRAPPER + HOST_PAGE, RPROF_HOW_CHAIN);
		assert_int_equal(seen.n, 2);
		assert_int_equal(seen.stop, RPROF_STOP_FAULT);
	}
	/* Another file's code need not be read for that. */
	thread_table(3, thread_mappings, N_MAPPINGS);
	host_poke(UP - 168, 0);
	seen = sample_r14(LIB + 0x700, UP - 400, 8);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void entry_that_reaches_beyond_the_stack_stops(void **state)
{
	struct seen seen;

	host_poke(UP - 400, STACK_END - 168);
	host_poke(STACK_END - 168 + 112, WRAPPER);
	seen = sample_r14(LIB + 0x700, UP - 400, 8);
	assert_frame(&seen, 1, WRAPPER, RPROF_HOW_CHAIN);
	assert_int_equal(seen.stop, RPROF_STOP_BOUNDS);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)
#define VDSO_TEST(f) cmocka_unit_test_setup_teardown(f, setup_vdso, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(walk_passes_a_signal_frame),
		TEST(walk_passes_an_old_signal_frame),
		TEST(callees_of_a_handler_stand_below_it),
		TEST(walk_leaves_a_signal_stack_of_its_own_mapping),
		TEST(walk_comes_down_from_a_signal_stack_above),
		TEST(a_signal_in_a_handler_is_passed_twice),
		TEST(interrupted_frame_has_its_own_registers),
		TEST(handler_whose_frame_is_not_up_is_passed),
		TEST(handler_that_saved_r14_and_has_no_frame_yet_is_passed),
		TEST(handler_that_is_a_leaf_with_a_frame_is_passed),
		TEST(old_signal_frame_in_a_frame_that_is_up_is_none),
		TEST(sample_in_the_trampoline_is_passed),
		TEST(other_code_is_no_trampoline),
		TEST(mode_of_31_bits_ends_the_walk),
		TEST(made_up_words_end_the_walk),
		TEST(signal_frames_in_a_circle_end_with_depth),
		TEST(ordinary_frames_cost_no_reads_of_code),
		VDSO_TEST(entry_of_the_vdso_is_stepped_over),
		VDSO_TEST(leaf_in_an_entry_of_the_vdso_is_stepped_over),
		VDSO_TEST(entry_of_the_vdso_is_left_where_it_was_interrupted),
		VDSO_TEST(same_code_elsewhere_is_no_entry_of_the_vdso),
		VDSO_TEST(other_code_of_the_vdso_is_a_frame_as_any),
		VDSO_TEST(code_of_the_vdso_that_cannot_be_read_stops),
		VDSO_TEST(entry_that_reaches_beyond_the_stack_stops),
	};

	return cmocka_run_group_tests_name("signal_s390", tests, NULL, NULL);
}
