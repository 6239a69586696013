// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Code objects: their fingerprints, what is captured of them, and that it is done once. */
#include "thread.h"

#include "../unit/python_layout.h"

/* Laid out as by CPython 3.13. The heap; two pages at its end are holes. */
#define HEAP 0x7e0000000000ULL
#define HEAP_SIZE 0x20000ULL
#define HOLE (HEAP + HEAP_SIZE - 2 * HOST_PAGE)
#define CODE (HEAP + 0x1000)
#define NAME (HEAP + 0x4000)
#define FILE_NAME (HEAP + 0x8000)
#define LINES (HEAP + 0xc000)
#define GENERATION 5u

static void poke_half(u64 addr, u32 half)
{
	host_poke_bytes(addr, &half, sizeof(half));
}

/* A string whose bytes may lie anywhere that is mapped. */
static void put_string(u64 addr, const void *bytes, u64 length, u32 kind, bool ascii)
{
	host_poke(addr + 16, length);
	host_poke(addr + 24, ~0ULL);
	poke_half(addr + 32, kind << 2 | 1 << 5 | (u32)ascii << 6);
	if (bytes)
		host_poke_bytes(addr + (ascii ? 40 : 56), bytes, length * kind);
}

static void put_ascii(u64 addr, const char *text)
{
	put_string(addr, text, strlen(text), 1, true);
}

static void put_lines(u64 addr, const void *bytes, u64 size)
{
	host_poke(addr + 16, size);
	if (bytes)
		host_poke_bytes(addr + 32, bytes, size);
}

static void put_code(u64 addr, u32 version)
{
	for (u64 at = 0; at < 208; at += 8)
		host_poke(addr + at, 0x0101010101010101ULL * at);
	host_poke(addr + 8, CODE_TYPE);
	poke_half(addr + 68, 10);
	poke_half(addr + 92, version);
	host_poke(addr + 112, FILE_NAME);
	host_poke(addr + 128, NAME);
	host_poke(addr + 136, LINES);
}

static struct py_scratch *py(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&rprof_pyscratch, &zero);
}

static int setup(void **state)
{
	thread_setup(state);
	host_user_region(HEAP, HEAP_SIZE);
	host_user_hole(HOLE);
	host_user_hole(HOLE + HOST_PAGE);
	put_code(CODE, 77);
	put_ascii(NAME, "Main.run");
	put_ascii(FILE_NAME, "/srv/app/main.py");
	put_lines(LINES, "\x80\x01\x88\x02\x90", 5);
	py()->p = image_layout;
	py()->execs = 3;
	py()->generation = GENERATION;
	py()->sent_budget = 32;
	host_scratch(0)->time_ns = 1000;
	host_scratch(0)->stack.tgid = TGID;
	return 0;
}

static u32 fingerprint_of(u64 code)
{
	/* Of another sample each time. */
	host_scratch(0)->time_ns++;
	assert_int_equal(code_fingerprint(0, code), 0);
	assert_int_equal(py()->code, code);
	return py()->fingerprint;
}

/* A stack of one kernel frame, two native ones and @n frames of code objects. */
static void put_stack(const u64 *codes, u32 n)
{
	struct scratch *s = host_scratch(0);

	s->stack.n_kernel = 1;
	s->stack.n_native = 2;
	s->stack.n_python = n;
	for (u32 i = 0; i < n; i++) {
		struct rprof_python_frame *f = (void *)&s->words[5 + 2 * i];

		*f = (struct rprof_python_frame){ .code = codes[i] };
		f->fingerprint = fingerprint_of(codes[i]);
	}
	s->n_words = 5 + 2 * n;
}

static struct rprof_python_frame *python_frame(u32 i)
{
	return (void *)&host_scratch(0)->words[5 + 2 * i];
}

/* Send the code of the stack that put_stack() made. */
static const struct rprof_code *send(void)
{
	u32 before = host.n_records;

	code_chunk(0, 0);
	if (host.n_records == before)
		return NULL;
	assert_int_equal(host.n_records, before + 1);
	assert_int_equal(host.records[before].flags, BPF_RB_NO_WAKEUP);
	return host.records[before].data;
}

static const struct rprof_code *send_one(void)
{
	const u64 code = CODE;
	const struct rprof_code *c;

	put_stack(&code, 1);
	c = send();
	assert_non_null(c);
	return c;
}

