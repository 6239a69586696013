// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The interrupted frame on s390x: what the code around pc proves of r14 and of the back chain, and
 * what is only a candidate. Bytes as GCC 12 and clang 14 emit them with -mbackchain.
 */
#include "thread_s390.h"

#include <string.h>

#define UP (STACK + 0x8000)	/* r15 of the caller, */
#define SP (UP - 176)		/* of the interrupted function when its frame is allocated */
#define BOGUS (UP + 0x1000)	/* what stands at [SP] before it is a chain: leads to wrong frames */
#define MINE RA(50)		/* return address of the interrupted function */
#define OTHER RA(60)		/* of a call that it made */

enum {
	/* Words of the interrupted frame. */
	RA_PROVEN = 1,
	WORD_RA = 2,
	WORD_SLOT = 4,
	/* How the walk goes on. */
	AT_SP = 0,
	BY_REG = 16,
	UNLINKED = 32,
};

/* "|" in the code: pc. */
struct state {
	const char *what;
	const char *code;
	u64 sp, r14;
	u32 reg;	/* another register, and its value */
	u64 value;
	u32 want;
};

#define STMG "eb bf f0 58 00 24 " /* stmg %r11,%r15,88(%r15) */
#define LGR "b9 04 00 ef " /* lgr %r14,%r15 */
#define LAY "e3 f0 ff 50 ff 71 " /* lay %r15,-176(%r15) */
#define STG "e3 e0 f0 00 00 24 " /* stg %r14,0(%r15) */
#define LMG "eb bf f1 08 00 04 " /* lmg %r11,%r15,264(%r15) */
#define BR "07 fe " /* br %r14 */
#define CALL "c0 e5 00 00 00 00 " /* brasl %r14 */
#define LG11 "e3 b0 f0 a8 00 04 " /* lg %r11,168(%r15) */

static const struct state prologue[] = {
	{ "at stmg", "|" STMG LGR LAY STG, UP, MINE, 0, 0, RA_PROVEN },
	{ "at stmg of r14 alone", "| eb ef f0 70 00 24 " LGR, UP, MINE, 0, 0, RA_PROVEN },
	{ "at stmg, packed stack", "| eb bf f0 70 00 24 " LGR, UP, MINE, 0, 0, RA_PROVEN },
	{ "after stmg", STMG "|" LGR LAY STG, UP, MINE, 0, 0, WORD_SLOT },
	{ "after stmg, clang", STMG "| b9 04 00 1f a7 fb ff 50 e3 10 f0 00 00 24", UP, MINE, 0, 0,
	  WORD_RA | WORD_SLOT },
	{ "after lgr", STMG LGR "|" LAY STG, UP, UP, 0, 0, WORD_SLOT },
	{ "after lgr, other code between", LGR "| b9 04 00 b2 " LAY "41 10 f0 b8 " STG, UP, UP, 0,
	  0, WORD_SLOT },
	{ "after lgr, clang", STMG "b9 04 00 1f | a7 fb ff 50 e3 10 f0 00 00 24", UP, MINE, 1, UP,
	  WORD_RA | WORD_SLOT },
	{ "after lay", LGR LAY "|" STG, SP, UP, 0, 0, BY_REG },
	{ "after lay, other code between",
	  LAY "| 41 10 f0 b8 b9 04 00 b2 c0 10 00 00 00 10 e3 10 f0 b0 00 24 a7 59 00 04 " STG, SP,
	  UP, 0, 0, BY_REG },
	{ "after aghi, clang", "a7 fb ff 50 | 41 00 f0 b8 e3 10 f0 00 00 24", SP, MINE, 1, UP,
	  BY_REG | WORD_RA },
	{ "chain stored", LAY STG "|" CALL, SP, UP, 0, 0, AT_SP },
};

