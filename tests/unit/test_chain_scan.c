// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Machine code as compilers emit it, on whatever machine this runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chain_scan.h"

#define BASE 0x1000
/* CFA of a row: %r15 + offset, or another register. */
#define R11 100000
#define R14 200000

/* Instructions. */
#define STMG_R14 "ebeff0700024 "	/* stmg %r14,%r15,112(%r15) */
#define LGR_R14 "b90400ef "		/* lgr %r14,%r15 */
#define LAY_160 "e3f0ff60ff71 "		/* lay %r15,-160(%r15) */
#define STG_R14 "e3e0f0000024 "		/* stg %r14,0(%r15) */
#define CALL "c0e500000000 "		/* brasl %r14,. */
#define LMG_R14 "ebeff1100004 "		/* lmg %r14,%r15,272(%r15) */
#define RETURN "07fe "
#define LGR_R1 "b904001f "		/* lgr %r1,%r15 */
#define AGHI_160 "a7fbff60 "		/* aghi %r15,-160 */
#define STG_R1 "e310f0000024 "

struct told {
	char text[512];
	size_t n;
};

static bool tell_span(void *arg, const struct chain_span *span)
{
	static const char *const kinds[] = { "ahead", "freed", "held" };
	struct told *t = arg;

	t->n += (size_t)sprintf(t->text + t->n, " %s %llx-%llx", kinds[span->kind],
				span->start - BASE, span->end - BASE);
	return true;
}

static bool tell_jump(void *arg, __u64 target)
{
	struct told *t = arg;

	t->n += (size_t)sprintf(t->text + t->n, " leaves %llx", target - BASE);
	return true;
}

/* Rows: pairs of where one begins and its CFA; up to -1. */
static size_t make_rows(const int *given, size_t size, struct eh_row *rows)
{
	size_t n = 0;

	for (; given[2 * n] >= 0; n++) {
		static const __u64 registers[] = { 15, 11, 14 };

		rows[n] = (struct eh_row){
			.start = BASE + (__u64)given[2 * n],
			.cfa_known = true,
			.cfa_reg = registers[given[2 * n + 1] / R11],
			.cfa_offset = given[2 * n + 1] % R11,
		};
		if (n)
			rows[n - 1].end = rows[n].start;
	}
	rows[n - 1].end = BASE + size;
	return n;
}

static const char *scan(const char *hex, const int *given)
{
	static const char *const words[] = { "no frame", "kept",      "packed",
					     "wrapper",	 "inherited", "lost" };
	static char text[600];
	unsigned char *code = malloc(strlen(hex) / 2 + 1); /* so that ASan sees its end */
	struct told told = { { 0 }, 0 };
	const struct chain_sink sink = { tell_span, tell_jump, &told };
	struct eh_row rows[16];
	struct chain_input in = { .code = code, .vaddr = BASE, .rows = rows };
	unsigned int byte;
	int used;

	assert_non_null(code);
	for (; sscanf(hex, "%2x%n", &byte, &used) == 1; hex += used)
		code[in.size++] = (unsigned char)byte;
	code = realloc(code, in.size);
	assert_non_null(code);
	in.code = code;
	in.n_rows = make_rows(given, in.size, rows);
	sprintf(text, "%s", words[chain_scan(&in, &sink)]);
	strcat(text, told.text);
	free(code);
	return text;
}

#define SCANNED(want, hex, ...)                                                                    \
	do {                                                                                       \
		static const int rows[] = { __VA_ARGS__, -1, -1 };                                 \
		assert_string_equal(scan(hex, rows), want);                                        \
	} while (0)

