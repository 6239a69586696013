// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Python walker: every version's chains, what their frames say, and what ends them. */
#include "python_seen.h"

static struct py_stack stack;
static u64 codes[8];

/* A process of @version whose main thread is about to be sampled; nothing runs in it yet. */
static void start(u32 version)
{
	py_start(version);
	py_native(6);
	py_thread(&stack, INTERPS, 0, 0);
	py_run(&stack);
	for (u32 i = 0; i < 8; i++) {
		static const char *const names[] = { "main", "run", "step",  "walk",
						     "leaf", "gen", "<gen>", "last" };

		codes[i] = py_code(names[i], "/usr/lib/program.py", 10 * i + 1);
	}
}

/* An activation of the evaluator whose entry lies at @address of the C stack, with @n frames. */
static void enter(u64 address, u32 n)
{
	py_push_shim(&stack, address);
	for (u32 i = 0; i < n; i++) {
		struct py_frame *f = py_push(&stack, PY_FRAME, codes[(stack.n + i) & 7], 7 * i + 3);

		if (!i && py_has(RPROF_PYTHON_IS_ENTRY))
			f->entry = address;
	}
}

static void right(void)
{
	py_write(&stack);
	py_right(&stack);
}

static void each_version(void (*test)(u32 version))
{
	for (u32 version = 0; version < N_LAYOUTS; version++) {
		start(version);
		test(version);
		host_reset();
	}
}

/* Chains. */

static void chain(u32 version)
{
	enter(in_native(4), 3);
	enter(in_native(2), 1);
	py_push(&stack, PY_GENERATOR, codes[5], 9);
	py_push(&stack, PY_FRAME, codes[4], 0x12345);
	right();
}

static void chain_of_each_version_is_walked_to_its_end(void **state)
{
	each_version(chain);
}

static void no_frames(u32 version)
{
	struct py_seen seen;

	py_write(&stack);
	seen = py_sample();
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.stop, RPROF_STOP_END);
}

static void thread_that_runs_no_python_code_has_no_frames(void **state)
{
	each_version(no_frames);
}

/* Two that look alike to the hash of the last sample: same addresses, other callers. */
static void same_addresses(u32 version)
{
	for (u32 i = 0; i < 20; i++) {
		enter(in_native(4), 4);
		for (u32 k = 0; k < stack.n; k++)
			if (stack.frames[k].kind == PY_FRAME)
				stack.frames[k].code = codes[(k + (i & 1)) & 7];
		right();
		while (stack.n)
			py_pop(&stack);
	}
}

static void equal_addresses_with_other_callers_are_other_stacks(void **state)
{
	each_version(same_addresses);
}

static void generator_driven_from_two_places(u32 version)
{
	u64 addr = py_object_frame(&stack, 1000);

	for (u32 i = 0; i < 10; i++) {
		enter(in_native(4), 1 + i % 2);
		py_push(&stack, PY_GENERATOR, codes[5], 4)->addr = addr;
		right();
		while (stack.n)
			py_pop(&stack);
	}
}

static void generator_shows_who_drives_it_now(void **state)
{
	each_version(generator_driven_from_two_places);
}

/* Shims. */

static void shims_say_the_native_frame_they_lie_in(void **state)
{
	struct py_seen seen;

	for (u32 version = PY311; version < N_LAYOUTS; version++) {
		start(version);
		enter(in_native(5), 1);
		enter(in_native(3), 2);
		enter(in_native(0), 1);
		py_write(&stack);
		seen = py_sample();
		assert_python(&seen, &stack);
		assert_int_equal(seen.python[1].code, 1);
		assert_int_equal(seen.python[4].code, 4);
		assert_int_equal(seen.python[6].code, 6);
		host_reset();
	}
}