static const struct state epilogue[] = {
	{ "at lmg", "|" LMG BR, SP, OTHER, 0, 0, AT_SP },
	{ "at br", "|" BR, UP, MINE, 0, 0, RA_PROVEN },
	{ "after lmg, at br", LMG "|" BR, UP, MINE, 0, 0, RA_PROVEN },
	{ "at a conditional br", "| 07 8e " LG11, UP, MINE, 0, 0, RA_PROVEN },
	{ "after lmg, tail call", LMG "| c0 f4 00 00 00 10", UP, MINE, 0, 0, RA_PROVEN },
	{ "after lmg by r11, tail call", "eb bf b1 08 00 04 | c0 f4 00 00 00 10", UP, MINE, 0, 0,
	  RA_PROVEN },
	{ "nopr", "| 07 07 07 0e 00 00", UP, MINE, 0, 0, WORD_RA },
	{ "after lmg of others", "eb 6d f0 30 00 04 | b9 04 00 12", UP, MINE, 0, 0, WORD_RA },
};

static const struct state body[] = {
	{ "a leaf", "| e3 10 10 00 00 04 b9 08 00 21 " BR, UP, MINE, 0, 0, WORD_RA },
	{ "nothing known", "| 00 00", UP, MINE, 0, 0, WORD_RA },
	{ "before a call", "|" LG11 CALL, SP, OTHER, 0, 0, AT_SP },
	{ "before basr", "|" LG11 "0d e1", SP, OTHER, 0, 0, AT_SP },
	{ "before another use of r14", "|" LG11 "e3 e0 b0 00 00 04", SP, OTHER, 0, 0, WORD_SLOT },
	{ "a branch before a call", "| a7 84 00 10 " CALL, SP, MINE, 0, 0, WORD_RA },
	{ "r14 stored before a call", "| e3 e0 f0 70 00 24 " CALL, UP, MINE, 0, 0, WORD_RA },
	{ "r14 copied before a call", "| b9 04 00 1e " CALL, UP, MINE, 0, 0, WORD_RA },
	{ "svc, another one", "| 0a 04 " BR, UP, MINE, 0, 0, WORD_RA },
	{ "an old word in r14", "| 00 00", SP, OTHER, 0, 0, WORD_RA | WORD_SLOT },
	{ "data in r14", "| 00 00", SP, DATA, 0, 0, WORD_SLOT },
};

/* GCC's lg %r1,0(%r15); lgr %r11,%r15; sgr %r15,%r2; stg %r1,0(%r15), clang's with r0 and r1. */
static const struct state alloca_states[] = {
	{ "before lg", "| e3 10 f0 00 00 04 b9 09 00 f2 e3 10 f0 00 00 24", SP, 8, 0, 0,
	  WORD_SLOT },
	{ "after lg", "e3 10 f0 00 00 04 | b9 04 00 bf b9 09 00 f2 e3 10 f0 00 00 24", SP, 8, 1, UP,
	  BY_REG },
	{ "after sgr", "b9 09 00 f2 | e3 10 f0 00 00 24", SP, 8, 1, UP, BY_REG },
	{ "after sgr, clang", "b9 04 00 f1 | b9 04 00 21 e3 00 f0 00 00 24", SP, 8, 0, UP, BY_REG },
	/* The branch may go elsewhere, so the register is no proof, but a contradiction is one. */
	{ "behind a branch", "| b9 02 00 22 a7 74 00 10 e3 30 f0 00 00 24", SP, 8, 3, UP,
	  WORD_SLOT | UNLINKED },
	{ "behind a branch, changed", "| a7 74 00 10 e3 30 10 00 00 04 e3 30 f0 00 00 24", SP, 8, 3,
	  BOGUS, WORD_SLOT },
};

