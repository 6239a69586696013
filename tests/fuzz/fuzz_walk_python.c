// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whole samples of a Python process whose memory and offsets are hostile: a thread with frames as
 * each version has them, then words of it, and of the table that says where they are, changed. The
 * walk is bounded, its record keeps the rules, and walked a second time without windows it is the
 * same; where nothing was changed, it is what the model says. tests/bpf/test_python_fuzz_x86.c runs
 * the same on seeded random bytes.
 */
#include <stdio.h>

#define HEAP_SIZE 0x20000ULL
#define FRAMES_SIZE 0x28000ULL
#include "python_seen.h"

#define MAX_READS 32768 /* two walks: a search each, and what 1,088 frames can need */

static const uint8_t *input, *input_end;
static struct py_stack stack;
static u64 codes[8];
static u32 n_changes; /* so far, of this input */
static bool bad_table; /* in this round */

static u32 byte(void)
{
	return input < input_end ? *input++ : 0;
}

static u64 word_of(u32 n)
{
	u64 value = 0;

	while (n--)
		value = value << 8 | byte();
	return value;
}

static u64 frame_address(void)
{
	return stack.n ? stack.frames[byte() % stack.n].addr : HEAP;
}

/* What a hostile word is. */
static u64 hostile(void)
{
	static const u64 numbers[] = { 0,
				       1,
				       2,
				       3,
				       7,
				       8,
				       1ULL << 31,
				       1ULL << 32,
				       1ULL << 40,
				       1ULL << 63,
				       -8ULL,
				       -1ULL,
				       0xffffULL,
				       4096,
				       STACK,
				       STACK_END - 8,
				       HEAP,
				       CHUNKS,
				       CHUNKS + CHUNK_SIZE - 8,
				       0xffff888000001000ULL };

	switch (byte() % 8) {
	case 0 ... 2:
		return numbers[byte() % (sizeof(numbers) / sizeof(*numbers))];
	case 3:
		return frame_address();
	case 4:
		return frame_address() + word_of(1);
	case 5:
		return codes[byte() % 8] | (byte() & 7);
	case 6:
		return word_of(8);
	default:
		return (byte() % 2 ? HEAP : py_chunk(byte() % 4)) + (word_of(2) & ~7ULL);
	}
}

/* A place whose words the walk goes by. */
static u64 place(void)
{
	switch (byte() % 8) {
	case 0:
		return stack.tstate + byte() % 64 * 8;
	case 1:
		return codes[byte() % 8] + byte() % 32 * 8;
	case 2:
		return py_peek(codes[byte() % 8] + py.p.co_name) + byte() % 16 * 8;
	case 3:
		return RUNTIME + py.p.runtime_interpreters;
	case 4:
		return INTERPS + (byte() % 2 ? py.p.interp_threads : word_of(2) % 1024 * 8);
	default:
		return frame_address() + byte() % 16 * 8;
	}
}

static void change_memory(void)
{
	u64 at = place(), there;

	if (!host_peek(at, &there, sizeof(there)))
		return;
	n_changes++;
	host_poke(at, hostile());
}

/* Any offset; as aligned as user space has checked, so that the words of .mem are. */
static void change_table(void)
{
	static const u64 sizes[] = { 0,	  1,   7,   8,	 72,  80,  88,	   112,	   120,	   127,
				     128, 136, 192, 504, 512, 513, 0x7fff, 0x8000, 0xfff8, 0xffff };
	const u32 first = offsetof(struct rprof_python, runtime_interpreters) / 2;
	u32 at = (first + byte() % (sizeof(py.p) / 2 - first)) * 2;
	u16 value = sizes[byte() % (sizeof(sizes) / sizeof(*sizes))];

	if (at != offsetof(struct rprof_python, f_owner) &&
	    at != offsetof(struct rprof_python, f_entry) &&
	    (at < offsetof(struct rprof_python, str_kind_shift) ||
	     at > offsetof(struct rprof_python, str_ascii_bit)))
		value &= ~7;
	n_changes++;
	bad_table = true;
	memcpy((u8 *)&py.p + at, &value, sizeof(value));
	if (byte() % 16 == 0)
		py.p.flags = word_of(2);
	if (byte() % 16 == 0)
		py.p.runtime = hostile();
	py_table(&py.p);
}

static void push_some(void)
{
	for (u32 n = byte() % 64; n && stack.n < 600; n--) {
		u32 kind = byte() % 16;
		u64 address = in_native(1 + byte() % 6) + byte() % 8 * 128;
		struct py_frame *f;

		if (kind == 0)
			py_push_shim(&stack, address);
		f = py_push(&stack, kind == 1 ? PY_GENERATOR : PY_FRAME, codes[kind & 7], byte());
		if (py_has(RPROF_PYTHON_IS_ENTRY) && (kind == 0 || stack.n == 1))
			f->entry = address;
	}
}

