// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "marks.h"
#include "rprof/stop.h"
#include "rprof/record.h"

/* How the frame was found, what its rule says, CFA = sp + offset. */
struct given {
	unsigned int how;
	enum cfi_state state;
	__s64 offset;
	bool not_executable;
	bool signal;
	bool omits;	/* its file has few functions with frame pointers */
	unsigned int facts;	/* of a machine with a back chain: */
};

enum { REG = 1, SLOT = 2, PACKED = 4, WRAPPER = 8 };

#define PC(...)                                                                                    \
	{                                                                                          \
		.how = RPROF_HOW_PC, .state = __VA_ARGS__                                          \
	}
#define CHAIN(...)                                                                                 \
	{                                                                                          \
		.how = RPROF_HOW_CHAIN, .state = __VA_ARGS__                                       \
	}
#define SIGNAL(...)                                                                                \
	{                                                                                          \
		.how = RPROF_HOW_SIGNAL, .state = __VA_ARGS__                                      \
	}
#define SP(...)                                                                                    \
	{                                                                                          \
		.how = RPROF_HOW_SP, .state = __VA_ARGS__                                          \
	}
#define SP8(...)                                                                                   \
	{                                                                                          \
		.how = RPROF_HOW_SP8, .state = __VA_ARGS__                                         \
	}
#define WORD_SP(...)                                                                               \
	{                                                                                          \
		.how = RPROF_HOW_WORD_SP, .state = __VA_ARGS__                                     \
	}
#define WORD_SP8(...)                                                                              \
	{                                                                                          \
		.how = RPROF_HOW_WORD_SP8, .state = __VA_ARGS__                                    \
	}

#define UP CFI_FP_UP
#define UNTOUCHED CFI_FP_UNTOUCHED
#define LOST CFI_FP_LOST
#define UNKNOWN CFI_UNKNOWN
#define END CFI_END

/*
 * The judgement as text, leaf first: the frame's index if it is shown, then "?" caller unknown,
 * "!N" no frame pointer in frame N's code, "-N" no unwind rule for it, "~" signal frame, "+" not linked
 * yet, "#STOP".
 */
static const char *judge(const struct given *given, size_t n, unsigned int stop)
{
	static char text[256];
	struct marks_frame frames[16];
	struct marks_verdict v[16];
	size_t at = 0;

	assert_true(n <= 16);
	for (size_t i = 0; i < n; i++) {
		bool is_sp = given[i].state == UNTOUCHED || given[i].state == LOST;

		frames[i] = (struct marks_frame){
			.how = given[i].how,
			.executable = !given[i].not_executable,
			.rule = { .state = given[i].state,
				  .ra = given[i].facts & REG ? CFI_RA_REGISTER : CFI_RA_STACK,
				  .packed = given[i].facts & PACKED,
				  .wrapper = given[i].facts & WRAPPER,
				  .cfa_is_sp = is_sp && given[i].offset,
				  .cfa_offset = given[i].offset,
				  .ra_at_sp = given[i].offset - (given[i].facts & SLOT ? 48 : 8),
				  .signal_frame = given[i].signal,
				  .keeps_fp = !given[i].omits },
		};
	}
	memset(v, 0xff, sizeof(v));
	marks_judge(frames, n, stop, v);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		if (!v[i].shown)
			continue;
		at += (size_t)sprintf(text + at, "%s%zu", at ? " " : "", i);
		if (v[i].above == MARK_CALLER_UNKNOWN)
			at += (size_t)sprintf(text + at, " ?");
		else if (v[i].above == MARK_NO_FRAME_POINTER)
			at += (size_t)sprintf(text + at, " !%zu", v[i].blame);
		else if (v[i].above == MARK_NO_RULE)
			at += (size_t)sprintf(text + at, " -%zu", v[i].blame);
		else if (v[i].above == MARK_SIGNAL_FRAME)
			at += (size_t)sprintf(text + at, " ~");
		else if (v[i].above == MARK_NOT_LINKED)
			at += (size_t)sprintf(text + at, " +");
		else if (v[i].above == MARK_STOP)
			at += (size_t)sprintf(text + at, " #%u", v[i].stop);
		else
			assert_int_equal(v[i].above, MARK_NONE);
	}
	return text;
}