#define CLASH_LAY "e3 f0 f0 00 ff 71 " /* lay %r15,-4096(%r15) */
#define CLASH_CG "e3 00 ff f8 00 20 " /* cg %r0,4088(%r15) */
/* big() of 100,000 bytes: what comes after the loop, -100,160 in all; r14 is where the loop ends */
#define GCC_REST "b9 04 00 fe e3 f0 f8 c0 ff 71 e3 00 f7 38 00 20 e3 e0 f7 40 18 71 " STG
#define CLANG_LOOP "a7 fb f0 00 " CLASH_CG "ec f0 ff fb 20 65 "
#define CLANG_REST "a7 fb f8 b0 e3 00 f7 48 00 20 b9 04 00 d2 41 20 f0 b0 e3 10 f0 00 00 24"

static const struct state stack_clash[] = {
	{ "two pages, at the first probe",
	  CLASH_LAY "|" CLASH_CG "e3 f0 fb d8 ff 71 e3 00 f4 20 00 20 " STG, SP, UP, 0, 0, BY_REG },
	{ "two pages, at the second probe", "e3 f0 fb d8 ff 71 | e3 00 f4 20 00 20 " STG, SP, UP, 0,
	  0, BY_REG },
	{ "loop, at its head", "|" CLASH_LAY CLASH_CG "b9 21 00 fe a7 24 ff f8 " GCC_REST, SP,
	  UP - 98304, 0, 0, BY_REG },
	{ "loop, at the probe", CLASH_LAY "|" CLASH_CG "b9 21 00 fe a7 24 ff f8 " GCC_REST, SP,
	  UP - 98304, 0, 0, BY_REG },
	{ "loop, at the branch", CLASH_LAY CLASH_CG "b9 21 00 fe | a7 24 ff f8 " GCC_REST, SP,
	  UP - 98304, 0, 0, BY_REG },
	{ "behind the loop", "a7 24 ff f8 |" GCC_REST, SP, UP - 98304, 0, 0, BY_REG },
	{ "loop, clang", "|" CLANG_LOOP CLANG_REST, SP, MINE, 1, UP, BY_REG | WORD_RA },
	{ "loop, clang, at the branch", "a7 fb f0 00 " CLASH_CG "| ec f0 ff fb 20 65 " CLANG_REST,
	  SP, MINE, 1, UP, BY_REG | WORD_RA },
	{ "another loop", "| b9 04 00 21 b9 08 00 21 a7 24 ff fc " STG, SP, UP, 0, 0, WORD_SLOT },
	/* GCC's alloca: the store is behind branches that may not be taken. */
	{ "alloca, in its loop",
	  CLASH_LAY "|" CLASH_CG "b9 20 00 f1 a7 74 ff f8 ec 22 34 bf 00 55 b9 09 00 f2 "
		    "b9 02 00 22 a7 74 00 13 e3 30 f0 00 00 24",
	  SP, 8, 3, UP, WORD_SLOT | UNLINKED },
	{ "alloca, the last probe", "| e3 02 ff f8 ff 20 a7 f4 ff ec", SP, 8, 3, UP, UNLINKED },
	{ "a comparison", "| e3 00 f0 a8 00 20 a7 74 00 10", SP, 8, 0, 0, WORD_SLOT },
};

/* Leaves that have a frame: GCC keeps r15 in f0, and r14 is never saved. */
static const struct state leaf_with_frame[] = {
	{ "at ldgr", "| b3 c1 00 0f " LAY "60 00 f0 00", UP, MINE, 0, 0, WORD_RA },
	{ "at lay", "b3 c1 00 0f |" LAY "60 00 f0 00", UP, MINE, 0, 0, WORD_RA },
	{ "at std", LAY "| 60 00 f0 00", SP, MINE, 0, 0, WORD_RA | UNLINKED },
	{ "at lgdr", "| b3 cd 00 f0 " BR, SP, MINE, 0, 0, WORD_RA },
	{ "std behind a branch", "| a7 84 00 10 60 00 f0 00", SP, MINE, 0, 0, WORD_RA },
};