static void shim_in_no_native_frame_is_zero_and_the_next_is_found(void **state)
{
	struct py_seen seen;

	for (u32 version = PY311; version < N_LAYOUTS; version++) {
		start(version);
		enter(in_native(6), 1);		/* the last one: it has no known end */
		enter(in_native(4), 1);
		enter(py_alloc(64), 1);		/* another stack: a coroutine library's */
		py_write(&stack);
		seen = py_sample();
		assert_python(&seen, &stack);
		assert_int_equal(seen.python[1].code, 0);
		assert_int_equal(seen.python[3].code, 5);
		assert_int_equal(seen.python[5].code, 0);
		host_reset();
	}
}

/* What a frame says. */

static void put_instr(const struct py_frame *f, u64 value)
{
	if (py_has(RPROF_PYTHON_FRAME_OBJECTS))
		py_half(f->addr + py.p.f_instr, value);
	else
		host_poke(f->addr + py.p.f_instr, value);
}

static void expect_leaf(u32 where)
{
	struct py_seen seen = py_sample();

	assert_int_equal(seen.stop, RPROF_STOP_END);
	assert_int_equal(seen.python[0].code, stack.frames[stack.n - 1].code);
	assert_int_equal(seen.python[0].where,
			 where | (py_has(RPROF_PYTHON_FRAME_OBJECTS) ? RPROF_PY_ENTRY : 0));
}

static void expect_unlinked(void)
{
	struct py_seen seen = py_sample();

	assert_int_equal(seen.stop, RPROF_STOP_UNLINKED);
	assert_int_equal(seen.n, 1);
	assert_int_equal(seen.python[0].where, RPROF_PY_NOT_STARTED);
}

/* co_stacksize and co_nlocalsplus, 3.11, or co_framesize, 3.12: bytes that a frame takes. */
static void put_frame_size(u64 code, u64 size)
{
	u64 line = code + py.p.co_firstlineno;

	py_half(line - 4, 0);
	if (py_has(RPROF_PYTHON_IS_ENTRY))
		py_half(line + 4, size / 8 - 9);
	else
		py_half(line + 8, size / 8);
}

/* All of it may be of the first frame of an activation that was there before. */
static void expect_stale_entry_unlinked(const struct py_frame *f)
{
	const u64 previous = py_peek(f->addr + py.p.f_previous);
	const u8 yes = 1, no = 0;
	struct py_seen seen;

	host_poke(f->addr + py.p.f_previous, 0);
	host_poke_bytes(f->addr + py.p.f_entry, &yes, 1);
	seen = py_sample();
	assert_int_equal(seen.stop, RPROF_STOP_UNLINKED);
	assert_int_equal(seen.python[0].code, f->code);
	host_poke(f->addr + py.p.f_previous, previous);
	host_poke_bytes(f->addr + py.p.f_entry, &no, 1);
}

static void instructions(u32 version)
{
	const struct py_frame *f;
	u64 first;

	enter(in_native(4), 2);
	py_write(&stack);
	f = &stack.frames[stack.n - 1];
	if (py_has(RPROF_PYTHON_FRAME_OBJECTS)) {
		put_instr(f, -1);
		expect_leaf(RPROF_PY_NOT_STARTED);
		put_instr(f, 0);
		expect_leaf(0);
		put_instr(f, 0x7ffffffe);
		expect_leaf(RPROF_PY_NO_INSTR);
		return;
	}
	first = f->code + py.p.co_code;
	put_instr(f, first - 2);
	/* It may be the current frame already and have no caller yet. */
	if (py_has(RPROF_PYTHON_IS_ENTRY)) {
		const u64 stale[] = { first - 4, first + 2 * CODE_UNITS, 0, first - 2 };

		for (u32 i = 0; i < sizeof(stale) / sizeof(stale[0]); i++) {
			put_instr(f, stale[i]);
			expect_stale_entry_unlinked(f);
		}
	}
	if (py_has(RPROF_PYTHON_CFRAME)) {
		expect_unlinked();
		put_frame_size(f[-1].code, f->addr - f[-1].addr + 8);
		expect_unlinked();
		put_frame_size(f[-1].code, f->addr - f[-1].addr);
	}
	expect_leaf(RPROF_PY_NOT_STARTED);
	put_instr(f, first);
	expect_leaf(0);
	put_instr(f, first + 2 * RPROF_PY_INSTR);
	expect_leaf(RPROF_PY_INSTR);
	put_instr(f, first + 2 * RPROF_PY_INSTR + 2);
	expect_leaf(RPROF_PY_NO_INSTR);
	put_instr(f, first - 4);
	expect_leaf(RPROF_PY_NO_INSTR);
	put_instr(f, 0);
	expect_leaf(RPROF_PY_NO_INSTR);
}