#define JUDGED(want, stop, ...)                                                                    \
	do {                                                                                       \
		static const struct given g[] = { __VA_ARGS__ };                                   \
		assert_string_equal(judge(g, sizeof(g) / sizeof(g[0]), RPROF_STOP_##stop), want);  \
	} while (0)

static void frames_that_are_up_are_proven(void **state)
{
	JUDGED("0 1 2", END, PC(UP), CHAIN(UP), CHAIN(UP));
	JUDGED("0 1 2", END, PC(UP), CHAIN(UP), CHAIN(END));
	JUDGED("0", END, PC(UP));
	JUDGED("0", END, PC(END));
}

static void leaf_without_frame_misses_its_caller(void **state)
{
	JUDGED("0 ? 1", END, PC(UNTOUCHED, 8), CHAIN(UP));
	/* The chain's end is the end of a chain that its caller is not on. */
	JUDGED("0 ?", END, PC(UNTOUCHED, 8));
}

/* Whatever the register holds there, it need not be a frame. */
static void nothing_stands_above_code_without_a_rule(void **state)
{
	JUDGED("0 -0", END, PC(UNKNOWN), CHAIN(UP), CHAIN(UP));
	JUDGED("0 -0", END, PC(UNKNOWN));
	JUDGED("0 1 -1", END, PC(UP), CHAIN(UNKNOWN), CHAIN(UP));
	JUDGED("0 ? 1 -1", END, PC(UNTOUCHED, 8), CHAIN(UNKNOWN), CHAIN(UP));
	/* Also a walk that went wrong did so because of that. */
	JUDGED("0 -0", BOUNDS, PC(UNKNOWN));
	JUDGED("0 1 -1", UNALIGNED, PC(UP), CHAIN(UNKNOWN));
	JUDGED("0 1 -1", FAULT, PC(UP), CHAIN(UNKNOWN));
	/* The caller that the instruction proves stands, and nothing beyond it. */
	JUDGED("0 1 -0", END, PC(UNKNOWN), SP(UP), CHAIN(UP));
	JUDGED("0 1 -0", END, PC(UNKNOWN), SP8(UNTOUCHED, 8), CHAIN(UP));
	JUDGED("0 1 -0", END, PC(UNKNOWN), SP(UP));
	JUDGED("0 1", END, PC(UNKNOWN), SP(END), CHAIN(UP));
	JUDGED("0 -0", END, PC(UNKNOWN), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 -0", END, PC(UNKNOWN), SP(UP, 0, true), CHAIN(UP));
	/* With a rule that was an expression (a PLT) it is as for any other. */
	JUDGED("0 1 2", END, PC(UNTOUCHED, 16), WORD_SP8(UP), CHAIN(UP));
}

/* The unknown caller may have used the register for anything. */
static void nothing_stands_above_an_unknown_caller_in_a_file_without_frame_pointers(void **state)
{
	JUDGED("0 !0", END, PC(UNTOUCHED, 24, false, false, true), CHAIN(UP));
	JUDGED("0 !0", END, PC(UNTOUCHED, 24, false, false, true));
	JUDGED("0 !0", FAULT, PC(UNTOUCHED, 24, false, false, true));
	JUDGED("0 1 !1", END, PC(UP), CHAIN(UNTOUCHED, 32, false, false, true), CHAIN(UP));
	/* Known by a word: judged by its own rule. */
	JUDGED("0 1 2", END, PC(UNTOUCHED, 8, false, false, true),
	       WORD_SP(UP, 0, false, false, true), CHAIN(UP));
	JUDGED("0 1 !1", END, PC(UNTOUCHED, 8, false, false, true),
	       WORD_SP(UNTOUCHED, 32, false, false, true), CHAIN(UP));
	JUDGED("0 1 ? 2", END, PC(UNTOUCHED, 8, false, false, true), WORD_SP(UNTOUCHED, 32),
	       CHAIN(UP));
	/* A frame that is up is up. */
	JUDGED("0 1 2", END, PC(UP, 0, false, false, true), CHAIN(UP, 0, false, false, true),
	       CHAIN(UP));
}

static void word_is_the_caller_exactly_where_the_rule_says(void **state)
{
	JUDGED("0 1 3", END, PC(UNTOUCHED, 8), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 2 3", END, PC(UNTOUCHED, 16), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 1 2", END, PC(UNTOUCHED, 16), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 ? 2", END, PC(UNTOUCHED, 8), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 ? 3", END, PC(UNTOUCHED, 24), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 3", END, PC(UP, 16), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 ? 2", END, PC(UNTOUCHED, 8), WORD_SP(UP, 0, true), CHAIN(UP));
	/* Without a chain. */
	JUDGED("0 1", END, PC(UNTOUCHED, 8), WORD_SP(UP), WORD_SP8(UP));
}

static void instruction_proves_where_the_rule_agrees(void **state)
{
	JUDGED("0 1 2", END, PC(UNTOUCHED, 8), SP(UP), CHAIN(UP));
	JUDGED("0 1 2", END, PC(UNTOUCHED, 16), SP8(UP), CHAIN(UP));
	/* endbr64 at a landing pad: the frame is up. */
	JUDGED("0 2", END, PC(UP, 16), SP(UP), CHAIN(UP));
	/* A push in the middle of a function. */
	JUDGED("0 ? 2", END, PC(UNTOUCHED, 16), SP(UP), CHAIN(UP));
	JUDGED("0 ? 2", END, PC(UNTOUCHED, 48), SP8(UP), CHAIN(UP));
	JUDGED("0 !0", END, PC(LOST, 48), SP(UP), CHAIN(UP));
	JUDGED("0", END, PC(END), SP(UP), CHAIN(UP));
}

static void proven_caller_is_judged_by_its_own_rule(void **state)
{
	JUDGED("0 1 ? 2", END, PC(UNTOUCHED, 8), SP(UNTOUCHED, 32), CHAIN(UP));
	JUDGED("0 1 !1", END, PC(UNTOUCHED, 8), SP(LOST, 32), CHAIN(UP));
	JUDGED("0 1", END, PC(UNTOUCHED, 8), SP(END), CHAIN(UP));
	JUDGED("0 1 #3", FAULT, PC(UNTOUCHED, 8), SP(UP));
}

static void nothing_stands_above_a_lost_frame_pointer(void **state)
{
	JUDGED("0 !0", END, PC(LOST, 48), CHAIN(UP), CHAIN(UP));
	JUDGED("0 1 !1", END, PC(UP), CHAIN(LOST, 48), CHAIN(UP));
	JUDGED("0 1 !1", END, PC(UP), CHAIN(LOST, 48));
	/* The caller is still known where its return address is; its own chain is not. */
	JUDGED("0 1 !0", END, PC(LOST, 8), WORD_SP(UP), CHAIN(UP));
	JUDGED("0 2 !0", END, PC(LOST, 16), WORD_SP(UP), WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 1", END, PC(LOST, 8), WORD_SP(END), CHAIN(UP));
}

static void return_addresses_are_judged_like_the_leaf(void **state)
{
	JUDGED("0 1 ? 2 3", END, PC(UP), CHAIN(UNTOUCHED, 32), CHAIN(UP), CHAIN(UP));
	JUDGED("0 ? 1 ? 2 ? 3", END, PC(UNTOUCHED, 8), CHAIN(UNTOUCHED, 8), CHAIN(UNTOUCHED, 8),
	       CHAIN(UP));
	JUDGED("0 1", END, PC(UP), CHAIN(END), CHAIN(UP), CHAIN(UP));
}

static void nothing_stands_above_a_signal_frame(void **state)
{
	JUDGED("0 1 ~", END, PC(UP), CHAIN(UNKNOWN, 0, false, true), CHAIN(UP));
	JUDGED("0 1 ~", END, PC(UP), CHAIN(UNKNOWN, 0, false, true));
	JUDGED("0 1 ~", BOUNDS, PC(UP), CHAIN(UNKNOWN, 0, false, true));
	JUDGED("0 ~", END, PC(UNKNOWN, 0, false, true), SP(UP), CHAIN(UP));
}

/* A trampoline, found as @how says; musl's has no rule. */
#define TRAMPOLINE(how) how(UNKNOWN, 0, false, true)
#define BARE_TRAMPOLINE(how) how(UNKNOWN)

static void what_a_signal_interrupted_is_proven(void **state)
{
	JUDGED("0 1 2 3", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 1 2 3", END, PC(UP), BARE_TRAMPOLINE(CHAIN), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 1 2 3 4", END, PC(UP), CHAIN(UP), TRAMPOLINE(CHAIN), SIGNAL(UP), CHAIN(END));
	/* The sample hit the trampoline. */
	JUDGED("0 1 2", END, TRAMPOLINE(PC), SIGNAL(UP), CHAIN(UP));
	/* A signal in a handler. */
	JUDGED("0 1 2 3 4 5", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UP), TRAMPOLINE(CHAIN),
	       SIGNAL(UP), CHAIN(UP));
}

static void what_a_signal_interrupted_is_judged_like_the_leaf(void **state)
{
	JUDGED("0 1 2 ? 3", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNTOUCHED, 24), CHAIN(UP));
	JUDGED("0 1 2 3 5", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNTOUCHED, 8), WORD_SP(UP),
	       WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 1 2 4 5", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNTOUCHED, 16), WORD_SP(UP),
	       WORD_SP8(UP), CHAIN(UP));
	JUDGED("0 1 2 5", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UP, 16), WORD_SP(UP), WORD_SP8(UP),
	       CHAIN(UP));
	JUDGED("0 1 2 3 -2", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNKNOWN), SP(UP), CHAIN(UP));
	JUDGED("0 1 2 !2", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(LOST, 48), CHAIN(UP));
	JUDGED("0 1 2 -2", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNKNOWN), CHAIN(UP));
	JUDGED("0 1 2 -2", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNKNOWN));
	JUDGED("0 1 2", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(END), CHAIN(UP));
	JUDGED("0 1 2 #4", UNALIGNED, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UP));
	JUDGED("0 1 2 #5", DOWN, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNTOUCHED, 8));
}

