// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks in letters, both leaf first. Native: c a C function of the interpreter, E a part of its
 * evaluator, g its collector, r where the program begins, x somebody else's, w a word that is no return address, _ a frame that
 * is not shown; behind it ! for a cut (no frame pointer), ? for a missing caller, ^ for a walk that
 * ended there. Python: f a frame, e one that is an activation of its own (3.9, 3.10), Sn a shim in
 * native entry n - 1, N where the walk went no further; G behind a frame: it collects.
 * The result is root first, as it is printed: letter and index, "!0" for what is said above native
 * frame 0, "mismatch" and "stop".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "merge.h"

static struct {
	struct merge_native native[RPROF_MAX_NATIVE];
	char letters[RPROF_MAX_NATIVE];
	size_t n_native;
	struct rprof_python_frame python[RPROF_MAX_PYTHON];
	size_t n_python;
	struct merge_item items[2 * (RPROF_MAX_NATIVE + RPROF_MAX_PYTHON) + 2];
} t;

static void add_native(char letter)
{
	t.letters[t.n_native] = letter;
	t.native[t.n_native++] = (struct merge_native){
		.shown = letter != 'w' && letter != '_',
		.word = letter == 'w',
		.up = true,
		.interpreter = letter == 'c' || letter == 'E' || letter == 'g' || letter == 'r',
		.evaluator = letter == 'E',
		.collector = letter == 'g',
		.root = letter == 'r',
	};
}

static void parse_native(const char *spec)
{
	t.n_native = 0;
	for (; *spec; spec++) {
		struct merge_native *last = &t.native[t.n_native ? t.n_native - 1 : 0];

		switch (*spec) {
		case ' ':
			break;
		case '!':
			last->above = MARK_NO_FRAME_POINTER;
			last->up = false;
			break;
		case '?':
			last->above = MARK_CALLER_UNKNOWN;
			last->up = false;
			break;
		case '^':
			last->above = MARK_STOP;
			break;
		default:
			add_native(*spec);
		}
	}
}

static void add_python(__u64 code, __u32 where)
{
	t.python[t.n_python++] = (struct rprof_python_frame){ .code = code, .where = where };
}

static void parse_python(const char *spec)
{
	t.n_python = 0;
	for (; *spec; spec++) {
		switch (*spec) {
		case 'f':
			add_python(0x1000, 0);
			break;
		case 'e':
			add_python(0x1000, RPROF_PY_ENTRY);
			break;
		case 'S':
			add_python(strtoull(spec + 1, NULL, 10), RPROF_PY_SHIM);
			break;
		case 'N':
			add_python(0x2000, RPROF_PY_NEXT);
			break;
		case 'G':
			t.python[t.n_python - 1].where |= RPROF_PY_GC;
			break;
		}
	}
}

static void word(char *text, const struct merge_item *item)
{
	switch (item->kind) {
	case MERGE_NATIVE:
		sprintf(text, "%c%u", t.letters[item->at], item->at);
		break;
	case MERGE_MARK:
		sprintf(text, "!%u", item->at);
		break;
	case MERGE_PYTHON:
		sprintf(text, "f%u", item->at);
		break;
	case MERGE_COLLECTION:
		strcpy(text, "<GC>");
		break;
	case MERGE_MISMATCH:
		strcpy(text, "mismatch");
		break;
	case MERGE_STOP:
		strcpy(text, "stop");
		break;
	}
}

static const char *merge_as(const char *native, const char *python, unsigned int stop, bool all)
{
	static char text[1 << 16];
	struct merge_input in = { .native = t.native, .python = t.python };
	size_t n, at = 0;

	parse_native(native);
	parse_python(python);
	in.n_native = t.n_native;
	in.n_python = t.n_python;
	in.stop_python = stop;
	in.all = all;
	n = merge_stacks(&in, t.items);
	assert_true(n <= merge_room(t.n_native, t.n_python));
	text[0] = '\0';
	while (n-- > 0) {
		if (at)
			text[at++] = ' ';
		word(text + at, &t.items[n]);
		at += strlen(text + at);
	}
	return text;
}