/* Shims may lie on one another here: then the model does not say what is found. */
static bool is_plain(void)
{
	u64 last = ~0ULL;

	for (u32 i = 0; i < stack.n; i++) {
		const struct py_frame *f = &stack.frames[i];
		u64 addr = f->kind == PY_SHIM ? f->addr : f->entry;

		if (!addr)
			continue;
		if (addr + 128 > last)
			return false;
		last = addr;
	}
	return true;
}

static const char *model_wrong(const struct rprof_stack *s)
{
	static struct rprof_python_frame expected[RPROF_MAX_PYTHON];
	const struct rprof_python_frame *f =
		(const void *)((const u64 *)(s + 1) + s->n_kernel + 2 * s->n_native);
	u32 n = py_expect(&stack, expected);

	if (s->stop_python != py_ending(&stack) || s->n_python != n)
		return "not the frames that are there";
	return memcmp(f, expected, n * sizeof(*f)) ? "not what the frames say" : NULL;
}

static const char *sample_wrong(u32 round)
{
	struct bpf_perf_event_data ctx = native_regs();
	const struct rprof_sample *sample;
	u32 reads = host.user_reads;
	const char *wrong;

	rprof_clock(&ctx);
	wrong = ring_wrong();
	if (wrong)
		return wrong;
	if (host.user_reads - reads > MAX_READS)
		return "more reads than a walk can need";
	/*
	 * Later ones may know a code object that was changed without a word of it; and by a bad
	 * table a walk reads what lies beside the words that it has of a frame.
	 */
	if (!round && !bad_table && counter(RPROF_COUNT_MISMATCHES))
		return "another stack without windows";
	sample = host.records[host.n_records - 1].data;
	if (sample->h.type != RPROF_RECORD_SAMPLE)
		return "no sample";
	host_delete(&rprof_seen, sample->stack);
	if (n_changes || !is_plain())
		return NULL;
	return model_wrong(find_stack(sample->stack, host.n_records));
}

/* As if after py_start(), but quick: the maps stay, what they hold is of another image. */
static void start_again(u32 version)
{
	static u32 execs;
	u32 zero = 0;

	if (!execs++) {
		py_start(version);
		return;
	}
	host_forget();
	host_user_region(TEXT, HOST_PAGE);
	host_user_region(STACK, STACK_END - STACK);
	memset(host_scratch(0), 0, sizeof(struct scratch));
	memset(bpf_map_lookup_elem(&rprof_pyscratch, &zero), 0, sizeof(struct py_scratch));
	memset(host_cpu(), 0, sizeof(struct rprof_cpu));
	host_delete(&rprof_threads, TID);
	host_proc(TGID, execs, RPROF_PROC_FOLLOW, 0);
	host_table(0, 1, execs, FIRST, thread_mappings, N_MAPPINGS);
	py_image(version, execs);
}

static void make_process(void)
{
	static const char *const names[] = { "a", "function", "Class.method", "<lambda>" };

	start_again(byte() % N_LAYOUTS);
	py_flags(byte() % 4 ? RPROF_CONFIG_VERIFY : RPROF_CONFIG_VERIFY | RPROF_CONFIG_NO_CACHE);
	py_native(6);
	py_thread(&stack, INTERPS, 0, 0);
	py_run(&stack);
	for (u32 i = 0; i < 8; i++)
		codes[i] = py_code(names[i & 3], "file.py", i + 1);
	n_changes = 0;
	bad_table = false;
}

/* What is wrong with the samples of this input; NULL: nothing. */
static const char *input_wrong(const uint8_t *data, size_t size)
{
	input = data;
	input_end = data + size;
	make_process();
	for (u32 round = 0; round < 3 && (!round || input < input_end); round++) {
		struct rprof_python sound = py.p;
		const char *wrong;
		bool hole = byte() % 16 == 0;
		u32 n;

		for (n = round ? byte() % 8 : 0; n && stack.n; n--)
			py_pop(&stack);
		push_some();
		py_write(&stack);
		for (n = byte() % 4 ? byte() % 4 : 0; n; n--)
			change_memory();
		for (n = byte() % 4 ? 0 : byte() % 4; n; n--)
			change_table();
		if (hole && ++n_changes)
			host_user_hole(py_chunk(stack.chunk) + byte() % 4 * HOST_PAGE);
		wrong = sample_wrong(round);
		if (wrong || hole)
			return wrong;
		py.p = sound;
		py_table(&py.p);
		bad_table = false;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *wrong = input_wrong(data, size);

	if (wrong) {
		fprintf(stderr, "fuzz_walk_python: %s\n", wrong);
		abort();
	}
	return 0;
}