static void handler_whose_frame_is_not_up_has_the_trampoline_for_a_caller(void **state)
{
	JUDGED("0 1 2 3", END, PC(UNTOUCHED, 8), TRAMPOLINE(SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 1 2 3", END, PC(UNTOUCHED, 8), TRAMPOLINE(WORD_SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 2 3 4", END, PC(UNTOUCHED, 16), WORD_SP(UP), TRAMPOLINE(WORD_SP8), SIGNAL(UP),
	       CHAIN(UP));
	/* Where its return address lies is all that counts: the registers are in the signal frame. */
	JUDGED("0 1 2 3", END, PC(LOST, 8), TRAMPOLINE(WORD_SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 1 2 3", END, PC(UNKNOWN), TRAMPOLINE(SP), SIGNAL(UP), CHAIN(UP));
	/* The same between two signals. */
	JUDGED("0 1 2 3 4 5", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UNTOUCHED, 8), TRAMPOLINE(SP),
	       SIGNAL(UP), CHAIN(UP));
}

static void signal_frame_at_a_word_that_is_no_caller_is_not_followed(void **state)
{
	JUDGED("0 ~", END, PC(UP, 16), TRAMPOLINE(WORD_SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 ~", END, PC(UNTOUCHED, 24), TRAMPOLINE(WORD_SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 ~", END, PC(UNTOUCHED, 16), TRAMPOLINE(SP), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 ~", END, PC(UNKNOWN), BARE_TRAMPOLINE(WORD_SP), SIGNAL(UP), CHAIN(UP));
	/* The other word is the caller, and what it was called by is not known. */
	JUDGED("0 1 ~", END, PC(UNTOUCHED, 8), WORD_SP(UP), TRAMPOLINE(WORD_SP8), SIGNAL(UP),
	       CHAIN(UP));
	JUDGED("0 ~", END, PC(UNTOUCHED, 8), SP(UNKNOWN, 0, true, true), SIGNAL(UP), CHAIN(UP));
}

static void made_up_signal_frame_ends_the_stack(void **state)
{
	JUDGED("0 1 #7", END, PC(UP), TRAMPOLINE(CHAIN), SIGNAL(UP, 0, true), CHAIN(UP));
	JUDGED("0 1 ~", NOT_EXEC, PC(UP), TRAMPOLINE(CHAIN));
	/* Code that is a trampoline by its bytes, and that the chain does not prove. */
	JUDGED("0 1 -1", END, PC(UP), CHAIN(UNKNOWN), TRAMPOLINE(CHAIN), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 !0", END, PC(LOST, 48), TRAMPOLINE(CHAIN), SIGNAL(UP), CHAIN(UP));
	JUDGED("0 ? 1 2", END, PC(UNTOUCHED, 24), TRAMPOLINE(CHAIN), SIGNAL(UP));
}

static void end_of_the_walk_is_marked_with_its_reason(void **state)
{
	JUDGED("0 1 #4", UNALIGNED, PC(UP), CHAIN(UP));
	JUDGED("0 1 #2", DEPTH, PC(UP), CHAIN(UP));
	JUDGED("0 #5", DOWN, PC(UP));
	JUDGED("0 #6", BOUNDS, PC(UNTOUCHED, 8));
	JUDGED("0 1 #3", FAULT, PC(UP), CHAIN(UNTOUCHED, 8));
	JUDGED("0 1 #2", DEPTH, PC(UP), CHAIN(UNTOUCHED, 8));
	/* The end of a chain is proper where no rule says that there is a caller. */
	JUDGED("0 1", END, PC(UP), CHAIN(UNKNOWN));
	JUDGED("0 1 ?", END, PC(UP), CHAIN(UNTOUCHED, 8));
	/* Start routines: there is no caller, whatever the registers held. */
	JUDGED("0", BOUNDS, PC(END));
	JUDGED("0 1", NOT_EXEC, PC(UP), CHAIN(END));
}

static void failed_chain_in_code_without_frames_says_so(void **state)
{
	JUDGED("0 1 !1", UNALIGNED, PC(UP), CHAIN(UNTOUCHED, 160));
	JUDGED("0 1 !1", NOT_EXEC, PC(UP), CHAIN(UNTOUCHED, 160));
	JUDGED("0 !0", DOWN, PC(LOST, 48));
	JUDGED("0 1 !1", BOUNDS, PC(UP), CHAIN(LOST, 48));
}

static void unchecked_chain_is_cut_at_the_first_address_that_is_no_code(void **state)
{
	JUDGED("0 1 #7", END, PC(UP), CHAIN(UP), CHAIN(UP, 0, true), CHAIN(UP));
	JUDGED("0 #7", END, PC(UP), CHAIN(UP, 0, true));
	JUDGED("0 !0", END, PC(LOST, 48), CHAIN(UP, 0, true));
	JUDGED("0 1 !1", END, PC(UP), CHAIN(UNTOUCHED, 160), CHAIN(UP, 0, true));
	/* That the interrupted pc is not: it ran. */
	JUDGED("0 ? 1", END, PC(UNTOUCHED, 8, true), CHAIN(UP));
}

/* Of a machine with a back chain: how it was found, the state, and where its return address is. */
#define B(found, is, what)                                                                         \
	{                                                                                          \
		.how = RPROF_HOW_##found, .state = is, .offset = 160, .facts = what                \
	}
#define UNLINKED CFI_FP_UNLINKED

static void leaf_has_its_caller_in_a_register_or_in_the_save_area(void **state)
{
	JUDGED("0 1 3 4", END, B(PC, UNTOUCHED, REG), B(WORD_RA, UP, 0), B(WORD_SLOT, UP, 0),
	       B(CHAIN, UP, 0), B(CHAIN, END, 0));
	JUDGED("0 1 2", END, B(PC, UNTOUCHED, REG), B(RA, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 2 3", END, B(PC, UNTOUCHED, SLOT), B(WORD_RA, UP, 0), B(WORD_SLOT, UP, 0),
	       B(CHAIN, UP, 0));
	JUDGED("0 ? 2", END, B(PC, UNTOUCHED, SLOT), B(RA, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 ? 2", END, B(PC, UNTOUCHED, REG), B(WORD_SLOT, UP, 0), B(CHAIN, UP, 0));
	/* Its caller keeps no chain, or is nowhere to be asked. */
	JUDGED("0 1 !1", END, B(PC, UNTOUCHED, REG), B(WORD_RA, LOST, 0), B(CHAIN, UP, 0));
	JUDGED("0 -0", END, B(PC, UNKNOWN, 0), B(RA, UP, 0), B(CHAIN, UP, 0));
}

static void stale_words_are_no_callers(void **state)
{
	JUDGED("0 3 4", END, B(PC, UP, SLOT), B(WORD_RA, UP, 0), B(WORD_SLOT, UP, 0),
	       B(CHAIN, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 2", END, B(PC, UP, SLOT), B(RA, UP, 0), B(CHAIN, UP, 0));
	/* What a call overwrote is not in the register any more. */
	JUDGED("0 1 !1", END, B(PC, UP, SLOT), B(CHAIN, UP, REG), B(CHAIN, UP, 0));
	/* A frame that stores no chain has no word of it. */
	JUDGED("0 !0", END, B(PC, LOST, SLOT), B(WORD_RA, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 1 !0", END, B(PC, LOST, REG), B(WORD_RA, UP, 0), B(CHAIN, UP, 0));
}

static void frame_is_linked_by_the_register_that_will_be_stored_or_not_at_all(void **state)
{
	JUDGED("0 1 2", END, B(PC, UNLINKED, SLOT), B(CHAIN_REG, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 2 3", END, B(PC, UNLINKED, SLOT), B(WORD_RA, UP, 0), B(CHAIN_REG, UP, 0),
	       B(CHAIN, UP, 0));
	JUDGED("0 +", END, B(PC, UNLINKED, SLOT), B(CHAIN, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 +", UNLINKED, B(PC, UNLINKED, SLOT), B(WORD_RA, UP, 0));
	JUDGED("0 +", END, B(PC, UNLINKED, SLOT));
	/* The register is no link of a frame that has one, or that is not there. */
	JUDGED("0 +", END, B(PC, UP, SLOT), B(CHAIN_REG, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 1 +", END, B(PC, UNTOUCHED, REG), B(WORD_RA, UP, 0), B(CHAIN_REG, UP, 0));
	JUDGED("0 1 +", END, B(PC, UP, SLOT), B(CHAIN, UNLINKED, SLOT), B(CHAIN, UP, 0));
	JUDGED("0 1 2 3 4", END, B(PC, UP, SLOT), B(CHAIN, UNKNOWN, 0), B(SIGNAL, UNLINKED, SLOT),
	       B(CHAIN_REG, UP, 0), B(CHAIN, UP, 0));
}

static void caller_in_the_register_takes_the_place_of_the_first_link(void **state)
{
	JUDGED("0 1 3 4", END, B(PC, UP, REG), B(WORD_RA, UP, 0), B(CHAIN, UP, 0), B(CHAIN, UP, 0),
	       B(CHAIN, UP, 0));
	/* The stale word need not be code. */
	JUDGED("0 1 3", END, B(PC, UP, REG), B(RA, UP, 0), CHAIN(UNKNOWN, 0, true),
	       B(CHAIN, UP, 0));
	JUDGED("0 1 3", END, B(PC, UNLINKED, REG), B(WORD_RA, UP, 0), B(CHAIN_REG, UP, 0),
	       B(CHAIN, UP, 0));
	JUDGED("0 1 +", END, B(PC, UNLINKED, REG), B(WORD_RA, UP, 0), B(CHAIN, UP, 0),
	       B(CHAIN, UP, 0));
	JUDGED("0 1 +", UNLINKED, B(PC, UNLINKED, REG), B(WORD_RA, UP, 0));
	JUDGED("0 ? 2", END, B(PC, UP, REG), B(CHAIN, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 1 #7", NOT_EXEC, B(PC, UP, REG), B(WORD_RA, UP, 0), B(CHAIN, UP, 0));
	/* A handler that is such a leaf returns to the trampoline. */
	JUDGED("0 1 3 4", END, B(PC, UP, REG), B(WORD_RA, UNKNOWN, 0), B(CHAIN, UP, 0),
	       B(SIGNAL, UP, SLOT), B(CHAIN, UP, 0));
	JUDGED("0 ~", END, B(PC, UP, REG), B(CHAIN, UP, 0), B(SIGNAL, UP, SLOT), B(CHAIN, UP, 0));
}

static void packed_frames_are_proven_by_a_packed_walk_alone(void **state)
{
	JUDGED("0 !0", END, B(PC, UP, PACKED), B(CHAIN, UP, PACKED), B(CHAIN, UP, PACKED));
	JUDGED("0 !0", END, B(PC, UP, PACKED));
	JUDGED("0 1 !1", END, B(PC, UNTOUCHED, REG), B(WORD_RA, UP, PACKED));
	JUDGED("0 1 2", END, B(PC, UNLINKED, PACKED), B(CHAIN_REG, UP, PACKED),
	       B(CHAIN, UP, PACKED));
	JUDGED("0 1 !1", END, B(PC, UNLINKED, PACKED), B(CHAIN_REG, UP, 0), B(CHAIN, UP, 0));
	JUDGED("0 1 !1", END, B(PC, UNLINKED, SLOT), B(CHAIN_REG, UP, PACKED), B(CHAIN, UP, 0));
}

static void wrapper_of_the_vdso_is_passed_after_its_call_alone(void **state)
{
	JUDGED("0 1 2", END, B(PC, UP, SLOT), B(CHAIN, UP, WRAPPER), B(CHAIN, UP, 0));
	JUDGED("0 1 +", END, B(PC, UP, SLOT), B(CHAIN, UP, WRAPPER));
	JUDGED("0 +", END, B(PC, UP, WRAPPER), B(CHAIN, UP, 0));
	JUDGED("0 +", END, B(PC, UP, WRAPPER));
	JUDGED("0 1 +", END, B(PC, UNTOUCHED, REG), B(WORD_RA, UP, WRAPPER), B(CHAIN, UP, 0));
	JUDGED("0 1 3", END, B(PC, UP, REG), B(WORD_RA, UP, WRAPPER), B(CHAIN, UP, 0),
	       B(CHAIN, UP, 0));
	JUDGED("0 1 +", END, B(PC, UP, WRAPPER | REG), B(WORD_RA, UP, 0), B(CHAIN, UP, 0),
	       B(CHAIN, UP, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_that_are_up_are_proven),
		cmocka_unit_test(leaf_without_frame_misses_its_caller),
		cmocka_unit_test(nothing_stands_above_code_without_a_rule),
		cmocka_unit_test(
			nothing_stands_above_an_unknown_caller_in_a_file_without_frame_pointers),
		cmocka_unit_test(word_is_the_caller_exactly_where_the_rule_says),
		cmocka_unit_test(instruction_proves_where_the_rule_agrees),
		cmocka_unit_test(proven_caller_is_judged_by_its_own_rule),
		cmocka_unit_test(nothing_stands_above_a_lost_frame_pointer),
		cmocka_unit_test(return_addresses_are_judged_like_the_leaf),
		cmocka_unit_test(nothing_stands_above_a_signal_frame),
		cmocka_unit_test(what_a_signal_interrupted_is_proven),
		cmocka_unit_test(what_a_signal_interrupted_is_judged_like_the_leaf),
		cmocka_unit_test(handler_whose_frame_is_not_up_has_the_trampoline_for_a_caller),
		cmocka_unit_test(signal_frame_at_a_word_that_is_no_caller_is_not_followed),
		cmocka_unit_test(made_up_signal_frame_ends_the_stack),
		cmocka_unit_test(end_of_the_walk_is_marked_with_its_reason),
		cmocka_unit_test(failed_chain_in_code_without_frames_says_so),
		cmocka_unit_test(unchecked_chain_is_cut_at_the_first_address_that_is_no_code),
		cmocka_unit_test(leaf_has_its_caller_in_a_register_or_in_the_save_area),
		cmocka_unit_test(stale_words_are_no_callers),
		cmocka_unit_test(frame_is_linked_by_the_register_that_will_be_stored_or_not_at_all),
		cmocka_unit_test(caller_in_the_register_takes_the_place_of_the_first_link),
		cmocka_unit_test(packed_frames_are_proven_by_a_packed_walk_alone),
		cmocka_unit_test(wrapper_of_the_vdso_is_passed_after_its_call_alone),
	};

	return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
