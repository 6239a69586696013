// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The interrupted frame: what the instruction at pc proves of the word that is the caller, and what
 * is only a candidate. Bytes as GCC 12, clang 14 and ld emit them.
 */
#include "thread_x86.h"

#define FP (STACK + 0x8000)
#define SP (FP - 64)
#define CALLER RA(50) /* the word at [sp] */
#define CALLER8 RA(60) /* the word at [sp + 8] */

struct code {
	const char *what;
	u8 bytes[16];
	u32 how; /* RPROF_HOW_PC: nothing is proven */
};

static const struct code proofs[] = {
	{ "endbr64", { 0xf3, 0x0f, 0x1e, 0xfa }, RPROF_HOW_SP },
	{ "push %rbp; mov %rsp,%rbp", { 0x55, 0x48, 0x89, 0xe5 }, RPROF_HOW_SP },
	{ "push %rbp; mov %rsp,%rbp (8b)", { 0x55, 0x48, 0x8b, 0xec }, RPROF_HOW_SP },
	{ "mov %rsp,%rbp", { 0x48, 0x89, 0xe5, 0x41 }, RPROF_HOW_SP8 },
	{ "mov %rsp,%rbp (8b)", { 0x48, 0x8b, 0xec, 0x41 }, RPROF_HOW_SP8 },
	{ "ret", { 0xc3, 0x66, 0x0f, 0x1f }, RPROF_HOW_SP },
	{ "ret $8", { 0xc2, 0x08, 0x00 }, RPROF_HOW_SP },
	{ "rep ret", { 0xf3, 0xc3 }, RPROF_HOW_SP },
	{ "leave", { 0xc9, 0xc3 }, RPROF_HOW_CHAIN },
	{ "jmp *x(%rip)", { 0xff, 0x25, 1, 2, 3, 4 }, RPROF_HOW_SP },
	{ "bnd jmp *x(%rip)", { 0xf2, 0xff, 0x25, 1, 2, 3, 4 }, RPROF_HOW_SP },
	{ "push n; jmp PLT0", { 0x68, 1, 0, 0, 0, 0xe9, 1, 2, 3, 4 }, RPROF_HOW_SP },
	{ "push n; bnd jmp PLT0", { 0x68, 1, 0, 0, 0, 0xf2, 0xe9, 1, 2, 3 }, RPROF_HOW_SP },
	{ "PLT0", { 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x25, 1, 2, 3, 4 }, RPROF_HOW_SP8 },
	{ "PLT0, bnd", { 0xff, 0x35, 1, 2, 3, 4, 0xf2, 0xff, 0x25, 1, 2, 3 }, RPROF_HOW_SP8 },
};

static const struct code no_proofs[] = {
	{ "zeros", { 0 }, RPROF_HOW_PC },
	{ "lone push %rbp", { 0x55, 0x53, 0x48, 0x83 }, RPROF_HOW_PC },
	{ "push %rbp; mov %rdi,%rbp", { 0x55, 0x48, 0x89, 0xfd }, RPROF_HOW_PC },
	{ "push %r15; push %rbp", { 0x41, 0x57, 0x55, 0x48, 0x89, 0xe5 }, RPROF_HOW_PC },
	{ "mov %rsp,%rbx", { 0x48, 0x89, 0xe3 }, RPROF_HOW_PC },
	{ "mov %esp,%ebp", { 0x89, 0xe5, 0x90 }, RPROF_HOW_PC },
	{ "switch: jmp *t(,%rax,8)", { 0xff, 0x24, 0xc5, 1, 2, 3, 4 }, RPROF_HOW_PC },
	{ "switch: notrack jmp *%rax", { 0x3e, 0xff, 0xe0 }, RPROF_HOW_PC },
	{ "jmp *8(%rax)", { 0xff, 0x60, 0x08 }, RPROF_HOW_PC },
	{ "jmp rel32", { 0xe9, 1, 2, 3, 4 }, RPROF_HOW_PC },
	{ "call *x(%rip)", { 0xff, 0x15, 1, 2, 3, 4 }, RPROF_HOW_PC },
	{ "push imm32; call", { 0x68, 1, 0, 0, 0, 0xe8, 1, 2, 3, 4 }, RPROF_HOW_PC },
	{ "push imm32; bnd call", { 0x68, 1, 0, 0, 0, 0xf2, 0xe8, 1, 2, 3 }, RPROF_HOW_PC },
	{ "push imm8; jmp", { 0x6a, 1, 0xe9, 1, 2, 3, 4 }, RPROF_HOW_PC },
	{ "push x(%rip); pop", { 0xff, 0x35, 1, 2, 3, 4, 0x58 }, RPROF_HOW_PC },
	{ "push x(%rip); call *x(%rip)", { 0xff, 0x35, 1, 2, 3, 4, 0xff, 0x15 }, RPROF_HOW_PC },
	{ "rep stos", { 0xf3, 0x48, 0xab }, RPROF_HOW_PC },
	{ "endbr32", { 0xf3, 0x0f, 0x1e, 0xfb }, RPROF_HOW_PC },
	{ "pop %rbp", { 0x5d, 0xc3 }, RPROF_HOW_PC },
	{ "far ret", { 0xcb, 0x90 }, RPROF_HOW_PC },
	{ "nop; ret", { 0x90, 0xc3 }, RPROF_HOW_PC },
};

