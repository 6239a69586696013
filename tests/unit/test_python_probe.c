// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* RPROF_TEST_PYTHON: a shell command that starts another interpreter than /usr/bin/python3. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "python_offsets.h"
#include "python_tables_of_a_test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* A process: a runtime, an interpreter, thread states, a chain of frames that share a code object. */
#define BASE 0x10000ull
#define RUNTIME BASE
#define INTERPRETER (BASE + 0x1000)
#define OBJECTS (BASE + 0x10000)
#define TSTATE (OBJECTS + 0x0)
#define OTHER (OBJECTS + 0x400)		/* thread state without frames */
#define TYPE (OBJECTS + 0x800)
#define CODE (OBJECTS + 0xa00)
#define NAME (OBJECTS + 0xc00)
#define FILE_NAME (OBJECTS + 0xd00)
#define LINES (OBJECTS + 0xe00)
#define TP_NAME (OBJECTS + 0xf00)
#define CFRAME (OBJECTS + 0xf80)
#define FRAMES (OBJECTS + 0x1000)	/* the top one first, */
#define FRAME_STEP 0x100
#define IMAGE_SIZE 0x20000

struct image {
	unsigned char bytes[IMAGE_SIZE];
	struct rprof_python p;
	unsigned int n_frames;
	unsigned long reads;
	__u64 heal_at;		/* a word that becomes another one */
	__u64 heal_word;
	unsigned long heal_after; /* reads; 0: never */
};

static void put(struct image *im, __u64 addr, const void *from, size_t len)
{
	assert_true(addr >= BASE && addr + len <= BASE + IMAGE_SIZE);
	memcpy(im->bytes + (addr - BASE), from, len);
}

static void put_word(struct image *im, __u64 addr, __u64 word)
{
	put(im, addr, &word, sizeof(word));
}

static size_t read_image(void *ctx, const struct python_range *ranges, size_t n)
{
	struct image *im = ctx;

	im->reads++;
	if (im->heal_after && im->reads == im->heal_after)
		put_word(im, im->heal_at, im->heal_word);
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].addr < BASE || ranges[i].len > IMAGE_SIZE ||
		    ranges[i].addr - BASE > IMAGE_SIZE - ranges[i].len)
			return i;
		memcpy(ranges[i].to, im->bytes + (ranges[i].addr - BASE), ranges[i].len);
	}
	return n;
}

static __u64 frame_addr(unsigned int i)
{
	return FRAMES + (__u64)i * FRAME_STEP;
}

static void put_string(struct image *im, __u64 addr, const char *text)
{
	const struct rprof_python *p = &im->p;
	__u32 state = 1u << p->str_kind_shift | 1u << p->str_compact_bit | 1u << p->str_ascii_bit;

	put_word(im, addr + p->str_length, strlen(text));
	put(im, addr + p->str_state, &state, sizeof(state));
	put(im, addr + p->str_ascii, text, strlen(text) + 1);
}

static void put_code(struct image *im)
{
	const struct rprof_python *p = &im->p;

	put_word(im, CODE + p->co_type, TYPE);
	put_word(im, TYPE + p->co_type + 16, TP_NAME);
	put(im, TP_NAME, "code", 5);
	put_word(im, CODE + p->co_name, NAME);
	put_word(im, CODE + p->co_filename, FILE_NAME);
	put_word(im, CODE + p->co_lines, LINES);
	put_string(im, NAME, "outer.inner");
	put_string(im, FILE_NAME, "/srv/a.py");
	put_word(im, LINES + p->bytes_size, 10);
}

static void put_frame(struct image *im, unsigned int i)
{
	const struct rprof_python *p = &im->p;
	__u64 frame = frame_addr(i);
	__u64 end = p->flags & RPROF_PYTHON_BASE_FRAME ? TSTATE + 0x300 : 0;

	put_word(im, frame + p->f_code, CODE);
	if (p->flags & RPROF_PYTHON_FRAME_OBJECTS)
		put(im, frame + p->f_instr, &(__s32){ 6 }, 4);
	else
		put_word(im, frame + p->f_instr, CODE + p->co_code + 8);
	put_word(im, frame + p->f_previous, i + 1 < im->n_frames ? frame_addr(i + 1) : end);
}