static const char *merge(const char *native, const char *python)
{
	return merge_as(native, python, RPROF_STOP_END, false);
}

static const char *merge_early(const char *native, const char *python)
{
	return merge_as(native, python, RPROF_STOP_DEPTH, false);
}

static const char *merge_all(const char *native, const char *python)
{
	return merge_as(native, python, RPROF_STOP_END, true);
}

static void without_python_native_frames_stay_as_they_are(void **state)
{
	assert_string_equal(merge("c E g x", ""), "x3 g2 E1 c0");
	assert_string_equal(merge("x c w E! _", ""), "!3 E3 c1 x0");
	assert_string_equal(merge_as("c E x", "", RPROF_STOP_NO_STATE, false), "x2 E1 c0");
	assert_string_equal(merge_as("c E x", "", RPROF_STOP_NONE, false), "x2 E1 c0");
}

static void python_frames_stand_for_their_activation(void **state)
{
	assert_string_equal(merge("E c c x", "f f S1"), "x3 c2 c1 f1 f0");
	assert_string_equal(merge("c x E c x", "f f S3"), "x4 c3 f1 f0 x1 c0");
}

static void native_frames_stand_between_the_python_frames_they_joined(void **state)
{
	/* main, Python, an extension that calls back, Python, a C function. */
	assert_string_equal(merge("c E c x c E c x", "f S2 f f S6"), "x7 c6 f3 f2 x3 f0 c0");
	assert_string_equal(merge("E x E x E x", "f S1 f S3 f S5"), "x5 f4 x3 f2 x1 f0");
}

static void interpreter_frames_between_are_shown_when_asked_for(void **state)
{
	assert_string_equal(merge("E c x c E c", "f S1 f S5"), "c5 f2 x2 f0");
	assert_string_equal(merge_all("E c x c E c", "f S1 f S5"), "c5 E4 f2 c3 x2 c1 E0 f0");
}

static void other_parts_of_the_evaluator_are_hidden(void **state)
{
	/* An instruction's handler (tail calls), or a cold part, called by the activation. */
	assert_string_equal(merge("E E c", "f S2"), "c2 f0");
	assert_string_equal(merge("c E E c", "f S3"), "c3 f0 c0");
	assert_string_equal(merge("E x E E c", "f S1 f S4"), "c4 f2 x1 f0");
}

static void activation_whose_frame_is_not_linked_yet_is_hidden(void **state)
{
	assert_string_equal(merge("E c x c E c", "f S5"), "c5 f0 c3 x2 c1");
	/* And one that has nothing but its shim. */
	assert_string_equal(merge("E c x c E c", "S1 f S5"), "c5 f1 c3 x2 c1");
}

static void shim_in_a_word_belongs_to_the_frame_before_it(void **state)
{
	assert_string_equal(merge("E w w c x", "f S3"), "x4 c3 f0");
	assert_string_equal(merge("E w w x E c", "f S2 f S5"), "c5 f2 x3 f0");
}

static void missing_caller_may_be_the_activation(void **state)
{
	/* The leaf has no frame; who called it was not walked, and holds the shim. */
	assert_string_equal(merge("c? w c x", "f S2"), "x3 c2 f0 !0 c0");
	assert_string_equal(merge("c? c x", "f S1"), "x2 c1 f0 !0 c0");
	assert_string_equal(merge("c? x E x!", "f S0"), "f0 !0 c0");
	assert_string_equal(merge("E? c E c", "f S3"), "c3 f0 c1 !0");
}

static void cut_native_chain_leaves_python_whole(void **state)
{
	/* Nothing is known of what is between the leaf and Python. */
	assert_string_equal(merge("x! _ _", "f f S0 f S0"), "f3 f1 f0 !0 x0");
	assert_string_equal(merge("c x^", "f S0"), "f0 !1 x1 c0");
	/* In the evaluator itself nothing is between. */
	assert_string_equal(merge("E! _", "f f S0 f S0"), "f3 f1 f0");
	assert_string_equal(merge("c E! _", "f S0"), "f0 c0");
	assert_string_equal(merge("c E^", "f S2"), "f0 c0");
}