/* The part's bytes in the record, and that zeros pad them. */
static const u8 *bytes_of(const struct rprof_code *c, u32 part)
{
	const u8 *at = (const u8 *)(c + 1);

	for (u32 i = 0; i < RPROF_CODE_PARTS; i++) {
		u32 n = c->parts[i].captured, padded = (n + 7) & ~7u;

		if (i == part) {
			for (u32 k = n; k < padded; k++)
				assert_int_equal(at[k], 0);
			return at;
		}
		at += padded;
	}
	return NULL;
}

static void assert_part(const struct rprof_code *c, u32 part, u64 addr, u32 length, u32 kind,
			u32 captured)
{
	assert_int_equal(c->parts[part].addr, addr);
	assert_int_equal(c->parts[part].length, length);
	assert_int_equal(c->parts[part].kind, kind);
	assert_int_equal(c->parts[part].captured, captured);
}

/* hash.h, stated again. */
static u64 hash_of(u64 code)
{
	const struct rprof_config config = thread_config();
	u64 h = config.hash_seed;

	for (u64 at = 64; at < 144; at += 8) {
		u64 word;

		assert_true(host_peek(code + at, &word, sizeof(word)));
		h = rprof_mix(h, word, config.hash_key);
	}
	return h;
}

static u64 mix_text(u64 h, u64 data, u64 length, u64 n)
{
	u64 words[RPROF_TEXT_TAIL / 8] = { 0 };
	u64 size = n < RPROF_TEXT_TAIL ? n : RPROF_TEXT_TAIL;

	if (!host_peek(data + n - size, words, size))
		return h;
	return layout_mix_text(h, thread_config().hash_key, length, words);
}

static void code_with_a_version_is_one_read(void **state)
{
	host.user_reads = 0;
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(hash_of(CODE)));
	assert_int_equal(host.user_reads, 1);
	assert_int_equal(py()->reads, 1);
	assert_int_equal(py()->faults, 0);
}

static void every_word_of_the_object_counts_from_its_first(void **state)
{
	const u32 was = fingerprint_of(CODE);

	for (u64 at = 0; at < 208; at++) {
		u8 byte, other;

		if (at / 8 == 1)
			continue;
		assert_true(host_peek(CODE + at, &byte, 1));
		other = byte ^ 0x80;
		host_poke_bytes(CODE + at, &other, 1);
		if (at >= 64 && at < 144)
			assert_int_not_equal(fingerprint_of(CODE), was);
		else
			assert_int_equal(fingerprint_of(CODE), was);
		host_poke_bytes(CODE + at, &byte, 1);
	}
}

static void what_is_no_code_object_has_no_fingerprint(void **state)
{
	host_poke(CODE + 8, CODE_TYPE + 1);
	assert_int_equal(code_fingerprint(0, CODE), 2);
	assert_int_equal(code_fingerprint(0, HOLE), 1);
	assert_int_equal(code_fingerprint(0, HOLE - 100), 1);
	assert_int_equal(code_fingerprint(0, 0), 1);
	assert_int_equal(code_fingerprint(0, ~7ULL), 1);
	assert_int_equal(py()->faults, 4);
}

static void without_a_version_the_texts_count(void **state)
{
	u64 h = hash_of(CODE);

	h = mix_text(h, NAME + 40, 8, 8);
	h = mix_text(h, FILE_NAME + 40, 16, 16);
	py()->p.flags = 0;
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	put_ascii(NAME, "Main.rum");
	assert_int_not_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	put_ascii(NAME, "Main.run");
	put_ascii(FILE_NAME, "/srv/app/main.pz");
	assert_int_not_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	put_ascii(FILE_NAME, "/srv/app/main.py");
	py()->p.flags = RPROF_PYTHON_CODE_VERSION;
	put_code(CODE, 0);
	h = mix_text(mix_text(hash_of(CODE), NAME + 40, 8, 8), FILE_NAME + 40, 16, 16);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
}

static void only_the_tail_of_a_long_text_counts(void **state)
{
	u16 text[100];
	u64 h;

	for (u32 i = 0; i < 100; i++)
		text[i] = 0x400 + i;
	put_string(NAME, text, 100, 2, false);
	py()->p.flags = 0;
	h = mix_text(hash_of(CODE), NAME + 56, 100, 200);
	h = mix_text(h, FILE_NAME + 40, 16, 16);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	text[0] = 'x';
	put_string(NAME, text, 100, 2, false);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	text[99] = 'x';
	put_string(NAME, text, 100, 2, false);
	assert_int_not_equal(fingerprint_of(CODE), rprof_fingerprint(h));
}