static void put_tstate(struct image *im, __u64 addr, __u64 next, __u64 frame)
{
	const struct rprof_python *p = &im->p;

	put_word(im, addr + p->ts_next, next);
	put_word(im, addr + p->ts_interp, INTERPRETER);
	put_word(im, addr + p->ts_frame, frame);
	put_word(im, addr + p->ts_thread_id, 0x7f1234567740);
	if (p->flags & RPROF_PYTHON_STATUS)
		put(im, addr + p->ts_status, &(__u32){ 0xb }, 4);
	if (p->flags & RPROF_PYTHON_BASE_FRAME) {
		put_word(im, addr + p->ts_base_frame, addr + 0x300);
		if (!frame)
			put_word(im, addr + p->ts_frame, addr + 0x300);
	}
	if (!(p->flags & RPROF_PYTHON_CFRAME))
		return;
	put_word(im, addr + p->ts_frame, frame ? CFRAME : CFRAME + 0x40);
	put_word(im, CFRAME + p->cframe_frame, frame ? frame : frame_addr(0));
}

static struct image *image_of(const struct rprof_python *p, unsigned int n_frames)
{
	struct image *im = calloc(1, sizeof(*im));

	assert_non_null(im);
	im->p = *p;
	im->p.runtime = RUNTIME;
	im->n_frames = n_frames;
	put_word(im, RUNTIME + p->runtime_interpreters, INTERPRETER);
	if (p->runtime_current)
		put_word(im, RUNTIME + p->runtime_current, TSTATE);
	put_word(im, INTERPRETER + p->interp_threads, OTHER);
	put_tstate(im, OTHER, TSTATE, 0);
	put_tstate(im, TSTATE, 0, frame_addr(0));
	put_code(im);
	for (unsigned int i = 0; i < n_frames; i++)
		put_frame(im, i);
	return im;
}

static void get_layout(size_t i, struct rprof_python *p)
{
	static const __u32 builtins[] = { 0x030912f0, 0x030a0df0, 0x030b07f0, 0x030c01f0 };
	struct python_build build = { 0 };
	unsigned char bytes[PYTHON_OFFSETS_MAX];
	char why[PYTHON_WHY];

	if (i < ARRAY_SIZE(real_tables)) {
		size_t size = real_table(i, bytes);

		assert_int_equal(python_offsets_parse(bytes, size, p, why), 0);
		return;
	}
	build.version = builtins[i - ARRAY_SIZE(real_tables)];
	assert_int_equal(python_offsets_builtin(&build, p, why), 0);
}

#define LAYOUTS (ARRAY_SIZE(real_tables) + 4)
#define LAYOUT_3_15 5
#define LAYOUT_3_11 (ARRAY_SIZE(real_tables) + 2)

static int probe(struct image *im, struct python_live *live, char why[PYTHON_WHY])
{
	const struct python_memory m = { .ctx = im, .read = read_image };

	*why = 0;
	return python_offsets_probe(&m, &im->p, live, why);
}

static void a_live_interpreter_holds_up_in_all_layouts(void **state)
{
	for (size_t i = 0; i < LAYOUTS; i++) {
		struct rprof_python p;
		struct python_live live;
		struct image *im;
		char why[PYTHON_WHY];

		get_layout(i, &p);
		im = image_of(&p, 3);
		if (probe(im, &live, why))
			fail_msg("layout %zu: %s", i, why);
		assert_int_equal(live.interpreter, INTERPRETER);
		assert_int_equal(live.tstate, TSTATE);
		assert_int_equal(live.frames, 3);
		assert_false(live.finalizing);
		assert_int_equal(im->p.code_type, TYPE);
		free(im);
	}
}

static struct image *image_3_15(unsigned int n_frames)
{
	struct rprof_python p;

	get_layout(LAYOUT_3_15, &p);
	assert_int_equal(p.version, 0x30f);
	return image_of(&p, n_frames);
}