static void gcc_and_clang_keep_the_chain(void **state)
{
	SCANNED("kept ahead 10-16", STMG_R14 LGR_R14 LAY_160 STG_R14 CALL LMG_R14 RETURN, 0, 160,
		16, 320, 34, 160);
	/* clang has no row after the frame is freed. */
	SCANNED("kept ahead e-14 freed 20-22", STMG_R14 LGR_R1 AGHI_160 STG_R1 CALL LMG_R14 RETURN,
		0, 160, 14, 320);
	SCANNED("kept ahead 8-e freed 12-14", LGR_R1 AGHI_160 STG_R1 "a7fb00a0" RETURN, 0, 160, 8,
		320);
	/* A tail call from there is none from inside a frame. */
	SCANNED("kept ahead e-14 freed 1a-20",
		STMG_R14 LGR_R1 AGHI_160 STG_R1 LMG_R14 "c0f400001000", 0, 160, 14, 320);
	SCANNED("kept ahead e-14 freed 1a-20",
		STMG_R14 LGR_R1 AGHI_160 STG_R1 LMG_R14 "e3f010000047" CALL, 0, 160, 14, 320);
	SCANNED("no frame", RETURN, 0, 160);
}

static void nothing_else_is_a_chain(void **state)
{
	/* No store. */
	SCANNED("lost", STMG_R14 LAY_160 CALL LMG_R14 RETURN, 0, 160, 12, 320, 24, 160);
	/* A store of what is no link, and of a link that was overwritten. */
	SCANNED("lost", STMG_R14 LAY_160 STG_R1 CALL LMG_R14 RETURN, 0, 160, 12, 320, 30, 160);
	SCANNED("lost", STMG_R14 LGR_R1 LAY_160 "b9040012" STG_R1 CALL, 0, 160, 16, 320);
	SCANNED("lost", STMG_R14 LGR_R1 LAY_160 "b90d0002" STG_R1 CALL, 0, 160, 16, 320);
	SCANNED("lost", STMG_R14 LGR_R1 LAY_160 "eb5ff0700004" STG_R1 CALL, 0, 160, 16, 320);
	/* Into another place. */
	SCANNED("lost", STMG_R14 LGR_R1 LAY_160 "e310f0080024" CALL, 0, 160, 16, 320);
	/* One of two allocations. */
	SCANNED("lost ahead 10-16", STMG_R14 LGR_R14 LAY_160 STG_R14 LAY_160 CALL, 0, 160, 16, 320,
		28, 480);
	/* A branch leaves the window, or a call comes before the store. */
	SCANNED("lost ahead 10-1a",
		STMG_R14 LGR_R14 LAY_160 "a7840008" STG_R14 CALL "00000000000000000000", 0, 160, 16,
		320);
	SCANNED("lost", STMG_R14 LGR_R14 LAY_160 CALL STG_R14, 0, 160, 16, 320);
	/* The rows know of an allocation that we do not. */
	SCANNED("lost", "18ff" CALL RETURN, 0, 160, 2, 320);
	/* The end comes first. */
	SCANNED("lost", LGR_R14 LAY_160, 0, 160);
	SCANNED("lost", LGR_R14 LAY_160 "e3e0", 0, 160, 10, 320);
}

static void stack_that_is_probed_is_a_window_to_the_store(void **state)
{
	/* lay %r14,-8192(%r15); L: lay %r15,-4096(%r15); cg; clgr; jh L; lay %r14,8192(%r15) */
	SCANNED("kept ahead 6-26",
		"e3e0f000fe71 e3f0f000ff71 e300fff80020 b92100fe a724fff8 e3e0f0000271" STG_R14 CALL,
		0, 160, 6, R14 + 8352, 26, 8352);
	/*
	 * A variable-length array: lg %r3,0(%r15); sgr; ltgr; jne M; stg %r3,0(%r15); call; M: cg;
	 * j to the store.
	 */
	SCANNED("kept ahead 10-16 ahead 20-2e ahead 34-3e",
		STMG_R14 LGR_R14 LAY_160 STG_R14
		"e330f0000004 b90900f2 b9020022 a7740008 e330f0000024" CALL "e3002ff8ff20 a7f4fff7",
		0, 160, 16, 320);
	/* A probe that goes elsewhere. */
	SCANNED("lost ahead 10-16 ahead 20-2e",
		STMG_R14 LGR_R14 LAY_160 STG_R14
		"e330f0000004 b90900f2 b9020022 a7740008 e330f0000024" CALL "e3002ff8ff20 a7f4fffa",
		0, 160, 16, 320);
	/* The end of its block. */
	SCANNED("kept ahead 10-16 ahead 20-26",
		STMG_R14 LGR_R14 LAY_160 STG_R14 "e320f0000004 b90400f7 e320f0000024" CALL, 0, 160,
		16, R11 + 320);
	/* The same of clang, whose store has another name for sp. */
	SCANNED("kept ahead e-14 ahead 1e-28",
		STMG_R14 LGR_R1 AGHI_160 STG_R1 "e300f0000004 b90400f1 41d010a0 e30010000024" CALL,
		0, 160, 14, R11 + 320);
}