/* The entries of the vDSO, outside of it: aghi; stg %r14,160(%r15); xc 0(8,%r15),0(%r15); brasl. */
static const struct state wrapper[] = {
	{ "at aghi", "| a7 fb ff 50 e3 e0 f0 a0 00 24 d7 07 f0 00 f0 00 " CALL, UP, MINE, 0, 0,
	  WORD_RA },
	{ "after aghi", "a7 fb ff 50 | e3 e0 f0 a0 00 24 d7 07 f0 00 f0 00 " CALL, SP, MINE, 0, 0,
	  WORD_RA | UNLINKED },
	{ "at xc", "| d7 07 f0 00 f0 00 " CALL, SP, MINE, 0, 0, WORD_RA | UNLINKED },
};

static u32 poke_code(u64 pc, const char *text)
{
	u8 bytes[64];
	u32 n = 0, at = 0;

	for (const char *p = text; *p;) {
		char *end;

		if (*p == ' ' || *p == '|') {
			at = *p == '|' ? n : at;
			p++;
			continue;
		}
		assert_true(n < sizeof(bytes));
		bytes[n++] = strtoul(p, &end, 16);
		p = end;
	}
	host_poke_bytes(pc - at, bytes, n);
	return n;
}

/* The stack as it is in this state: below UP nothing is a frame unless the chain is stored. */
static void put_stack(const struct state *t)
{
	put_chain(UP, 2, FRAME);
	host_poke(UP + 112, t->sp == UP && !(t->want & WORD_SLOT) ? OTHER : MINE);
	put_chain(BOGUS, 2, FRAME);
	host_poke(BOGUS + 112, RA(99));
	host_poke(SP, t->want & (BY_REG | UNLINKED) || t->value == BOGUS ? BOGUS : UP);
	if (t->value == BOGUS)
		host_poke(SP, UP);
	host_poke(SP + 112, OTHER);
}

static struct seen sample_state(const struct state *t)
{
	struct bpf_perf_event_data ctx = user_regs(PC, t->sp);

	ctx.regs.words[W_R0 + t->reg] = t->value;
	ctx.regs.words[W_R14] = t->r14;
	ctx.regs.words[W_PSW_ADDR] = PC;
	rprof_clock(&ctx);
	return last_seen();
}

static void assert_state(const struct state *t)
{
	struct seen seen;
	u32 at = 1;

	print_message("# %s\n", t->what);
	thread_setup(NULL);
	poke_code(PC, t->code);
	put_stack(t);
	seen = sample_state(t);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
	if (t->want & (RA_PROVEN | WORD_RA))
		assert_frame(&seen, at++, t->r14,
			     t->want & RA_PROVEN ? RPROF_HOW_RA : RPROF_HOW_WORD_RA);
	if (t->want & WORD_SLOT)
		assert_frame(&seen, at++, t->sp == UP ? MINE : OTHER, RPROF_HOW_WORD_SLOT);
	if (t->want & UNLINKED) {
		assert_int_equal(seen.n, at);
		assert_int_equal(seen.stop, RPROF_STOP_UNLINKED);
		return;
	}
	if (t->sp != UP)
		assert_frame(&seen, at++, MINE,
			     t->want & BY_REG ? RPROF_HOW_CHAIN_REG : RPROF_HOW_CHAIN);
	assert_chain(&seen, at, 2, 0, RPROF_STOP_END);
}

#define STATES(table)                                                                              \
	for (u32 i = 0; i < sizeof(table) / sizeof(table[0]); i++)                                 \
	assert_state(&table[i])

static void prologue_is_known_at_each_instruction(void **state)
{
	STATES(prologue);
}

static void epilogue_is_known_at_each_instruction(void **state)
{
	STATES(epilogue);
}

static void r14_is_a_candidate_unless_the_code_overwrites_it(void **state)
{
	STATES(body);
}

static void alloca_moves_the_chain_in_a_register(void **state)
{
	STATES(alloca_states);
}

static void stack_clash_loops_are_known(void **state)
{
	STATES(stack_clash);
}