static void texts_that_are_none_add_nothing(void **state)
{
	/* Not compact; kinds 0 and 3; ASCII of two bytes. */
	static const u32 states[] = { 1 << 2, 1 << 5, 3 << 2 | 1 << 5, 2 << 2 | 3 << 5 };
	u64 h = mix_text(hash_of(CODE), FILE_NAME + 40, 16, 16);

	py()->p.flags = 0;
	for (u32 i = 0; i < 4; i++) {
		poke_half(NAME + 32, states[i]);
		assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	}
	put_string(NAME, NULL, 1ULL << 40, 1, true);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	put_string(NAME, NULL, ~0ULL, 4, false);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
	host_poke(CODE + 128, HOLE);
	h = mix_text(hash_of(CODE), FILE_NAME + 40, 16, 16);
	assert_int_equal(fingerprint_of(CODE), rprof_fingerprint(h));
}

static void text_of_the_same_sample_is_read_once(void **state)
{
	py()->p.flags = 0;
	fingerprint_of(CODE);
	host.user_reads = 0;
	assert_int_equal(code_fingerprint(0, CODE), 0);
	assert_int_equal(host.user_reads, 1);
	fingerprint_of(CODE);
	assert_int_equal(host.user_reads, 1 + 5);
}

static void record_says_what_the_object_says(void **state)
{
	const struct rprof_code *c = send_one();

	assert_int_equal(c->h.type, RPROF_RECORD_CODE);
	assert_int_equal(c->h.flags, 0);
	assert_int_equal(c->h.len, sizeof(*c) + 8 + 16 + 8);
	assert_int_equal(c->time_ns, host_scratch(0)->time_ns);
	assert_int_equal(c->code, CODE);
	assert_int_equal(c->fingerprint, python_frame(0)->fingerprint);
	assert_int_equal(c->tgid, TGID);
	assert_int_equal(c->execs, 3);
	assert_int_equal(c->firstlineno, 10);
	assert_int_equal(c->version, 0x030d);
	assert_part(c, RPROF_CODE_NAME, NAME + 40, 8, 1, 8);
	assert_part(c, RPROF_CODE_FILE, FILE_NAME + 40, 16, 1, 16);
	assert_part(c, RPROF_CODE_LINES, LINES + 32, 5, 1, 5);
	assert_int_equal(c->parts[RPROF_CODE_NAME].ascii, 1);
	assert_int_equal(c->parts[RPROF_CODE_LINES].ascii, 0);
	assert_memory_equal(bytes_of(c, RPROF_CODE_NAME), "Main.run", 8);
	assert_memory_equal(bytes_of(c, RPROF_CODE_FILE), "/srv/app/main.py", 16);
	assert_memory_equal(bytes_of(c, RPROF_CODE_LINES), "\x80\x01\x88\x02\x90", 5);
	assert_int_equal(counter(RPROF_COUNT_CODES), 1);
}

static void kinds_2_and_4_are_captured_as_they_are(void **state)
{
	static const u16 two[] = { 'f', 0x3b1, 0x4e2d };
	static const u32 four[] = { 'g', 0x1f40d, 'h' };
	const struct rprof_code *c;

	put_string(NAME, two, 3, 2, false);
	put_string(FILE_NAME, four, 3, 4, false);
	c = send_one();
	assert_part(c, RPROF_CODE_NAME, NAME + 56, 3, 2, 6);
	assert_part(c, RPROF_CODE_FILE, FILE_NAME + 56, 3, 4, 12);
	assert_memory_equal(bytes_of(c, RPROF_CODE_NAME), two, 6);
	assert_memory_equal(bytes_of(c, RPROF_CODE_FILE), four, 12);
}

static void every_length_fits_and_one_more_is_left_to_user_space(void **state)
{
	static const struct {
		u32 part, limit;
		u64 at, data;
	} parts[] = {
		{ RPROF_CODE_NAME, RPROF_MAX_CODE_NAME, NAME, NAME + 40 },
		{ RPROF_CODE_FILE, RPROF_MAX_CODE_FILE, FILE_NAME, FILE_NAME + 40 },
		{ RPROF_CODE_LINES, RPROF_MAX_CODE_LINES, LINES, LINES + 32 },
	};
	static u8 bytes[RPROF_MAX_CODE_LINES + 1];
	u32 version = 100;

	memset(bytes, 'n', sizeof(bytes));
	for (u32 i = 0; i < 3; i++) {
		for (u32 n = 0; n <= parts[i].limit + 1;
		     n += n < 40 || n > parts[i].limit - 9 ? 1 : 31) {
			u32 captured = n <= parts[i].limit ? n : 0;
			const struct rprof_code *c;

			put_code(CODE, version++);
			if (parts[i].part == RPROF_CODE_LINES)
				put_lines(parts[i].at, bytes, n);
			else
				put_string(parts[i].at, bytes, n, 1, true);
			py()->sent_budget = 1;
			c = send_one();
			assert_part(c, parts[i].part, parts[i].data, n, 1, captured);
			assert_memory_equal(bytes_of(c, parts[i].part), bytes, captured);
			host_forget();
			setup(state);
		}
	}
}