static void instruction_is_counted_from_the_bytecode(void **state)
{
	each_version(instructions);
}

static void collection(u32 version)
{
	struct py_seen seen;
	u64 collecting = INTERPS + py.p.interp_collecting, frame = INTERPS + py.p.interp_gc_frame;

	if (!py_has(RPROF_PYTHON_GC_FRAME))
		return;
	enter(in_native(4), 3);
	py_write(&stack);
	host_poke(frame, stack.frames[stack.n - 2].addr);
	for (u32 runs = 0; runs < 2; runs++) {
		py_half(collecting, runs);
		seen = py_sample();
		assert_int_equal(seen.n, 4);
		for (u32 i = 0; i < seen.n; i++)
			assert_int_equal(!!(seen.python[i].where & RPROF_PY_GC), runs && i == 1);
	}
	/* Started by no frame. */
	host_poke(frame, 0);
	assert_false(py_sample().python[1].where & RPROF_PY_GC);
}

static void frame_that_started_a_running_collection_says_so(void **state)
{
	each_version(collection);
}

static void executor(u32 version)
{
	struct py_seen seen;

	enter(in_native(4), 3);
	py_write(&stack);
	if (!py.p.ts_executor)
		return;
	host_poke(stack.tstate + py.p.ts_executor, HEAP);
	seen = py_sample();
	for (u32 i = 0; i < seen.n; i++)
		assert_int_equal(!!(seen.python[i].where & RPROF_PY_COARSE), !i);
}

static void line_of_jitted_code_is_coarse(void **state)
{
	each_version(executor);
}

/* Free-threaded builds: each thread has a copy of the bytecode. */
static void copies_of_the_bytecode_are_known(void **state)
{
	struct py_frame *f;

	start(PY315T);
	enter(in_native(4), 3);
	f = &stack.frames[stack.n - 1];
	py_set_tlbc(f->code, 5);
	f->tlbc = 4;
	stack.frames[stack.n - 2].tlbc = 0;
	right();
	/* An instruction of another copy than the frame says. */
	put_instr(f, py_bytecode(f->code, 3) + 8);
	expect_leaf(RPROF_PY_NO_INSTR);
	host_poke(py_peek(f->code + py.p.co_tlbc) + 8 + 8 * 4, 0);
	expect_leaf(RPROF_PY_NO_INSTR);
	host_poke(f->code + py.p.co_tlbc, 0);
	expect_leaf(RPROF_PY_NO_INSTR);
	host_poke(f->code + py.p.co_tlbc, 8);
	expect_leaf(RPROF_PY_NO_INSTR);
	py_half(f->addr + py.p.f_tlbc, 0xffffffff);
	expect_leaf(RPROF_PY_NO_INSTR);
}

/* Depth. */

/* Reads of the interpreter's memory that the walk of a stack takes when its codes are known. */
static u64 count_reads(u32 depth)
{
	u64 reads;

	while (stack.n < depth)
		py_push(&stack, PY_FRAME, codes[stack.n & 7], stack.n);
	py_write(&stack);
	py_sample();
	reads = counter(RPROF_COUNT_PY_READS);
	assert_true(py_sample().n >= depth);
	reads = counter(RPROF_COUNT_PY_READS) - reads;
	print_message("#   depth %u: %llu reads\n", depth, reads);
	return reads;
}

