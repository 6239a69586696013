// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Nothing remembered of a thread's last sample shows in a record. Threads call and return at random,
 * end, and free code objects whose memory the next one gets; each sample is taken as usual, by
 * --verify, and with --no-cache, and is what the model says.
 */
#include <stdio.h>

#include "python_seen.h"

#define STEPS 1500
#define N_THREADS 3
#define N_CODES 24
#define MAX_DEPTH 300

static struct py_stack threads[N_THREADS];
static u64 codes[N_CODES];
static u32 n_names, starts;
static u64 seed;

static u32 below(u32 n)
{
	return next_random(&seed) % n;
}

static void start(u32 version, u64 with)
{
	seed = with;
	py_start(version);
	py_native(6);
	for (u32 i = 0; i < N_THREADS; i++)
		py_thread(&threads[i], INTERPS, i, 4 * i);
	for (u32 i = 0; i < N_CODES; i++)
		codes[i] = py_code("function", "/srv/program.py", i + 1);
}

/* What the threads do. */

static void call(struct py_stack *s)
{
	enum py_kind kind = below(8) ? PY_FRAME : PY_GENERATOR;

	for (u32 n = 1 + below(below(8) ? 4 : 30); n && s->n < MAX_DEPTH; n--)
		py_push(s, kind, codes[below(N_CODES)], below(3000));
}

/* A shim's frames go with it. */
static void give_back(struct py_stack *s)
{
	for (u32 n = 1 + below(below(8) ? 4 : 30); n && s->n; n--)
		py_pop(s);
	while (s->n && s->frames[s->n - 1].kind == PY_SHIM)
		py_pop(s);
}

/* From C into the evaluator: each activation lies below the last one. */
static void enter(struct py_stack *s)
{
	u32 n = 0;
	u64 address;

	for (u32 i = 0; i < s->n; i++)
		n += s->frames[i].kind == PY_SHIM || s->frames[i].entry;
	if (n > 40 || s->n >= MAX_DEPTH)
		return;
	address = in_native(6 - n / 8) + 0x80 * (u64)(7 - n % 8);
	py_push_shim(s, address);
	py_push(s, PY_FRAME, codes[below(N_CODES)], below(100))->entry =
		py_has(RPROF_PYTHON_IS_ENTRY) ? address : 0;
}

static void go_on(struct py_stack *s)
{
	for (u32 n = below(3); n < 3 && s->n; n++) {
		struct py_frame *f = &s->frames[s->n - 1 - below(s->n)];

		if (f->kind != PY_SHIM)
			f->instr = below(1000);
	}
}

static bool in_use(u64 code)
{
	for (u32 i = 0; i < N_THREADS; i++)
		for (u32 k = 0; k < threads[i].n; k++)
			if (threads[i].frames[k].code == code)
				return true;
	return false;
}

/* Freed; another one of its address, line and size, whose texts are where the old ones were. */
static void free_code(void)
{
	u64 code = codes[below(N_CODES)];
	char text[64];

	if (in_use(code))
		return;
	py_freed();
	snprintf(text, sizeof(text), "name_%06u", n_names++ % 1000000);
	py_text_write(py_peek(code + py.p.co_name), text, strlen(text), 1, true);
	if (py_has(RPROF_PYTHON_CODE_VERSION))
		py_half(code + py.p.co_version, ++py.co_version);
}

/* It ended, and a new thread has its number; its state may be at another place. */
static void restart(struct py_stack *s)
{
	while (s->n)
		py_pop(s);
	py_run(s);
	if (below(2))
		rprof_exit(NULL);
	s->tp = TP(N_THREADS + ++starts);
	host_poke(s->tstate + py.p.ts_thread_id, s->tp);
	if (below(2) && starts < 300) {
		host_poke(s->tstate + py.p.ts_thread_id, TP(~0u));
		s->tstate = py_state(s->interp, s->tp, s->tid);
	}
}

static struct py_stack *step(void)
{
	struct py_stack *s = &threads[below(N_THREADS)];