static void leaf_with_a_frame_has_its_chain_and_r14(void **state)
{
	STATES(leaf_with_frame);
}

static void entry_that_stores_no_chain_is_unlinked(void **state)
{
	STATES(wrapper);
}

/* Packed stack: chain at [sp + 152], r14 at [caller's sp + 136]. Only the store of it tells. */
static void packed_stack_is_walked_where_the_code_says_so(void **state)
{
	struct seen seen;

	for (u32 i = 0; i < 3; i++) {
		host_poke(UP + i * FRAME + 152, i < 2 ? UP + (i + 1) * FRAME : 0);
		host_poke(UP + i * FRAME + 136, i ? RA(i - 1) : MINE);
	}
	poke_code(PC, "e3 f0 ff d0 ff 71 | e3 10 f0 98 00 24"); /* stg %r1,152(%r15) */
	seen = sample_state(&(struct state){ .sp = UP - 48, .r14 = 8, .reg = 1, .value = UP });
	assert_frame(&seen, 1, MINE, RPROF_HOW_CHAIN_REG);
	assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);
	/* Not allocated yet. */
	poke_code(PC, "| e3 f0 ff d0 ff 71 e3 10 f0 98 00 24");
	seen = sample_state(&(struct state){ .sp = UP, .r14 = 8, .reg = 1, .value = UP });
	assert_frame(&seen, 1, MINE, RPROF_HOW_WORD_SLOT);
	assert_chain(&seen, 2, 2, 0, RPROF_STOP_END);
}

static void packed_stack_in_a_hole_has_no_next_frame(void **state)
{
	struct seen seen;

	host_user_hole(UP + 0x1000);
	poke_code(PC, "| e3 10 f0 98 00 24");
	seen = sample_state(
		&(struct state){ .sp = UP - 48, .r14 = 8, .reg = 1, .value = UP + 0x1000 });
	assert_int_equal(seen.stop, RPROF_STOP_FAULT);
	assert_int_equal(seen.n, 1);
}

/* What the code says is the chain must still be one. */
static void chain_in_a_register_is_checked(void **state)
{
	static const struct {
		u64 value;
		u32 stop;
	} cases[] = {
		{ UP + 4, RPROF_STOP_UNALIGNED },
		{ SP - 8, RPROF_STOP_DOWN },
		{ 0, RPROF_STOP_END },
		{ STACK_END - 112, RPROF_STOP_BOUNDS },
		{ ~7ULL, RPROF_STOP_BOUNDS },
	};

	poke_code(PC, "| e3 10 f0 00 00 24");
	host_poke(SP, UP);
	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct seen seen = sample_state(
			&(struct state){ .sp = SP, .r14 = 8, .reg = 1, .value = cases[i].value });

		assert_int_equal(seen.n, 1);
		assert_int_equal(seen.stop, cases[i].stop);
	}
}

static void fault_at_a_chain_in_a_register_has_no_link(void **state)
{
	struct seen seen;

	host_user_hole(UP + 0x1000);
	poke_code(PC, "| e3 10 f0 00 00 24");
	seen = sample_state(&(struct state){ .sp = SP, .r14 = 8, .reg = 1, .value = UP + 0x1000 });
	assert_int_equal(seen.n, 2);
	assert_next(&seen, UP + 0x1000, 0);
}

/* The frame of a leaf: r14 stands for the first frame by the chain, whatever was left above it. */
static void old_word_that_is_no_code_does_not_end_the_walk(void **state)
{
	struct seen seen;

	put_chain(UP, 2, FRAME);
	host_poke(UP + 112, DATA);
	host_poke(SP, UP);
	seen = sample_state(&(struct state){ .sp = SP, .r14 = MINE });
	assert_frame(&seen, 1, MINE, RPROF_HOW_WORD_RA);
	assert_frame(&seen, 2, 0, RPROF_HOW_CHAIN);
	assert_chain(&seen, 3, 2, 0, RPROF_STOP_END);
	/* Without r14 it does. */
	seen = sample_state(&(struct state){ .sp = SP, .r14 = 8 });
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.stop, RPROF_STOP_NOT_EXEC);
}