static void the_longest_of_all_three_fit_together(void **state)
{
	static u8 bytes[RPROF_MAX_CODE_LINES];
	const struct rprof_code *c;

	memset(bytes, 'n', sizeof(bytes));
	put_string(NAME, bytes, RPROF_MAX_CODE_NAME, 1, true);
	put_string(FILE_NAME, bytes, RPROF_MAX_CODE_FILE / 4, 4, false);
	put_lines(LINES, bytes, RPROF_MAX_CODE_LINES);
	c = send_one();
	assert_int_equal(c->h.len, sizeof(*c) + RPROF_MAX_CODE_NAME + RPROF_MAX_CODE_FILE +
					   RPROF_MAX_CODE_LINES);
	assert_memory_equal(bytes_of(c, RPROF_CODE_LINES), bytes, RPROF_MAX_CODE_LINES);
}

static void what_cannot_be_read_says_where_it_is(void **state)
{
	const struct rprof_code *c;

	/* Heads that can be read, in front of a hole. */
	host_poke(CODE + 136, HOLE - 32);
	put_lines(HOLE - 32, NULL, 100);
	host_poke(CODE + 128, HOLE - 56 - 64);
	put_string(HOLE - 56 - 64, NULL, 200, 1, true);
	c = send_one();
	assert_part(c, RPROF_CODE_LINES, HOLE, 100, 1, 0);
	assert_part(c, RPROF_CODE_NAME, HOLE - 80, 200, 1, 0);
	assert_part(c, RPROF_CODE_FILE, FILE_NAME + 40, 16, 1, 16);
	assert_int_equal(c->h.len, sizeof(*c) + 16);
}

static void what_is_no_string_says_nothing(void **state)
{
	const struct rprof_code *c;

	put_string(NAME, NULL, 1ULL << 40, 4, false);
	host_poke(CODE + 112, HOLE);
	put_lines(LINES, NULL, ~0ULL);
	c = send_one();
	for (u32 i = 0; i < RPROF_CODE_PARTS; i++)
		assert_part(c, i, 0, 0, 0, 0);
	assert_int_equal(c->h.len, sizeof(*c));
}

static void code_is_sent_once(void **state)
{
	u64 codes[20];

	for (u32 i = 0; i < 20; i++)
		codes[i] = CODE;
	put_stack(codes, 16);
	assert_non_null(send());
	assert_int_equal(py()->sent_budget, 31);
	assert_null(send());
	put_stack(codes, 20);
	assert_null(send());
	/* Another process, or image, has its own. */
	py()->execs++;
	assert_non_null(send());
	host_scratch(0)->stack.tgid++;
	assert_non_null(send());
}

static void reused_address_is_sent_again(void **state)
{
	const struct rprof_code *c;

	assert_non_null(send_one());
	put_code(CODE, 78);
	c = send_one();
	assert_int_equal(c->fingerprint, python_frame(0)->fingerprint);
	assert_int_equal(host.n_records, 2);
}

static void object_that_changed_since_the_walk_is_not_sent(void **state)
{
	const u64 code = CODE;
	struct code_key key = { .code = CODE, .tgid = TGID, .execs = 3 };
	struct code_known *known;

	put_stack(&code, 1);
	put_code(CODE, 78);
	assert_null(send());
	known = bpf_map_lookup_elem(&rprof_code, &key);
	assert_non_null(known);
	/* It predicts nothing of the object that is there now. */
	assert_int_equal(known->generation, 0);
	assert_int_equal(counter(RPROF_COUNT_CODES), 0);
	assert_int_equal(counter(RPROF_STOP_LOST_CODE), 0);
}

static void sent_code_is_known_by_its_generation(void **state)
{
	struct code_key key = { .code = CODE, .tgid = TGID, .execs = 3 };
	struct code_known *known;

	send_one();
	known = bpf_map_lookup_elem(&rprof_code, &key);
	assert_non_null(known);
	assert_int_equal(known->generation, GENERATION);
	assert_int_equal(known->fingerprint, python_frame(0)->fingerprint);
	assert_int_equal(known->sent, 1);
}