static void what_is_no_interpreter_is_refused_by_name(void **state)
{
	static const struct {
		__u64 at;
		__u64 word;
		const char *why;
	} cases[] = {
		{ RUNTIME + 936, 0x20, "no interpreter can be read at 0x20" },
		{ RUNTIME + 936, (__u64)-8, "no interpreter can be read at 0xfffffffffffffff8" },
		{ INTERPRETER + 7336, 0x7ffffffffff8, "no thread state can be read" },
		{ INTERPRETER + 7400 + 112, 2, "has gc.collecting 2" },
		{ TSTATE + 16, INTERPRETER + 8, "is not of its interpreter" },
		{ TSTATE + 72, FRAMES + 4, "no frame can be read" },
		{ TSTATE + 80, 0, "has no base frame" },
		{ FRAMES + 2 * FRAME_STEP + 8, 0, "a chain of frames ends above its base frame" },
		{ TSTATE + 176, 0, "has no thread" },
		{ TSTATE + 256, 3, "has no data stack" },
		{ TSTATE + 32, 0x10, "has status 0x10" },
		{ FRAMES + 8, FRAMES, "is its own caller" },
		{ FRAMES + 72, 9 << 16, "has owner 9" },
		{ FRAMES + 0, CODE + 4096 * 1024, "no code object can be read" },
		{ FRAMES + 0, NAME, "is no code object" },
		{ FRAMES + 56, CODE + 208 + 3, "is at no instruction of its code" },
		{ FRAMES + 56, CODE, "is at no instruction of its code" },
		{ TP_NAME, 0x73656d6f63, "is no code object" },
		{ CODE + 128, LINES, "has no name" },
		{ NAME + 16, 1ull << 40, "has no name" },
		{ NAME + 32, 0x64 ^ 0x20, "has no name" },
		{ NAME + 32, 0x6c, "has no name" },
		{ CODE + 112, 0, "has no file name" },
		{ LINES + 16, (__u64)-1, "has no line table" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image *im = image_3_15(3);
		struct python_live live;
		char why[PYTHON_WHY];

		put_word(im, cases[i].at, cases[i].word);
		assert_int_equal(probe(im, &live, why), -EINVAL);
		if (!strstr(why, cases[i].why))
			fail_msg("\"%s\" instead of \"%s\"", why, cases[i].why);
		assert_int_equal(im->p.code_type, 0);
		free(im);
	}
}

/* Its place in the runtime is one that has moved between patch releases. */
static void a_current_thread_state_must_be_one(void **state)
{
	static const __u64 wrong[] = { 1, 0x7ffffffffff8, CODE, INTERPRETER };
	struct rprof_python p;
	struct image *im;
	struct python_live live;
	char why[PYTHON_WHY];

	get_layout(LAYOUT_3_11, &p);
	assert_int_equal(p.version, 0x30b);
	im = image_of(&p, 1);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		put_word(im, RUNTIME + p.runtime_current, wrong[i]);
		assert_int_equal(probe(im, &live, why), -EINVAL);
		assert_non_null(strstr(why, "the runtime's current thread state"));
	}
	put_word(im, RUNTIME + p.runtime_current, 0);
	assert_int_equal(probe(im, &live, why), 0);
	free(im);
}

static void without_frames_it_is_too_early(void **state)
{
	struct image *im = image_3_15(1);
	struct python_live live;
	char why[PYTHON_WHY];

	put_word(im, RUNTIME + 936, 0);
	assert_int_equal(probe(im, &live, why), -EAGAIN);
	assert_int_equal(live.interpreter, 0);
	put_word(im, RUNTIME + 936, INTERPRETER);
	put_word(im, TSTATE + 72, TSTATE + 0x300);
	assert_int_equal(probe(im, &live, why), -EAGAIN);
	assert_int_equal(live.interpreter, INTERPRETER);
	assert_int_equal(live.tstate, 0);
	/* Nothing but an entry frame: C code that has not called any. */
	put_word(im, TSTATE + 72, FRAMES);
	put_word(im, FRAMES + 72, 3 << 16);
	assert_int_equal(probe(im, &live, why), -EAGAIN);
	assert_string_equal(why, "no Python code runs yet");
	free(im);
}

static void an_interpreter_that_ends_is_told(void **state)
{
	struct image *im = image_3_15(1);
	struct python_live live;
	char why[PYTHON_WHY];

	put_word(im, RUNTIME + 912, TSTATE);
	assert_int_equal(probe(im, &live, why), 0);
	assert_true(live.finalizing);
	free(im);
}