static void code_at_either_end_of_a_page_is_read(void **state)
{
	struct bpf_perf_event_data ctx;
	struct seen seen;

	/* Nothing is readable before TEXT, nor behind its first page. */
	for (u32 i = 0; i < 2; i++) {
		const u64 pc = i ? TEXT + HOST_PAGE - 2 : TEXT;

		poke_code(pc, "| 07 fe");
		put_chain(UP, 2, FRAME);
		ctx = user_regs(pc, UP);
		ctx.regs.words[W_R14] = MINE;
		rprof_clock(&ctx);
		seen = last_seen();
		assert_frame(&seen, 1, MINE, RPROF_HOW_RA);
	}
	/* Half an instruction says nothing. */
	poke_code(TEXT + HOST_PAGE - 4, "| e3 10 f0 00");
	ctx = user_regs(TEXT + HOST_PAGE - 4, UP);
	rprof_clock(&ctx);
	seen = last_seen();
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

/* Random code, of instructions that are known and others: the sanitizers look, and the rules. */
static void any_code_is_taken_apart(void **state)
{
	static const u8 first[] = { 0x18, 0x41, 0x58, 0x60, 0xa7, 0xb9, 0xb3, 0xc0,
				    0xc2, 0xc4, 0xe3, 0xe5, 0xeb, 0xec, 0xd7, 0x07 };
	u64 random = 88172645463325252ULL;
	u32 links = 0;

	for (u32 i = 0; i < 4000; i++) {
		struct bpf_perf_event_data ctx = user_regs(PC, SP);
		u8 bytes[64];

		host_forget();
		host_user_region(TEXT, HOST_PAGE);
		host_user_region(SP & ~(u64)(HOST_PAGE - 1), 3 * HOST_PAGE);
		put_chain(UP, 2, FRAME);
		host_poke(SP, UP);
		for (u32 k = 0; k < sizeof(bytes); k++)
			bytes[k] = next_random(&random) >> 24;
		for (u32 k = 0; k + 6 < sizeof(bytes); k += 6)
			bytes[k] = first[next_random(&random) >> 60];
		host_poke_bytes(PC - 16, bytes, sizeof(bytes));
		if (i & 1)
			poke_code(PC + i % 3 * 6, "e3 e0 f0 00 00 24");
		for (u32 k = 0; k < 15; k++)
			ctx.regs.words[W_R0 + k] = SP + (next_random(&random) >> 52 & ~7u);
		rprof_clock(&ctx);
		links += host_scratch(0)->at_pc.link != LINK_AT_SP;
		assert_null(ring_wrong());
		host_delete(&rprof_seen, host_scratch(0)->stack.stack);
	}
	print_message("# %u states in which the chain is not at [r15]\n", links);
	assert_true(links > 500);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, thread_setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(prologue_is_known_at_each_instruction),
		TEST(epilogue_is_known_at_each_instruction),
		TEST(r14_is_a_candidate_unless_the_code_overwrites_it),
		TEST(alloca_moves_the_chain_in_a_register),
		TEST(stack_clash_loops_are_known),
		TEST(leaf_with_a_frame_has_its_chain_and_r14),
		TEST(entry_that_stores_no_chain_is_unlinked),
		TEST(packed_stack_is_walked_where_the_code_says_so),
		TEST(packed_stack_in_a_hole_has_no_next_frame),
		TEST(chain_in_a_register_is_checked),
		TEST(fault_at_a_chain_in_a_register_has_no_link),
		TEST(old_word_that_is_no_code_does_not_end_the_walk),
		TEST(code_at_either_end_of_a_page_is_read),
		TEST(any_code_is_taken_apart),
	};

	return cmocka_run_group_tests_name("interrupted_s390", tests, NULL, NULL);
}