/* Windows: a read for 20 frames or more; where code objects are counted, they are not read again. */
static void reads_of_a_walk_are_few(void **state)
{
	for (u32 version = 0; version < N_LAYOUTS; version++) {
		static const u32 depths[] = { 20, 100, 300, 1000 };

		start(version);
		print_message("# version %x%s\n", py.p.version, py.p.f_tlbc ? "t" : "");
		for (u32 i = 0; i < 4; i++) {
			u64 reads = count_reads(depths[i]);
			u32 own = py_has(RPROF_PYTHON_GENERATION) ? 0 : 5 * depths[i];

			if (py_has(RPROF_PYTHON_FRAME_OBJECTS))
				own += depths[i];
			assert_true(reads <= own + 8 + depths[i] / 16);
		}
		host_reset();
	}
}

static void deep(u32 version)
{
	static struct rprof_python_frame expected[RPROF_MAX_PYTHON];
	struct py_seen seen;

	while (stack.n < RPROF_MAX_PYTHON)
		py_push(&stack, PY_FRAME, codes[stack.n & 7], stack.n);
	if (py_has(RPROF_PYTHON_IS_ENTRY)) {
		stack.n--;
		stack.frames[0].entry = in_native(5);
	}
	right();
	if (!py_has(RPROF_PYTHON_FRAME_OBJECTS))
		assert_true(stack.chunk >= 5);
	while (stack.n < 1100)
		py_push(&stack, PY_FRAME, codes[stack.n & 7], stack.n);
	py_write(&stack);
	seen = py_sample();
	assert_int_equal(py_expect(&stack, expected), RPROF_MAX_PYTHON);
	assert_python_frames(&seen, expected, RPROF_MAX_PYTHON, RPROF_STOP_DEPTH);
	assert_int_equal(counter(RPROF_STOP_DEPTH), 1);
}

static void deeper_stacks_than_a_record_lose_their_root(void **state)
{
	each_version(deep);
}

/* Ends that are none. */

/* The frame that linked to @at cannot go on: the record has those before it. */
static void expect_end(u32 n, u32 stop, u64 next)
{
	static struct rprof_python_frame expected[RPROF_MAX_PYTHON];
	struct py_seen seen = py_sample();

	assert_true(py_expect(&stack, expected) >= n);
	if (next) {
		u64 from = stack.frames[stack.n - n].addr;

		expected[n++] = (struct rprof_python_frame){ .code = next, .where = RPROF_PY_NEXT };
		expected[n++] = (struct rprof_python_frame){ .code = from, .where = RPROF_PY_NEXT };
	}
	assert_python_frames(&seen, expected, n, stop);
}

static void bad_links(u32 version)
{
	u64 link;

	enter(in_native(4), 12);
	py_write(&stack);
	/* 4 frames stand, the fourth says where the next one is. */
	link = stack.frames[stack.n - 4].addr + py.p.f_previous;
	host_poke(link, 0xffff888000001000ULL);
	expect_end(4, RPROF_STOP_FAULT, 0xffff888000001000ULL);
	host_poke(link, 0x7f2f00000000ULL);
	expect_end(4, RPROF_STOP_FAULT, 0x7f2f00000000ULL);
	host_poke(link, ~7ULL);
	expect_end(4, RPROF_STOP_FAULT, ~7ULL);
	host_poke(link, stack.frames[stack.n - 5].addr + 4);
	expect_end(4, RPROF_STOP_UNALIGNED, 0);
	host_poke(link, link - py.p.f_previous);
	expect_end(4, RPROF_STOP_BAD_FRAME, 0);
	host_poke(link, HEAP + HEAP_SIZE - 256); /* zeros */
	expect_end(4, RPROF_STOP_BAD_FRAME, 0);
	if (py_has(RPROF_PYTHON_BASE_FRAME)) {
		host_poke(link, 0);
		expect_end(4, RPROF_STOP_BAD_FRAME, 0);
	}
}

static void link_to_what_is_no_frame_ends_the_walk(void **state)
{
	each_version(bad_links);
}

static void cycle(u32 version)
{
	struct py_seen seen;

	enter(in_native(4), 12);
	py_write(&stack);
	host_poke(stack.frames[stack.n - 4].addr + py.p.f_previous, stack.frames[stack.n - 1].addr);
	seen = py_sample();
	assert_int_equal(seen.stop, RPROF_STOP_DEPTH);
	assert_int_equal(seen.n, RPROF_MAX_PYTHON);
}