static void what_is_proven_before_a_cut_is_merged(void **state)
{
	assert_string_equal(merge("c E x c E!", "f S2 f S5 f S0"), "f4 f2 x2 f0 c0");
	assert_string_equal(merge("E x c!", "f S1 f S0 f S0"), "f4 f2 !2 x1 f0");
	assert_string_equal(merge("E x!", "f S1 f S0"), "f2 !1 x1 f0");
	/* Of Python frames alone the interpreter's chain says which called which. */
	assert_string_equal(merge("E c c! _", "f S1 f S0"), "f2 f0");
	assert_string_equal(merge_all("E c c! _", "f S1 f S0"), "f2 !2 c2 c1 E0 f0");
	assert_string_equal(merge("E c g!", "f S1 f S0"), "f2 !2 <GC> f0");
	/* Beyond it, whatever it says. */
	assert_string_equal(merge("E x! _ _ _", "f S1 f S4"), "f2 !1 x1 f0");
	assert_string_equal(merge("x! w _", "f S2"), "f0 !0 x0");
	/* A chain that is none: all shims lie in what follows the first frame. */
	assert_string_equal(merge("E! w w _", "f S3 f S3 f S4"), "f4 f2 f0");
	assert_string_equal(merge("E! w _", "f S1 f S2"), "f2 f0");
}

static void what_does_not_fit_is_said(void **state)
{
	/* The chain is whole, and the shim in none of its frames. */
	assert_string_equal(merge("c E c x", "f S0"), "f0 mismatch c0");
	assert_string_equal(merge("c x", "f S0"), "f0 mismatch x1 c0");
	/* Downwards, twice, outside. */
	assert_string_equal(merge("E x E x", "f S3 f S1"), "f2 mismatch x3 f0 x1");
	assert_string_equal(merge("E x E x", "f S1 f S1"), "f2 mismatch x1 f0");
	assert_string_equal(merge("E x", "f S3"), "f0 mismatch");
	assert_string_equal(merge("E x", "f S18446744073709551615"), "f0 mismatch");
	/* No activation at the root. */
	assert_string_equal(merge("E x E x", "f S1 f"), "f2 mismatch x1 f0");
	assert_string_equal(merge("c x", "f"), "f0 mismatch x1 c0");
	/* Frames of two kinds of interpreter. */
	assert_string_equal(merge("E c E", "e S1 e"), "f2 f0 mismatch");
	assert_string_equal(merge("E c E", "e f"), "f1 f0 mismatch");
}

static void python_stack_that_is_not_whole_says_so(void **state)
{
	assert_string_equal(merge_early("c E c x", "f f"), "stop f1 f0 c0");
	assert_string_equal(merge_early("c E c E c", "f S2 f N"), "stop f2 f0 c0");
	assert_string_equal(merge_early("c E x E c", "f S2 f f"), "stop f3 f2 x2 f0 c0");
	assert_string_equal(merge_early("c E x E c", "f S2"), "stop x2 f0 c0");
	assert_string_equal(merge_early("x! _", "f f"), "stop f1 f0 !0 x0");
	/* Where the interpreter's file has no names. */
	assert_string_equal(merge_early("x c x", "f f"), "stop f1 f0 mismatch x2 c1 x0");
	assert_string_equal(merge_early("E c x", ""), "stop x2 c1 E0");
	assert_string_equal(merge_as("E c x", "", RPROF_STOP_STATE_LOST, false), "stop x2 c1 E0");
	assert_string_equal(merge_early("E c x", "N"), "stop");
}

static void no_native_frames_are_no_mismatch(void **state)
{
	assert_string_equal(merge("", "f S0 f f S0"), "f3 f2 f0");
	assert_string_equal(merge("", "f S3 f S1"), "f2 f0");
	assert_string_equal(merge("", "e e"), "f1 f0");
	assert_string_equal(merge_early("", "f f"), "stop f1 f0");
	assert_string_equal(merge("", ""), "");
}