static void a_known_type_is_insisted_on(void **state)
{
	struct image *im = image_3_15(1);
	struct python_live live;
	char why[PYTHON_WHY];

	im->p.code_type = TYPE + 8;
	assert_int_equal(probe(im, &live, why), -EINVAL);
	im->p.code_type = TYPE;
	put(im, TP_NAME, "edoc", 5);
	assert_int_equal(probe(im, &live, why), 0);
	free(im);
}

/* A frame that is popped while it is looked at. */
static void what_changes_meanwhile_is_tried_again(void **state)
{
	struct image *im = image_3_15(3);
	struct python_live live;
	char why[PYTHON_WHY];

	put_word(im, FRAMES + 0, NAME);
	im->heal_at = FRAMES + 0;
	im->heal_word = CODE;
	im->heal_after = 15;
	assert_int_equal(probe(im, &live, why), 0);
	assert_int_equal(live.frames, 3);
	free(im);
}

static void cycles_and_depth_have_an_end(void **state)
{
	struct image *im = image_3_15(200);
	struct python_live live;
	char why[PYTHON_WHY];

	assert_int_equal(probe(im, &live, why), 0);
	assert_int_equal(live.frames, 64);
	/* Frames 1, 2, 1 ..., thread states without frames, and interpreters. */
	put_word(im, frame_addr(2) + 8, frame_addr(1));
	assert_int_equal(probe(im, &live, why), 0);
	put_word(im, OTHER + 8, OTHER);
	im->reads = 0;
	assert_int_equal(probe(im, &live, why), -EAGAIN);
	assert_true(im->reads < 5000);
	put_word(im, INTERPRETER + 7264, INTERPRETER);
	assert_int_equal(probe(im, &live, why), -EAGAIN);
	/* The dearest: chains whose last frame is bad, over and over. */
	put_word(im, frame_addr(2) + 8, frame_addr(3));
	put_word(im, frame_addr(63) + 0, NAME);
	put_word(im, INTERPRETER + 7336, TSTATE);
	put_word(im, TSTATE + 8, TSTATE);
	im->reads = 0;
	assert_int_equal(probe(im, &live, why), -EINVAL);
	assert_true(im->reads <= 32768);
	free(im);
}

/* Any word of the image: no crash, no read that the image's end would not notice. */
static void hostile_memory_is_survived(void **state)
{
	static const __u64 hostile[] = { 1, 8, BASE, TSTATE, FRAMES, 1ull << 63, (__u64)-8 };

	for (size_t at = 0; at < 0x1400; at += 8) {
		for (size_t k = 0; k < ARRAY_SIZE(hostile); k++) {
			struct image *im = image_3_15(3);
			struct python_live live;
			char why[PYTHON_WHY];

			put_word(im, OBJECTS + at, hostile[k]);
			if (!probe(im, &live, why))
				assert_true(live.frames && live.frames <= 64 && live.tstate);
			free(im);
		}
	}
}

/* Says where its runtime is, and what it is, then goes on as it is told. */
static const char program[] =
	"import ctypes, sys, time\n"
	"def inner(how):\n"
	"    at = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))\n"
	"    print(at, sys.hexversion, id(type(inner.__code__)), flush=True)\n"
	"    while how == 'busy':\n"
	"        [str(i) for i in range(100)]\n"
	"    time.sleep(1000)\n"
	"class Text(str): pass\n"
	"exec(compile('def outer(how): inner(how)', Text('made.py'), 'exec'))\n"
	"outer(sys.argv[1])\n";

struct target {
	pid_t pid;
	unsigned long long runtime, hex, code_type;
};

static bool start(struct target *t, const char *how)
{
	const char *python = getenv("RPROF_TEST_PYTHON");
	char command[4096];
	int out[2];
	FILE *f;
	int n;

	snprintf(command, sizeof(command), "exec %s -c \"$1\" %s",
		 python ? python : "/usr/bin/python3", how);
	assert_int_equal(pipe(out), 0);
	t->pid = fork();
	assert_true(t->pid >= 0);
	if (!t->pid) {
		dup2(out[1], 1);
		close(out[0]);
		execl("/bin/sh", "sh", "-c", command, "sh", program, NULL);
		_exit(127);
	}
	close(out[1]);
	f = fdopen(out[0], "r");
	assert_non_null(f);
	n = fscanf(f, "%llu %llu %llu", &t->runtime, &t->hex, &t->code_type);
	fclose(f);
	return n == 3;
}