static void full_ring_is_a_loss_and_tried_again_later(void **state)
{
	u64 codes[3] = { CODE, CODE + 0x200, CODE + 0x400 };

	put_code(codes[1], 78);
	put_code(codes[2], 79);
	put_stack(codes, 3);
	host.ring_size = 8;
	assert_int_equal(code_chunk(0, 0), 1);
	assert_int_equal(host.outputs, 1);
	assert_int_equal(counter(RPROF_STOP_LOST_CODE), 1);
	host.ring_size = 0;
	py()->sent_budget = 32;
	code_chunk(0, 0);
	assert_int_equal(host.n_records, 3);
	assert_int_equal(counter(RPROF_COUNT_CODES), 3);
}

static void budget_ends_it(void **state)
{
	u64 codes[3] = { CODE, CODE + 0x200, CODE + 0x400 };

	put_code(codes[1], 78);
	put_code(codes[2], 79);
	put_stack(codes, 3);
	py()->sent_budget = 2;
	assert_int_equal(code_chunk(0, 0), 1);
	assert_int_equal(host.n_records, 2);
	py()->sent_budget = 2;
	code_chunk(0, 0);
	assert_int_equal(host.n_records, 3);
}

static void frames_that_are_none_are_passed_over(void **state)
{
	u64 codes[4] = { CODE, CODE, CODE, CODE };

	put_stack(codes, 4);
	python_frame(0)->where = RPROF_PY_SHIM;
	python_frame(1)->where = RPROF_PY_NEXT;
	python_frame(2)->fingerprint = 0;
	python_frame(3)->where = RPROF_PY_SHIM;
	assert_null(send());
	python_frame(3)->where = RPROF_PY_GENERATOR | 77;
	assert_non_null(send());
}

static void a_chunk_is_sixteen_frames(void **state)
{
	u64 codes[40];

	for (u32 i = 0; i < 40; i++)
		codes[i] = CODE;
	put_stack(codes, 40);
	for (u32 i = 0; i < 17; i++)
		python_frame(i)->fingerprint = 0;
	assert_int_equal(code_chunk(0, 0), 0);
	assert_int_equal(host.n_records, 0);
	assert_int_equal(code_chunk(0, 16), 0);
	assert_int_equal(host.n_records, 1);
	assert_int_equal(code_chunk(0, 32), 1);
	assert_int_equal(code_chunk(0, 48), 1);
	assert_int_equal(code_chunk(0, ~0u - 3), 1);
}

/* Offsets are masked at use: whatever a table says, nothing beyond the scratch is touched. */
static void hostile_layouts_stay_inside(void **state)
{
	static const u16 bad[] = { 0, 1, 7, 191, 192, 193, 255, 4096, 65535 };
	const u64 code = CODE;
	u16 *first = &py()->p.co_type, *last = &py()->p.status_bit;

	for (u16 *field = first; field <= last; field++) {
		for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			py()->p = image_layout;
			py()->p.flags = i & 1 ? RPROF_PYTHON_CODE_VERSION : 0;
			put_stack(&code, 1);
			*field = bad[i];
			py()->sent_budget = 32;
			if (!code_fingerprint(0, CODE))
				python_frame(0)->fingerprint = py()->fingerprint;
			code_chunk(0, 0);
			assert_true(py()->record.h.len <=
				    sizeof(py()->record) + sizeof(py()->text));
		}
	}
}

#define CODE_TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CODE_TEST(code_with_a_version_is_one_read),
		CODE_TEST(every_word_of_the_object_counts_from_its_first),
		CODE_TEST(what_is_no_code_object_has_no_fingerprint),
		CODE_TEST(without_a_version_the_texts_count),
		CODE_TEST(only_the_tail_of_a_long_text_counts),
		CODE_TEST(texts_that_are_none_add_nothing),
		CODE_TEST(text_of_the_same_sample_is_read_once),
		CODE_TEST(record_says_what_the_object_says),
		CODE_TEST(kinds_2_and_4_are_captured_as_they_are),
		CODE_TEST(every_length_fits_and_one_more_is_left_to_user_space),
		CODE_TEST(the_longest_of_all_three_fit_together),
		CODE_TEST(what_cannot_be_read_says_where_it_is),
		CODE_TEST(what_is_no_string_says_nothing),
		CODE_TEST(code_is_sent_once),
		CODE_TEST(reused_address_is_sent_again),
		CODE_TEST(object_that_changed_since_the_walk_is_not_sent),
		CODE_TEST(sent_code_is_known_by_its_generation),
		CODE_TEST(full_ring_is_a_loss_and_tried_again_later),
		CODE_TEST(budget_ends_it),
		CODE_TEST(frames_that_are_none_are_passed_over),
		CODE_TEST(a_chunk_is_sixteen_frames),
		CODE_TEST(hostile_layouts_stay_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