static int setup(void **state)
{
	thread_setup(state);
	put_chain(FP, 2, 64);
	host_poke(SP, CALLER);
	host_poke(SP + 8, CALLER8);
	return 0;
}

static void assert_proven(const struct code *code, const struct seen *seen, u64 extra)
{
	u32 from = 1;

	print_message("# %s\n", code->what);
	if (code->how == RPROF_HOW_SP)
		assert_frame(seen, from++, CALLER, RPROF_HOW_SP | extra);
	if (code->how == RPROF_HOW_SP8)
		assert_frame(seen, from++, CALLER8, RPROF_HOW_SP8 | extra);
	assert_chain(seen, from, 2, extra, RPROF_STOP_END);
}

#define FOR_EACH(code, table)                                                                      \
	for (const struct code *code = table; code < table + sizeof(table) / sizeof(*table); code++)

static void instruction_at_pc_proves_the_caller(void **state)
{
	FOR_EACH(code, proofs)
	{
		struct seen seen;

		host_poke_bytes(PC, code->bytes, sizeof(code->bytes));
		seen = sample_at(FP);
		assert_proven(code, &seen, 0);
	}
}

static void proof_needs_no_mapping_table(void **state)
{
	thread_no_table();
	FOR_EACH(code, proofs)
	{
		struct seen seen;

		host_poke_bytes(PC, code->bytes, sizeof(code->bytes));
		seen = sample_at(FP);
		assert_proven(code, &seen, RPROF_NATIVE_UNCHECKED);
	}
}

/* What the instruction says is so; that the word is no code says that the bytes are not code. */
static void proven_word_outside_executable_memory_is_left_out(void **state)
{
	host_poke(SP, DATA);
	host_poke(SP + 8, STACK);
	FOR_EACH(code, proofs)
	{
		struct seen seen;

		host_poke_bytes(PC, code->bytes, sizeof(code->bytes));
		seen = sample_at(FP);
		assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
	}
}

/* It may have been mapped since the table was written, as that of a callback from a new library. */
static void proven_word_in_no_known_mapping_is_kept_unchecked(void **state)
{
	host_poke(SP, TEXT_END);
	host_poke(SP + 8, TEXT_END + 8);
	FOR_EACH(code, proofs)
	{
		struct seen seen;

		if (code->how == RPROF_HOW_CHAIN)
			continue;
		print_message("# %s\n", code->what);
		host_poke_bytes(PC, code->bytes, sizeof(code->bytes));
		seen = sample_at(FP);
		assert_frame(&seen, 1, code->how == RPROF_HOW_SP ? TEXT_END : TEXT_END + 8,
			     code->how | RPROF_NATIVE_UNCHECKED);
		assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);
	}
}

static void other_instructions_prove_nothing(void **state)
{
	FOR_EACH(code, no_proofs)
	{
		struct seen seen;

		print_message("# %s\n", code->what);
		host_poke_bytes(PC, code->bytes, sizeof(code->bytes));
		seen = sample_at(FP);
		assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
		assert_frame(&seen, 2, CALLER8, RPROF_HOW_WORD_SP8);
		assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
	}
}