static void stop(struct target *t)
{
	kill(t->pid, SIGKILL);
	waitpid(t->pid, NULL, 0);
}

static void get_live_layout(const struct target *t, const struct python_memory *m,
			    struct rprof_python *p)
{
	struct python_build build = { .version = t->hex };
	unsigned char bytes[PYTHON_OFFSETS_MAX];
	char why[PYTHON_WHY] = "";
	int err;

	assert_true(python_read(m, t->runtime, bytes, sizeof(bytes)));
	err = python_offsets_parse(bytes, sizeof(bytes), p, why);
	if (err == -ENOENT)
		err = python_offsets_builtin(&build, p, why);
	if (err)
		fail_msg("%s", why);
	p->runtime = t->runtime;
}

static void probe_target(const char *how, int times)
{
	struct target t;
	struct python_memory m;
	struct rprof_python p;

	if (!start(&t, how)) {
		stop(&t);
		print_message("SKIP: /usr/bin/python3 with ctypes does not start\n");
		skip();
	}
	m = python_memory_of(t.pid);
	get_live_layout(&t, &m, &p);
	for (int i = 0; i < times; i++) {
		struct rprof_python fresh = p;
		struct python_live live;
		char why[PYTHON_WHY] = "";

		if (python_offsets_probe(&m, &fresh, &live, why)) {
			stop(&t);
			fail_msg("probe %d: %s", i, why);
		}
		assert_int_equal(fresh.code_type, t.code_type);
		assert_true(live.frames >= 3 && live.interpreter && live.tstate);
		if (!strcmp(how, "asleep"))
			assert_int_equal(live.frames, 3);
	}
	stop(&t);
}

static void a_sleeping_python_holds_up(void **state)
{
	probe_target("asleep", 100);
}

static void a_busy_python_holds_up(void **state)
{
	probe_target("busy", 2000);
}

static void a_short_read_keeps_its_completed_prefix(void **state)
{
	char a[8] = "abcdefg", b[8] = "ABCDEFG", to[3][8] = { 0 };
	const struct python_memory m = python_memory_of(getpid());
	const struct python_range ranges[] = {
		{ (uintptr_t)a, to[0], 8 },
		{ (uintptr_t)b, to[1], 8 },
		{ 8, to[2], 8 },
		{ (uintptr_t)a, to[2], 8 },
	};

	assert_int_equal(m.read(m.ctx, ranges, 4), 2);
	assert_string_equal(to[0], a);
	assert_string_equal(to[1], b);
	assert_int_equal(m.read(m.ctx, ranges, 2), 2);
	assert_int_equal(m.read(m.ctx, ranges + 2, 2), 0);
	assert_int_equal(m.read(m.ctx, ranges, 0), 0);
}

static void more_ranges_than_one_call_takes_are_read(void **state)
{
	const struct python_memory m = python_memory_of(getpid());
	struct python_range ranges[100];
	unsigned char from[100], to[100] = { 0 };

	for (size_t i = 0; i < 100; i++) {
		from[i] = (unsigned char)(i + 1);
		ranges[i] = (struct python_range){ (uintptr_t)&from[i], &to[i], 1 };
	}
	assert_int_equal(m.read(m.ctx, ranges, 100), 100);
	assert_memory_equal(from, to, sizeof(to));
	ranges[70].addr = 8;
	assert_int_equal(m.read(m.ctx, ranges, 100), 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_live_interpreter_holds_up_in_all_layouts),
		cmocka_unit_test(what_is_no_interpreter_is_refused_by_name),
		cmocka_unit_test(a_current_thread_state_must_be_one),
		cmocka_unit_test(without_frames_it_is_too_early),
		cmocka_unit_test(an_interpreter_that_ends_is_told),
		cmocka_unit_test(a_known_type_is_insisted_on),
		cmocka_unit_test(what_changes_meanwhile_is_tried_again),
		cmocka_unit_test(cycles_and_depth_have_an_end),
		cmocka_unit_test(hostile_memory_is_survived),
		cmocka_unit_test(a_short_read_keeps_its_completed_prefix),
		cmocka_unit_test(more_ranges_than_one_call_takes_are_read),
		cmocka_unit_test(a_sleeping_python_holds_up),
		cmocka_unit_test(a_busy_python_holds_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
