// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Code objects of each version, in whole samples: what tells one from the next at its address, and
 * what is sent of one. The rest is in test_pycode_x86.c.
 */
#include "python_seen.h"

#define MODULE "/usr/lib/python3/dist-packages/module.py"

static struct py_stack stack;

static void start(u32 version)
{
	py_start(version);
	py_native(6);
	py_thread(&stack, INTERPS, 0, 0);
	py_run(&stack);
}

static void each_version(void (*test)(u32 version))
{
	for (u32 version = 0; version < N_LAYOUTS; version++) {
		start(version);
		test(version);
		host_reset();
	}
}

/* One frame of @code on top. */
static void push(u64 code)
{
	struct py_frame *f = py_push(&stack, PY_FRAME, code, 3);

	if (stack.n == 1 && py_has(RPROF_PYTHON_IS_ENTRY))
		f->entry = in_native(4);
	py_write(&stack);
}

/* Fingerprints. */

/* Freed, and what gets its address is another function of equal size, line and file. */
static void reused(u32 version)
{
	u64 code = py_code("first", MODULE, 7), name = py_peek(code + py.p.co_name);
	u32 first, again;

	push(code);
	py_right(&stack);
	first = py_sample().python[0].fingerprint;
	py_text_write(name, "other", 5, 1, true);
	py_freed();
	if (py_has(RPROF_PYTHON_CODE_VERSION))
		py_half(code + py.p.co_version, ++py.co_version);
	py_right(&stack);
	again = py_sample().python[0].fingerprint;
	assert_int_not_equal(first, again);
	assert_int_equal(count_records(RPROF_RECORD_CODE), 2);
	assert_int_equal(count_records(RPROF_RECORD_STACK), 2);
}

static void code_object_at_a_freed_one_s_address_is_another(void **state)
{
	each_version(reused);
}

#define LONG "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Version 0 says nothing: the text does, as in 3.11. */
static void text_counts(u32 version)
{
	static const struct {
		const char *text;
		u32 length, kind;
		bool ascii;
	} texts[] = {
		{ "function", 8, 1, true },  { "functioN", 8, 1, true },
		{ "functioN", 4, 2, false }, { "functioN", 2, 4, false },
		{ "f", 1, 1, true },	     { "", 0, 1, true },
		{ LONG "1", 65, 1, true },   { LONG "2", 65, 1, true },
		{ LONG "2", 64, 1, true },
	};
	u64 code = py_code("name", MODULE, 7), name = py_peek(code + py.p.co_name);
	u32 seen[9];

	push(code);
	if (py_has(RPROF_PYTHON_CODE_VERSION))
		py_half(code + py.p.co_version, 0);
	for (u32 i = 0; i < 9; i++) {
		py_freed();
		py_text_write(name, texts[i].text, texts[i].length, texts[i].kind, texts[i].ascii);
		py_right(&stack);
		seen[i] = py_sample().python[0].fingerprint;
		for (u32 k = 0; k < i; k++)
			assert_int_not_equal(seen[i], seen[k]);
	}
}

static void text_identifies_what_has_no_version(void **state)
{
	each_version(text_counts);
}

/* CODE records. */

static const struct rprof_code *last_code(void)
{
	for (u32 i = host.n_records; i--;) {
		const struct rprof_code *c = host.records[i].data;

		if (c->h.type != RPROF_RECORD_CODE)
			continue;
		assert_null(record_wrong(&host.records[i]));
		return c;
	}
	fail_msg("no CODE record");
	return NULL;
}

static const u8 *part_of(const struct rprof_code *c, u32 which)
{
	const u8 *bytes = (const u8 *)(c + 1);

	for (u32 i = 0; i < which; i++)
		bytes += (c->parts[i].captured + 7u) & ~7u;
	return bytes;
}

static void records(u32 version)
{
	u64 code = py_code("Class.method", MODULE, 4711);
	const struct rprof_code *c;

	push(code);
	for (u32 i = 0; i < 5; i++)
		py_right(&stack);
	assert_int_equal(count_records(RPROF_RECORD_CODE), 1);
	c = last_code();
	assert_int_equal(c->code, code);
	assert_int_equal(c->fingerprint, py_fingerprint(code));
	assert_int_equal(c->tgid, TGID);
	assert_int_equal(c->execs, 0);
	assert_int_equal(c->firstlineno, 4711);
	assert_int_equal(c->version, py.p.version);
	assert_int_equal(c->parts[RPROF_CODE_NAME].captured, 12);
	assert_memory_equal(part_of(c, RPROF_CODE_NAME), "Class.method", 12);
	assert_memory_equal(part_of(c, RPROF_CODE_FILE), MODULE, sizeof(MODULE) - 1);
	assert_int_equal(c->parts[RPROF_CODE_LINES].captured, 20);
	assert_memory_equal(part_of(c, RPROF_CODE_LINES), "lines of a function ", 20);
	assert_int_equal(c->parts[RPROF_CODE_FILE].addr,
			 py_peek(code + py.p.co_filename) + py.p.str_ascii);
	/* Before the stack that has it. */
	assert_int_equal(((const struct rprof_header *)host.records[0].data)->type,
			 RPROF_RECORD_CODE);
}

static void code_object_is_sent_once_before_its_first_stack(void **state)
{
	each_version(records);
}

static void kinds(u32 version)
{
	static const struct {
		const void *text;
		u64 length;
		u32 kind;
		u32 captured;
		bool known;
	} texts[] = {
		{ "\xe4\xf6\xfc", 3, 1, 3, true },
		{ u"\u03b1\u03b2\u03b3", 3, 2, 6, true },
		{ U"\U0001d6fc\U0001d6fd", 2, 4, 8, true },
		{ "of three bytes ", 5, 3, 0, false },
		{ "", 4, 0, 0, false },
	};

	for (u32 i = 0; i < 5; i++) {
		u64 code = py_code("name", MODULE, 7), name = py_peek(code + py.p.co_name);
		const struct rprof_code_text *t;

		py_text_write(name, texts[i].text, texts[i].length, texts[i].kind, false);
		push(code);
		py_right(&stack);
		t = &last_code()->parts[RPROF_CODE_NAME];
		assert_int_equal(t->captured, texts[i].captured);
		assert_int_equal(t->kind, texts[i].known ? texts[i].kind : 0);
		assert_int_equal(t->addr, texts[i].known ? name + py.p.str_compact : 0);
		assert_memory_equal(part_of(last_code(), 0), texts[i].text, texts[i].captured);
	}
}

static void names_of_each_kind_are_captured(void **state)
{
	each_version(kinds);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(code_object_at_a_freed_one_s_address_is_another),
		THREAD_TEST(text_identifies_what_has_no_version),
		THREAD_TEST(code_object_is_sent_once_before_its_first_stack),
		THREAD_TEST(names_of_each_kind_are_captured),
	};

	return cmocka_run_group_tests_name("python_codes", tests, NULL, NULL);
}