static void leaf_may_keep_sp_in_a_floating_point_register(void **state)
{
	/* ldgr %f0,%r15; ldgr %f4,%r11; lay; std %f0,0(%r15); lgdr %r11,%f4; lgdr %r15,%f0 */
	SCANNED("kept ahead e-12 held 16-1a",
		"b3c1000f b3c1004b" LAY_160 "6000f000 b3cd00b4 b3cd00f0" RETURN, 0, 160, 14, 320,
		22, 160);
	/* Another register; one that was overwritten. */
	SCANNED("lost", "b3c1000f" LAY_160 "6040f000" CALL, 0, 160, 10, 320);
	SCANNED("lost", "b3c1000f" LAY_160 "2800 6000f000" CALL, 0, 160, 10, 320);
}

static void packed_frames_have_it_at_their_top(void **state)
{
	SCANNED("packed ahead 10-16", STMG_R14 LGR_R14 LAY_160 "e3e0f0980024" CALL LMG_R14 RETURN,
		0, 160, 16, 320, 34, 160);
	/* In one function there is one layout. */
	SCANNED("lost ahead 10-16",
		STMG_R14 LGR_R14 LAY_160 "e3e0f0980024 e3e0f0000024" CALL LMG_R14 RETURN, 0, 160,
		16, 320, 40, 160);
}

static void wrappers_of_the_vdso_store_none(void **state)
{
	SCANNED("wrapper ahead 4-10",
		"a7fbff58 e3e0f0a00024 d707f000f000" CALL "e3e0f0a00004 a7fb00a8" RETURN, 0, 160, 4,
		328, 32, 160);
	SCANNED("wrapper ahead 4-a", "a7fbff58 e3e0f0a00024" CALL "e3e0f0a00004 a7fb00a8" RETURN, 0,
		160, 4, 328, 26, 160);
}

static void part_inherits_what_jumps_into_it_keeps(void **state)
{
	SCANNED("inherited", CALL, 0, 320);
	SCANNED("inherited leaves 1006", CALL "c0f400000800", 0, 320);
	SCANNED("kept ahead 10-16 leaves 1016",
		STMG_R14 LGR_R14 LAY_160 STG_R14 "c04400000800" CALL, 0, 160, 16, 320);
}

/* Whatever the bytes are: every access is inside. */
static void any_bytes_are_bounded(void **state)
{
	static char hex[2 * 64 + 1];

	srand(1);
	for (int round = 0; round < 20000; round++) {
		const int n = 1 + rand() % 64;
		static const char *const starts[] = { "", LGR_R1, LAY_160, LGR_R1 LAY_160 };
		char whole[256];

		for (int i = 0; i < n; i++)
			sprintf(hex + 2 * i, "%02x", rand() & 255);
		sprintf(whole, "%s%s", starts[rand() % 4], hex);
		scan(whole, (const int[]){ 0, 160, 10, 320, -1, -1 });
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gcc_and_clang_keep_the_chain),
		cmocka_unit_test(nothing_else_is_a_chain),
		cmocka_unit_test(stack_that_is_probed_is_a_window_to_the_store),
		cmocka_unit_test(leaf_may_keep_sp_in_a_floating_point_register),
		cmocka_unit_test(packed_frames_have_it_at_their_top),
		cmocka_unit_test(wrappers_of_the_vdso_store_none),
		cmocka_unit_test(part_inherits_what_jumps_into_it_keeps),
		cmocka_unit_test(any_bytes_are_bounded),
	};

	return cmocka_run_group_tests_name("chain_scan", tests, NULL, NULL);
}