static void activations_are_counted_where_there_are_no_shims(void **state)
{
	assert_string_equal(merge("c E c E x E c", "e e e"), "c6 f2 x4 f1 f0 c0");
	assert_string_equal(merge_all("c E c E x", "e e"), "x4 E3 f1 c2 E1 f0 c0");
	/* The newest is about to link its frame, or has taken it out. */
	assert_string_equal(merge("E c E c E c", "e e"), "c5 f1 f0 c1");
	/* Or it is a greenlet's: its first frame has no caller in the chain, but in the native one. */
	assert_string_equal(merge("E x E c E c", "e e"), "f1 f0 mismatch");
	/* One less, two more. */
	assert_string_equal(merge("c E c", "e e"), "f1 f0 mismatch c0");
	assert_string_equal(merge("c E c E c E c", "e"), "f0 mismatch c0");
	assert_string_equal(merge("c x", "e"), "f0 mismatch x1 c0");
	/* A chain that is cut may have others above, but not above where the program begins. */
	assert_string_equal(merge("c E x E r x!", "e e"), "!5 x5 r4 f1 x2 f0 c0");
	assert_string_equal(merge("c E c E r x!", "e"), "!5 x5 r4 f0 c2 c0");
	assert_string_equal(merge("c E x E r x!", "e"), "f0 mismatch c0");
	assert_string_equal(merge("c E x E r x!", "e e e"), "f2 f1 f0 mismatch c0");
	assert_string_equal(merge("c E r E x!", "e e"), "f1 f0 c0");
	/* A caller that is missing may be one. */
	assert_string_equal(merge("c? x E c", "e e"), "f1 f0 !0 c0");
	assert_string_equal(merge("c? x E c", "e"), "f0 !0 c0");
	assert_string_equal(merge("c E x? c E c", "e e"), "f1 f0 c0");
	assert_string_equal(merge("c E c? c", "e"), "f0 c0");
	assert_string_equal(merge("c E c r c? c", "e"), "c5 !4 c4 r3 c2 f0 c0");
	assert_string_equal(merge("c E x!", "e e e"), "f2 f1 f0 c0");
	assert_string_equal(merge("x!", "e e e"), "f2 f1 f0 !0 x0");
	assert_string_equal(merge_early("c E c E", "e"), "stop f0 c0");
}

static void collection_stands_where_it_runs(void **state)
{
	/* 3.15 says which frame started it. */
	assert_string_equal(merge("x E c", "fG S2"), "c2 f0 <GC> x0");
	assert_string_equal(merge("E c E c", "f S1 f fG S3"), "c3 f3 <GC> f2 f0");
	assert_string_equal(merge_all("x E c", "fG S2"), "c2 E1 f0 <GC> x0");
	/* Others show it in their native frames, with a finalizer or without. */
	assert_string_equal(merge("c g g c E c", "f S5"), "c5 f0 c3 <GC> c0");
	assert_string_equal(merge("E c g g c E c", "f S1 f S6"), "c6 f2 <GC> f0");
	assert_string_equal(merge_all("c g E", "f S3"), "E2 f0 g1 c0");
	/* Both: it is the same one. */
	assert_string_equal(merge("E c g c E c", "f S1 fG S5"), "c5 f2 <GC> f0");
	assert_string_equal(merge("c g", ""), "g1 c0");
}

static void symbols_of_the_interpreter_are_known(void **state)
{
	assert_true(merge_is_evaluator("_PyEval_EvalFrameDefault"));
	assert_true(merge_is_evaluator("_TAIL_CALL_LOAD_FAST"));
	assert_false(merge_is_evaluator("_PyEval_EvalFrame"));
	assert_false(merge_is_evaluator("_PyEval_Vector"));
	assert_false(merge_is_evaluator(""));
	assert_true(merge_is_root("Py_BytesMain"));
	assert_false(merge_is_root("main"));
	assert_true(merge_is_collector("gc_collect_main"));
	assert_true(merge_is_collector("_PyGC_Collect"));
	assert_true(merge_is_collector("gc_collect_region"));
	assert_true(merge_is_collector("collect"));
	assert_false(merge_is_collector("collector"));
	assert_false(merge_is_collector("gc_alloc"));
	assert_false(merge_is_collector(""));
}