	switch (below(20)) {
	case 0 ... 5:
		call(s);
		break;
	case 6 ... 11:
		give_back(s);
		break;
	case 12 ... 14:
		go_on(s);
		break;
	case 15 ... 16:
		enter(s);
		break;
	case 17:
		free_code();
		break;
	case 18:
		if (!below(8))
			restart(s);
		break;
	}
	return s;
}

/* Samples. */

/* Without what was remembered: the same bytes. */
static void expect_same_without_cache(const struct py_seen *seen)
{
	static u8 plain[RPROF_MAX_STACK_LEN];
	struct rprof_stack *copy = (void *)plain;
	struct py_seen again;

	host_delete(&rprof_seen, seen->stack->stack);
	py_flags(RPROF_CONFIG_NO_CACHE);
	again = py_sample();
	assert_ptr_not_equal(again.stack, seen->stack);
	memcpy(plain, again.stack, again.stack->h.len);
	copy->time_ns = seen->stack->time_ns;
	assert_int_equal(copy->h.len, seen->stack->h.len);
	assert_memory_equal(plain, seen->stack, seen->stack->h.len);
}

static void sample(struct py_stack *s)
{
	struct py_seen seen;

	py_write(s);
	py_run(s);
	host_kernel_poke(KTASK + TASK_START, s->tp);
	py_flags(RPROF_CONFIG_VERIFY);
	seen = py_sample();
	assert_python(&seen, s);
	if (below(4) == 0)
		expect_same_without_cache(&seen);
}

static void random_steps(u32 version, u64 with)
{
	start(version, with);
	for (u32 i = 0; i < STEPS; i++)
		sample(step());
	assert_int_equal(counter(RPROF_COUNT_VERIFIED) > 0, 1);
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 0);
	assert_true(counter(RPROF_COUNT_STATE_HITS) > STEPS / 2);
	if (py_has(RPROF_PYTHON_GENERATION))
		assert_true(counter(RPROF_COUNT_FRAMES_EQUAL) > 10000);
	assert_true(n_names > 10);
	host_reset();
}

static void samples_are_the_same_with_and_without_what_is_remembered(void **state)
{
	for (u32 version = 0; version < N_LAYOUTS; version++)
		for (u64 with = 1; with <= 2; with++)
			random_steps(version, with);
}

/* Comparing. */

static u64 change_at, change_code;

static void change(u64 addr)
{
	if (addr != change_at)
		return;
	py_half(change_code + py.p.co_firstlineno, 99);
	py_freed();
	change_at = 0;
}

/* The second walk searches for the thread state. 3.9 to 3.11 read the GIL's holder each time. */
static void verify(u32 version)
{
	struct py_stack *s = &threads[0];
	u64 code = codes[1];

	py_push(s, PY_FRAME, codes[0], 1)->entry = py_has(RPROF_PYTHON_IS_ENTRY) ? in_native(4) : 0;
	py_push(s, PY_FRAME, code, 1);
	py_write(s);
	py_run(s);
	py_flags(RPROF_CONFIG_VERIFY);
	for (u32 i = 0; i < 3; i++)
		py_right(s);
	assert_int_equal(counter(RPROF_COUNT_VERIFIED), 3);
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 0);
	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	change_at = RUNTIME + py.p.runtime_interpreters;
	change_code = code;
	host.on_user_read = change;
	py_sample();
	host.on_user_read = NULL;
	assert_int_equal(counter(RPROF_COUNT_VERIFIED), 4);
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 1);
	py_sample();
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 1);
}

static void verify_counts_what_changed_between_two_walks(void **state)
{
	for (u32 version = 0; version < N_LAYOUTS; version++) {
		start(version, 1);
		verify(version);
		host_reset();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_are_the_same_with_and_without_what_is_remembered),
		cmocka_unit_test(verify_counts_what_changed_between_two_walks),
	};

	return cmocka_run_group_tests_name("python_cache", tests, NULL, NULL);
}
