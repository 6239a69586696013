// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks with signal frames: handler, trampoline, what was interrupted and its callers; wherever the
 * handler was interrupted, on whatever stack it runs, and with words that a target made up.
 */
#include "thread_x86.h"

#define FP (STACK + 0x8000)	/* frame record of the interrupted function */
#define SP (FP - 64)		/* its stack pointer */
#define VICTIM (TEXT + 0x180)	/* where it was interrupted; zeros lie there */
#define RESTORER (TEXT + 0x800)
#define HANDLER (FP - 0x1000)	/* frame record of the handler */
#define ALT_STACK 0x7fe000000000ULL

static const u8 glibc[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
static const u8 by_eax[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

/* The words of struct ucontext at @at, as arch/x86/kernel/signal_64.c lays them out. */
static void put_context(u64 at, u64 ip, u64 sp, u64 fp)
{
	host_poke(at + 120, fp);
	host_poke(at + 160, sp);
	host_poke(at + 168, ip);
	host_poke(at + 184, 0x002b000000000033ULL);
}

/* A handler with frame record @at over what is interrupted. */
static void put_handler(u64 at, u64 ip, u64 sp, u64 fp)
{
	put_frame(at, fp, RESTORER);
	put_context(at + 16, ip, sp, fp);
}

static int setup(void **state)
{
	thread_setup(state);
	host_poke_bytes(RESTORER, glibc, sizeof(glibc));
	put_chain(FP, 3, 64);
	put_handler(HANDLER, VICTIM, SP, FP);
	return 0;
}

/* Frames from @from on: the trampoline, found so, what was interrupted, its callers to the end. */
static void assert_signal(const struct seen *seen, u32 from, u64 how)
{
	assert_frame(seen, from, RESTORER, how);
	assert_frame(seen, from + 1, VICTIM, RPROF_HOW_SIGNAL);
	assert_chain(seen, from + 2, 3, 0, RPROF_STOP_END);
}

static void walk_passes_a_signal_frame(void **state)
{
	struct seen seen = sample_at(HANDLER);

	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void walk_passes_the_other_trampoline(void **state)
{
	struct seen seen;

	host_poke_bytes(RESTORER, (const u8[16]){}, 16);
	host_poke_bytes(RESTORER, by_eax, sizeof(by_eax));
	seen = sample_at(HANDLER);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void callees_of_a_handler_stand_below_it(void **state)
{
	struct seen seen;

	put_frame(HANDLER - 128, HANDLER, RA(9));
	seen = sample_at(HANDLER - 128);
	assert_frame(&seen, 1, RA(9), RPROF_HOW_CHAIN);
	assert_signal(&seen, 2, RPROF_HOW_CHAIN);
}

static void walk_comes_down_from_a_signal_stack_above(void **state)
{
	const u64 alt = STACK_END - 0x1000;
	struct seen seen;

	put_handler(alt, VICTIM, SP, FP);
	seen = sample_at(alt);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);
}

static void walk_leaves_a_signal_stack_of_its_own_mapping(void **state)
{
	struct rprof_mapping maps[N_MAPPINGS + 1];
	const u64 alt = ALT_STACK + 0x2000 - 16 - 192; /* the signal frame ends with the mapping */
	struct seen seen;

	for (u32 i = 0; i < N_MAPPINGS - 1; i++)
		maps[i] = thread_mappings[i];
	maps[N_MAPPINGS - 1] = (struct rprof_mapping){ .start = ALT_STACK,
						       .end = ALT_STACK + 0x2000,
						       .flags = RPROF_MAPPING_STACK };
	maps[N_MAPPINGS] = thread_mappings[N_MAPPINGS - 1];
	thread_table(2, maps, N_MAPPINGS + 1);
	host_user_region(ALT_STACK, 0x2000);
	put_handler(alt, VICTIM, SP, FP);
	seen = sample_at(alt);
	assert_signal(&seen, 1, RPROF_HOW_CHAIN);

	/* One word higher, and it would reach beyond. */
	put_frame(alt + 8, FP, RESTORER);
	seen = sample_at(alt + 8);
	assert_int_equal(seen.stop, RPROF_STOP_BOUNDS);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_int_equal(seen.n, 2);
}

static void a_signal_in_a_handler_is_passed_twice(void **state)
{
	const u64 inner = HANDLER - 0x1000;
	struct seen seen;

	put_handler(inner, PC, HANDLER - 64, HANDLER);
	seen = sample_at(inner);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_frame(&seen, 2, PC, RPROF_HOW_SIGNAL);
	assert_signal(&seen, 3, RPROF_HOW_CHAIN);
}

/* What is interrupted gets its words as the first frame does. */
static void interrupted_frame_has_its_candidates(void **state)
{
	static const u8 ret = 0xc3;
	struct seen seen;

	host_poke(SP, RA(50));
	host_poke(SP + 8, RA(60));
	seen = sample_at(HANDLER);
	assert_frame(&seen, 2, VICTIM, RPROF_HOW_SIGNAL);
	assert_frame(&seen, 3, RA(50), RPROF_HOW_WORD_SP);
	assert_frame(&seen, 4, RA(60), RPROF_HOW_WORD_SP8);
	assert_chain(&seen, 5, 3, 0, RPROF_STOP_END);

	host_poke_bytes(VICTIM, &ret, 1);
	seen = sample_at(HANDLER);
	assert_frame(&seen, 3, RA(50), RPROF_HOW_SP);
	assert_chain(&seen, 4, 3, 0, RPROF_STOP_END);
}

static const struct {
	const char *what;
	u8 code[4];
	u64 skip;	/* from sp to the word */
	u32 how;
} not_up[] = {
	{ "endbr64", { 0xf3, 0x0f, 0x1e, 0xfa }, 0, RPROF_HOW_SP },
	{ "push %rbp; mov", { 0x55, 0x48, 0x89, 0xe5 }, 0, RPROF_HOW_SP },
	{ "mov %rsp,%rbp", { 0x48, 0x89, 0xe5 }, 8, RPROF_HOW_SP8 },
	{ "ret", { 0xc3 }, 0, RPROF_HOW_SP },
	{ "a leaf without a frame", { 0x90 }, 0, RPROF_HOW_WORD_SP },
	{ "the same after a push", { 0x90 }, 8, RPROF_HOW_WORD_SP8 },
};

/* sp of a handler whose frame is not up; the frame pointer is the interrupted function's. */
#define HANDLER_SP(i) (HANDLER + 8 - not_up[i].skip)

static void handler_whose_frame_is_not_up_is_passed(void **state)
{
	for (u32 i = 0; i < sizeof(not_up) / sizeof(not_up[0]); i++) {
		struct seen seen;

		print_message("# %s\n", not_up[i].what);
		host_poke_bytes(PC, not_up[i].code, 4);
		seen = sample_user(PC, HANDLER_SP(i), FP);
		assert_signal(&seen, 1, not_up[i].how);
	}
}

static void a_signal_in_the_prologue_of_a_handler_is_passed(void **state)
{
	const u64 inner = HANDLER - 0x1000;

	for (u32 i = 0; i < sizeof(not_up) / sizeof(not_up[0]); i++) {
		struct seen seen;

		print_message("# %s\n", not_up[i].what);
		host_poke_bytes(PC, not_up[i].code, 4);
		put_handler(inner, PC, HANDLER_SP(i), FP);
		seen = sample_user(TEXT + 0x40, inner - 64, inner);
		assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
		assert_frame(&seen, 2, PC, RPROF_HOW_SIGNAL);
		assert_signal(&seen, 3, not_up[i].how);
	}
}

/* An old word of a handler that is gone, in a frame that is up. */
static void candidate_with_another_frame_pointer_is_a_candidate(void **state)
{
	struct seen seen;

	put_frame(FP + 0x1000, 0, RA(0));
	seen = sample_user(PC, HANDLER + 8, FP + 0x1000);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_WORD_SP);
	assert_chain(&seen, 2, 1, 0, RPROF_STOP_END);
}

static void sample_in_the_trampoline_is_passed(void **state)
{
	struct seen seen = sample_user(RESTORER, HANDLER + 16, FP);

	assert_frame(&seen, 0, RESTORER, RPROF_HOW_PC);
	assert_frame(&seen, 1, VICTIM, RPROF_HOW_SIGNAL);
	assert_chain(&seen, 2, 3, 0, RPROF_STOP_END);
}

static void other_code_is_no_trampoline(void **state)
{
	static const u8 codes[][9] = {
		{ 0x48, 0xc7, 0xc0, 0x0e, 0, 0, 0, 0x0f, 0x05 },	/* another call */
		{ 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 1, 0x0f, 0x05 },
		{ 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x0b },	/* ud2 */
		{ 0x48, 0xc7, 0xc1, 0x0f, 0, 0, 0, 0x0f, 0x05 },	/* %rcx */
		{ 0xb8, 0x0f, 0, 0, 0, 0xcd, 0x80 },			/* int $0x80 */
		{ 0xb9, 0x0f, 0, 0, 0, 0x0f, 0x05 },
		{ 0 },
	};

	for (u32 i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct seen seen;

		host_poke_bytes(RESTORER, codes[i], sizeof(codes[i]));
		seen = sample_at(HANDLER);
		assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
		assert_chain(&seen, 2, 3, 0, RPROF_STOP_END);
	}
}

static void trampoline_that_cannot_be_read_is_a_caller(void **state)
{
	struct seen seen;

	put_frame(HANDLER, FP, LIB + 64);
	seen = sample_at(HANDLER);
	assert_frame(&seen, 1, LIB + 64, RPROF_HOW_CHAIN);
	assert_chain(&seen, 2, 3, 0, RPROF_STOP_END);
}

static void segment_of_32_bit_code_ends_the_walk(void **state)
{
	struct seen seen;

	host_poke(HANDLER + 16 + 184, 0x002b000000000023ULL);
	seen = sample_at(HANDLER);
	assert_int_equal(seen.stop, RPROF_STOP_COMPAT);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_int_equal(seen.n, 2);
}

static void made_up_pc_ends_the_walk(void **state)
{
	static const u64 pcs[] = { 0, 8, DATA, STACK, 65535 };

	for (u32 i = 0; i < sizeof(pcs) / sizeof(pcs[0]); i++) {
		struct seen seen;

		put_handler(HANDLER, pcs[i], SP, FP);
		seen = sample_at(HANDLER);
		assert_int_equal(seen.stop, RPROF_STOP_NOT_EXEC);
		assert_int_equal(seen.n, 2);
	}
}

static void made_up_pc_in_no_mapping_is_unchecked(void **state)
{
	struct seen seen;

	put_handler(HANDLER, TEXT_END, SP, FP);
	seen = sample_at(HANDLER);
	assert_frame(&seen, 2, TEXT_END, RPROF_HOW_SIGNAL | RPROF_NATIVE_UNCHECKED);
	assert_chain(&seen, 3, 3, 0, RPROF_STOP_END);
}

static void made_up_stack_pointers_end_the_walk(void **state)
{
	static const struct {
		u64 sp, fp;
		u32 stop;
		u64 flags;	/* of the interrupted frame */
	} cases[] = {
		{ SP, 0, RPROF_STOP_END, 0 },
		{ SP, FP + 1, RPROF_STOP_UNALIGNED, 0 },
		{ SP + 1, SP - 8, RPROF_STOP_DOWN, 0 },
		{ SP, STACK_END - 8, RPROF_STOP_BOUNDS, 0 },
		{ ~0ULL, ~7ULL, RPROF_STOP_DOWN, RPROF_NATIVE_UNBOUND },
		{ ~7ULL, ~7ULL, RPROF_STOP_BOUNDS, RPROF_NATIVE_UNBOUND },
		{ 0, DATA, RPROF_STOP_FAULT, RPROF_NATIVE_UNBOUND },
		{ DATA, DATA, RPROF_STOP_FAULT, 0 },
		{ STACK_END, FP, RPROF_STOP_DOWN, RPROF_NATIVE_UNBOUND },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen;

		print_message("# case %u\n", i);
		put_context(HANDLER + 16, VICTIM, cases[i].sp, cases[i].fp);
		seen = sample_at(HANDLER);
		assert_int_equal(seen.stop, cases[i].stop);
		assert_frame(&seen, 2, VICTIM, RPROF_HOW_SIGNAL | cases[i].flags);
		if (cases[i].sp == DATA)
			assert_next(&seen, DATA, 0);
		assert_int_equal(seen.n, 3 + (cases[i].sp == DATA));
	}
}

/* As any other return address: analysis marks what is above it. */
static void signal_frame_in_a_hole_is_not_followed(void **state)
{
	const u64 at = FP - 0x1000 - 16 - 64; /* the words lie across two pages */
	struct seen seen;

	put_handler(at, VICTIM, SP, FP);
	host_user_hole(FP - 0x1000);
	seen = sample_at(at);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_chain(&seen, 2, 3, 0, RPROF_STOP_END);
	seen = sample_user(RESTORER, at + 16, FP);
	assert_int_equal(seen.stop, RPROF_STOP_FAULT);
	assert_int_equal(seen.n, 1);
}

/* The interrupted frame is the handler itself: a signal frame that describes its own handler. */
static void signal_frames_in_a_circle_end_with_depth(void **state)
{
	struct seen seen;

	put_context(HANDLER + 16, PC, HANDLER - 64, HANDLER);
	seen = sample_at(HANDLER);
	assert_int_equal(seen.stop, RPROF_STOP_DEPTH);
	assert_int_equal(seen.n, RPROF_MAX_NATIVE);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN);
	assert_frame(&seen, 2, PC, RPROF_HOW_SIGNAL);
	assert_true(host.user_reads < 4 * RPROF_MAX_NATIVE);
}

static void signal_frames_need_no_mapping_table(void **state)
{
	const u64 unchecked = RPROF_NATIVE_UNCHECKED;
	struct seen seen;

	thread_no_table();
	seen = sample_at(HANDLER);
	assert_frame(&seen, 1, RESTORER, RPROF_HOW_CHAIN | unchecked);
	assert_frame(&seen, 2, VICTIM, RPROF_HOW_SIGNAL | unchecked);
	assert_chain(&seen, 3, 3, unchecked, RPROF_STOP_END);
}

static void ordinary_frames_cost_no_reads_of_code(void **state)
{
	put_chain(FP, 40, 64);
	sample_at(FP);
	/* The code at pc, and one window. */
	assert_int_equal(host.user_reads, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(walk_passes_a_signal_frame),
		TEST(walk_passes_the_other_trampoline),
		TEST(callees_of_a_handler_stand_below_it),
		TEST(walk_comes_down_from_a_signal_stack_above),
		TEST(walk_leaves_a_signal_stack_of_its_own_mapping),
		TEST(a_signal_in_a_handler_is_passed_twice),
		TEST(interrupted_frame_has_its_candidates),
		TEST(handler_whose_frame_is_not_up_is_passed),
		TEST(a_signal_in_the_prologue_of_a_handler_is_passed),
		TEST(candidate_with_another_frame_pointer_is_a_candidate),
		TEST(sample_in_the_trampoline_is_passed),
		TEST(other_code_is_no_trampoline),
		TEST(trampoline_that_cannot_be_read_is_a_caller),
		TEST(segment_of_32_bit_code_ends_the_walk),
		TEST(made_up_pc_ends_the_walk),
		TEST(made_up_pc_in_no_mapping_is_unchecked),
		TEST(made_up_stack_pointers_end_the_walk),
		TEST(signal_frame_in_a_hole_is_not_followed),
		TEST(signal_frames_in_a_circle_end_with_depth),
		TEST(signal_frames_need_no_mapping_table),
		TEST(ordinary_frames_cost_no_reads_of_code),
	};

	return cmocka_run_group_tests_name("signal_x86", tests, NULL, NULL);
}