static void random_native(char *spec, size_t n)
{
	static const char letters[] = "cExgw_E", marks[] = "   !?^";

	*spec++ = 'c'; /* the first one is always shown */
	while (n-- > 0) {
		*spec++ = letters[rand() % 7];
		*spec++ = marks[rand() % 6];
	}
	*spec = '\0';
}

static void random_python(char *spec, size_t n)
{
	*spec = '\0';
	while (n-- > 0) {
		const int kind = rand() % 20;

		if (kind < 10)
			spec += sprintf(spec, "f");
		else if (kind < 18)
			spec += sprintf(spec, "S%d", rand() % 30);
		else
			spec += sprintf(spec, kind == 18 ? "fG" : "e");
	}
}

/* What a hostile process can make of it: bounded, in order, no Python frame lost, nothing twice. */
static void any_input_is_merged_in_order(void **state)
{
	char native[64], python[128];

	srand(4);
	for (int round = 0; round < 20000; round++) {
		long last_native = 1L << 20, last_python = 1L << 20;
		size_t frames = 0;
		const char *text;

		random_native(native, (size_t)rand() % 24);
		random_python(python, (size_t)rand() % 24);
		text = merge_as(native, python, rand() % 3 ? RPROF_STOP_END : RPROF_STOP_FAULT,
				rand() % 2);
		for (size_t i = 0; i < t.n_python; i++)
			frames += !(t.python[i].where & RPROF_PY_SHIM);
		for (const char *p = text; *p; p += strcspn(p, " "), p += *p == ' ') {
			long *last = *p == 'f' ? &last_python : &last_native;

			if (*p == 'm' || *p == 's' || *p == '<' || *p == '!')
				continue;
			assert_true(atol(p + 1) < *last);
			*last = atol(p + 1);
			frames -= *p == 'f';
		}
		assert_int_equal(frames, 0);
	}
}

static void deepest_stacks_fit(void **state)
{
	static char native[3 * RPROF_MAX_NATIVE + 1], python[8 * RPROF_MAX_PYTHON];
	size_t at = 0;

	for (int i = 0; i < RPROF_MAX_NATIVE; i++)
		memcpy(native + 2 * i, i % 2 ? "x?" : "E?", 3);
	for (int i = 0; i < RPROF_MAX_PYTHON / 2; i++)
		at += (size_t)sprintf(python + at, "fGS%d", i + 1);
	merge_early(native, python);
	merge_all(native, python);
	assert_int_equal(t.n_native, RPROF_MAX_NATIVE);
	assert_int_equal(t.n_python, RPROF_MAX_PYTHON);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_python_native_frames_stay_as_they_are),
		cmocka_unit_test(python_frames_stand_for_their_activation),
		cmocka_unit_test(native_frames_stand_between_the_python_frames_they_joined),
		cmocka_unit_test(interpreter_frames_between_are_shown_when_asked_for),
		cmocka_unit_test(other_parts_of_the_evaluator_are_hidden),
		cmocka_unit_test(activation_whose_frame_is_not_linked_yet_is_hidden),
		cmocka_unit_test(shim_in_a_word_belongs_to_the_frame_before_it),
		cmocka_unit_test(missing_caller_may_be_the_activation),
		cmocka_unit_test(cut_native_chain_leaves_python_whole),
		cmocka_unit_test(what_is_proven_before_a_cut_is_merged),
		cmocka_unit_test(what_does_not_fit_is_said),
		cmocka_unit_test(python_stack_that_is_not_whole_says_so),
		cmocka_unit_test(no_native_frames_are_no_mismatch),
		cmocka_unit_test(activations_are_counted_where_there_are_no_shims),
		cmocka_unit_test(collection_stands_where_it_runs),
		cmocka_unit_test(symbols_of_the_interpreter_are_known),
		cmocka_unit_test(any_input_is_merged_in_order),
		cmocka_unit_test(deepest_stacks_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