static void cycle_is_too_deep(void **state)
{
	each_version(cycle);
}

static void page_that_is_absent(u32 version)
{
	if (py_has(RPROF_PYTHON_FRAME_OBJECTS))
		return;
	while (stack.n < 150)
		py_push(&stack, PY_FRAME, codes[stack.n & 7], stack.n);
	if (py_has(RPROF_PYTHON_IS_ENTRY))
		stack.frames[0].entry = in_native(5);
	py_write(&stack);
	host_user_hole(py_chunk(0) + HOST_PAGE);
	for (u32 i = stack.n; i--;) {
		u64 addr = stack.frames[i].addr;

		if ((addr - py_chunk(0)) / HOST_PAGE <= 1) {
			expect_end(stack.n - 1 - i, RPROF_STOP_FAULT, addr);
			return;
		}
	}
	fail();
}

static void absent_page_ends_the_walk_at_the_frame_in_it(void **state)
{
	each_version(page_that_is_absent);
}

static void bad_codes(u32 version)
{
	const struct py_frame *f;
	u64 code, at;

	enter(in_native(4), 5);
	py_write(&stack);
	f = &stack.frames[stack.n - 3];
	at = f->addr + py.p.f_code;
	for (u32 tag = 1; tag < 8; tag++) {
		bool fits = tag == 1 && py.p.f_tags;

		host_poke(at, f->code | tag);
		if (fits)
			py_right(&stack);
		else
			expect_end(2, RPROF_STOP_BAD_FRAME, 0);
	}
	for (code = 0; code < 4; code++) { /* no object, and tagged numbers */
		host_poke(at, code);
		expect_end(2, RPROF_STOP_BAD_FRAME, 0);
	}
	/* Another type's object. */
	py_freed();
	host_poke(at, f->code);
	host_poke(f->code + py.p.co_type, CODE_TYPE + 8);
	expect_end(2, RPROF_STOP_BAD_FRAME, 0);
}

static void what_is_no_code_object_ends_the_walk(void **state)
{
	each_version(bad_codes);
}

static void lost_code(u32 version)
{
	static struct rprof_python_frame expected[RPROF_MAX_PYTHON];
	struct py_seen seen;
	u32 n;

	enter(in_native(4), 5);
	stack.frames[stack.n - 2].code = 0x7f2f00000000ULL;
	py_write(&stack);
	n = py_expect(&stack, expected);
	expected[1].fingerprint = 0;
	seen = py_sample();
	assert_python_frames(&seen, expected, n, RPROF_STOP_END);
}

static void code_object_that_cannot_be_read_has_no_fingerprint(void **state)
{
	each_version(lost_code);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(chain_of_each_version_is_walked_to_its_end),
		THREAD_TEST(thread_that_runs_no_python_code_has_no_frames),
		THREAD_TEST(equal_addresses_with_other_callers_are_other_stacks),
		THREAD_TEST(generator_shows_who_drives_it_now),
		THREAD_TEST(shims_say_the_native_frame_they_lie_in),
		THREAD_TEST(shim_in_no_native_frame_is_zero_and_the_next_is_found),
		THREAD_TEST(instruction_is_counted_from_the_bytecode),
		THREAD_TEST(frame_that_started_a_running_collection_says_so),
		THREAD_TEST(line_of_jitted_code_is_coarse),
		THREAD_TEST(copies_of_the_bytecode_are_known),
		THREAD_TEST(reads_of_a_walk_are_few),
		THREAD_TEST(deeper_stacks_than_a_record_lose_their_root),
		THREAD_TEST(link_to_what_is_no_frame_ends_the_walk),
		THREAD_TEST(cycle_is_too_deep),
		THREAD_TEST(absent_page_ends_the_walk_at_the_frame_in_it),
		THREAD_TEST(what_is_no_code_object_ends_the_walk),
		THREAD_TEST(code_object_that_cannot_be_read_has_no_fingerprint),
	};

	return cmocka_run_group_tests_name("python", tests, NULL, NULL);
}