static void candidates_must_be_executable(void **state)
{
	struct seen seen;

	host_poke(SP, DATA + 8);
	seen = sample_at(FP);
	assert_frame(&seen, 1, CALLER8, RPROF_HOW_WORD_SP8);
	assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);

	host_poke(SP, CALLER);
	host_poke(SP + 8, STACK + 8);
	seen = sample_at(FP);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
	assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);

	/* What may have been mapped since is no candidate: nobody could check it. */
	host_poke(SP, 0);
	host_poke(SP + 8, TEXT_END);
	seen = sample_at(FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static void without_a_mapping_table_candidates_are_for_analysis_to_check(void **state)
{
	struct seen seen;

	thread_no_table();
	seen = sample_at(FP);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP | RPROF_NATIVE_UNCHECKED);
	assert_frame(&seen, 2, CALLER8, RPROF_HOW_WORD_SP8 | RPROF_NATIVE_UNCHECKED);
	assert_chain(&seen, 3, 2, RPROF_NATIVE_UNCHECKED, RPROF_STOP_END);
}

static void code_that_cannot_be_read_proves_nothing(void **state)
{
	struct seen seen = sample_user(LIB + 0x100, SP, FP);

	assert_frame(&seen, 0, LIB + 0x100, RPROF_HOW_PC);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
	assert_frame(&seen, 2, CALLER8, RPROF_HOW_WORD_SP8);
	assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
}

/* A ret, and then nothing readable within 16 bytes: as good as no code. */
static void code_at_the_end_of_what_can_be_read_is_no_fault(void **state)
{
	static const u8 ret = 0xc3;
	const u64 pc = TEXT + HOST_PAGE - 1;
	struct seen seen;

	host_poke_bytes(pc, &ret, 1);
	seen = sample_user(pc, SP, FP);
	assert_int_equal(seen.stop, RPROF_STOP_END);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
	assert_frame(&seen, seen.n - 1, RA(1), RPROF_HOW_CHAIN);
}

static void code_of_the_last_sample_proves_nothing(void **state)
{
	static const u8 leave = 0xc9;
	struct seen seen;

	host_poke_bytes(PC, &leave, 1);
	sample_at(FP);
	seen = sample_user(LIB + 0x100, SP, FP);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
}

static void unaligned_sp_is_not_read(void **state)
{
	static const u8 ret = 0xc3;
	struct seen seen;

	host_poke_bytes(PC, &ret, 1);
	seen = sample_user(PC, SP + 4, FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static void words_that_cannot_be_read_are_left_out(void **state)
{
	static const u8 ret = 0xc3;
	struct seen seen;

	host_user_hole(FP - HOST_PAGE);
	seen = sample_user(PC, FP - HOST_PAGE, FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
	host_poke_bytes(PC, &ret, 1);
	seen = sample_user(PC, FP - HOST_PAGE, FP);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

/* [sp] is the last word before a page that is not there, [sp + 8] the first in it. */
static void second_word_may_lie_in_a_hole(void **state)
{
	struct seen seen;

	host_poke(FP - 8, CALLER);
	host_user_hole(FP);
	seen = sample_user(PC, FP - 8, FP + HOST_PAGE);
	assert_frame(&seen, 1, CALLER, RPROF_HOW_WORD_SP);
	assert_int_equal(seen.native[seen.n - 1].flags & RPROF_NATIVE_HOW, RPROF_HOW_WORD_SP);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(instruction_at_pc_proves_the_caller),
		TEST(proof_needs_no_mapping_table),
		TEST(proven_word_outside_executable_memory_is_left_out),
		TEST(proven_word_in_no_known_mapping_is_kept_unchecked),
		TEST(other_instructions_prove_nothing),
		TEST(candidates_must_be_executable),
		TEST(without_a_mapping_table_candidates_are_for_analysis_to_check),
		TEST(code_that_cannot_be_read_proves_nothing),
		TEST(code_at_the_end_of_what_can_be_read_is_no_fault),
		TEST(code_of_the_last_sample_proves_nothing),
		TEST(unaligned_sp_is_not_read),
		TEST(words_that_cannot_be_read_are_left_out),
		TEST(second_word_may_lie_in_a_hole),
	};

	return cmocka_run_group_tests_name("interrupted_x86", tests, NULL, NULL);
}
