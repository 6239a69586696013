// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "python_codes.h"
#include "record.h"

#include "python_image.h"
#include "python_record.h"

static struct python_codes *codes;
static struct rprof_python layout;
static bool is_alive;
static useconds_t delay; /* of a read */

static size_t slow_read(void *ctx, const struct python_range *ranges, size_t n)
{
	usleep(delay);
	return image_read(ctx, ranges, n);
}

static const struct rprof_python *offsets(void *ctx, __u32 tgid, struct python_memory *memory)
{
	*memory = (struct python_memory){ .read = delay ? slow_read : image_read };
	return is_alive ? &layout : NULL;
}

static int setup(void **state)
{
	const struct python_codes_config config = { .hash_seed = SEED,
						    .hash_key = KEY,
						    .offsets = offsets };

	image_init();
	layout = image_layout;
	is_alive = true;
	delay = 0;
	codes = python_codes_new(&config);
	return codes ? 0 : -1;
}

static int teardown(void **state)
{
	python_codes_free(codes);
	return 0;
}

static struct rprof_python_frame frame(__u32 where)
{
	return (struct rprof_python_frame){
		.code = CODE,
		.fingerprint = rprof_fingerprint(image_hash()),
		.where = where,
	};
}

static int add(void)
{
	assert_int_equal(record_check(&r, r.code.h.len), 0);
	return python_codes_add(codes, &r.code);
}

static void assert_found(__u32 where, const char *function, __s32 line)
{
	const struct rprof_python_frame f = frame(where);
	struct python_place place;

	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	assert_string_equal(place.function, function);
	assert_string_equal(place.file, "/srv/app/main.py");
	assert_int_equal(place.line, line);
	assert_int_equal(place.coarse, !!(where & RPROF_PY_COARSE));
}

static void assert_unknown(const struct rprof_python_frame *f)
{
	struct python_place place;

	assert_int_equal(python_codes_find(codes, TGID, f, &place), -ENOENT);
}

static struct python_codes_stats stats(void)
{
	struct python_codes_stats s;

	python_codes_stats(codes, &s);
	return s;
}

static void captured_code_is_read_no_more(void **state)
{
	make_record(0);
	assert_int_equal(add(), 0);
	for (__u32 i = 0; i < 3; i++)
		assert_found(i, "Main.run", 10 + (__s32)i);
	assert_int_equal(image_reads, 0);
	assert_int_equal(stats().records, 1);
	assert_int_equal(stats().known, 1);
}

static void flags_decide_the_line(void **state)
{
	make_record(0);
	assert_int_equal(add(), 0);
	assert_found(2 | RPROF_PY_NOT_STARTED, "Main.run", 10);
	assert_found(2 | RPROF_PY_NO_INSTR, "Main.run", 0);
	assert_found(1 | RPROF_PY_COARSE | RPROF_PY_GENERATOR, "Main.run", 11);
	/* Not in the table. */
	assert_found(3, "Main.run", 0);
}

static void before_the_first_line_is_the_first_line(void **state)
{
	static const __u8 table[9] = { 0x80 | 15 << 3, 0x80 | 11 << 3, 0, 0, 0x80 | 15 << 3,
				       0x80 | 15 << 3, 0x80 | 11 << 3, 0, 0 };

	put_lines(table, sizeof(table));
	make_record(0);
	assert_int_equal(add(), 0);
	assert_found(0, "Main.run", 10);
	assert_found(1, "Main.run", 11);
	assert_found(2, "Main.run", 0);
}

static void first_line_below_1_is_none(void **state)
{
	make_record(0);
	r.code.firstlineno = -5;
	assert_int_equal(add(), 0);
	assert_found(RPROF_PY_NOT_STARTED, "Main.run", 0);
	assert_found(0, "Main.run", 0);
}

static void missing_parts_are_read_in_one_go(void **state)
{
	for (unsigned int missing = 1; missing < 8; missing++) {
		make_record(missing);
		image_reads = 0;
		assert_int_equal(add(), 0);
		assert_int_equal(image_reads, 1);
		assert_found(1, "Main.run", 11);
		python_codes_forget(codes, TGID);
	}
	assert_int_equal(stats().completed, 7);
	assert_int_equal(stats().known, 0);
}

static void parts_in_unknown_places_are_looked_for(void **state)
{
	make_record(3);
	r.code.parts[RPROF_CODE_NAME] = (struct rprof_code_text){ 0 };
	assert_int_equal(add(), 0);
	assert_int_equal(image_reads, 3);
	assert_found(1, "Main.run", 11);
}

static void missing_parts_of_a_changed_object_stay_missing(void **state)
{
	const struct rprof_python_frame was = frame(1);
	struct python_place place;

	/* Another function there by now, but its name where the old one was. */
	make_record(4);
	put_code(10, 78);
	assert_int_equal(add(), 0);
	assert_int_equal(python_codes_find(codes, TGID, &was, &place), 0);
	assert_string_equal(place.function, "Main.run");
	assert_int_equal(place.line, 0);
	python_codes_forget(codes, TGID);

	put_code(10, 77);
	make_record(1);
	put_code(10, 78);
	assert_int_equal(add(), 0);
	assert_unknown(&was);
	assert_int_equal(stats().completed, 0);
}

static void captured_parts_stay_when_others_cannot_be_read(void **state)
{
	make_record(4);
	is_alive = false;
	assert_int_equal(add(), 0);
	assert_found(1, "Main.run", 0);
	assert_found(1 | RPROF_PY_NOT_STARTED, "Main.run", 10);
}

static void code_without_a_record_is_read_whole(void **state)
{
	assert_found(2, "Main.run", 12);
	assert_int_equal(image_reads, 3);
	assert_int_equal(stats().repaired, 1);
	assert_found(1, "Main.run", 11);
	assert_int_equal(image_reads, 3);
	/* And its record, when it comes, tells nothing new. */
	make_record(0);
	assert_int_equal(add(), 0);
	assert_int_equal(stats().known, 1);
}

static void reused_address_lends_no_name(void **state)
{
	const struct rprof_python_frame was = frame(1);

	make_record(0);
	put_code(10, 78);
	put_ascii(NAME, "Main.die");
	assert_unknown(&was);
	assert_found(1, "Main.die", 11);
	/* Nor when its record comes late. */
	assert_int_equal(add(), 0);
	assert_found(1, "Main.die", 11);
	assert_int_equal(stats().unknown, 1);
}

static void what_is_unknown_is_not_asked_for_again(void **state)
{
	const struct rprof_python_frame was = frame(1);
	unsigned int reads;

	make_record(0);
	put_code(10, 78);
	assert_unknown(&was);
	reads = image_reads;
	assert_unknown(&was);
	assert_int_equal(image_reads, reads);
	assert_int_equal(stats().unknown, 2);
	assert_int_equal(stats().known, 0);
	/* Until its record comes. */
	put_code(10, 77);
	assert_int_equal(add(), 0);
	assert_found(1, "Main.run", 11);
	assert_int_equal(stats().known, 1);
}

static void frame_that_could_not_be_read_is_unknown(void **state)
{
	struct rprof_python_frame f = frame(1);

	f.fingerprint = 0;
	assert_unknown(&f);
	assert_int_equal(image_reads, 0);
}

static void what_is_no_code_object_is_unknown(void **state)
{
	struct rprof_python_frame f = frame(1);

	put_word(CODE + 8, CODE_TYPE + 8);
	assert_unknown(&f);
	f.code = IMAGE + IMAGE_SIZE - 16;
	assert_unknown(&f);
	f.code = 0;
	assert_unknown(&f);
	f.code = ~0ULL;
	assert_unknown(&f);
}

static void end_of_the_process_is_no_unknown_code(void **state)
{
	const struct rprof_python_frame f = frame(1);

	is_alive = false;
	assert_unknown(&f);
	is_alive = true;
	assert_found(1, "Main.run", 11);
}

static void names_of_every_kind_are_read(void **state)
{
	static const __u16 two[] = { 'f', 0x3b1 };
	static const __u32 four[] = { 'g', 0x1f40d };

	put_string(NAME, "caf\xe9", 4, 1, false);
	assert_found(1, "caf\xc3\xa9", 11);
	put_code(10, 78);
	put_string(NAME, two, 2, 2, false);
	assert_found(1, "f\xce\xb1", 11);
	put_code(10, 79);
	put_string(NAME, four, 2, 4, false);
	assert_found(1, "g\xf0\x9f\x90\x8d", 11);
}

static void strings_that_are_none_are_unknown(void **state)
{
	const struct rprof_python_frame f = frame(1);
	/* Not compact; kind 0; kind 3; ASCII of two bytes; a length of 2^40. */
	static const __u32 states[] = { 1 << 2, 1 << 5, 3 << 2 | 1 << 5, 2 << 2 | 3 << 5 };

	for (size_t i = 0; i < 4; i++) {
		put(NAME + 32, &states[i], 4);
		assert_unknown(&f);
		python_codes_forget(codes, TGID);
	}
	put_ascii(NAME, "Main.run");
	put_word(NAME + 16, 1ULL << 40);
	assert_unknown(&f);
	python_codes_forget(codes, TGID);
	put_word(NAME + 16, ~0ULL);
	assert_unknown(&f);
	python_codes_forget(codes, TGID);
	put_ascii(NAME, "Main.run");
	assert_found(1, "Main.run", 11);
}

static void file_name_that_is_no_string_is_said_so(void **state)
{
	const struct rprof_python_frame f = frame(1);
	struct python_place place;

	put_word(FILE_NAME + 32, 0);
	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	assert_string_equal(place.function, "Main.run");
	assert_string_equal(place.file, "[unknown file]");
}

static void line_table_that_is_too_long_is_left_out(void **state)
{
	put_word(LINES + 16, (1u << 20) + 1);
	assert_found(1, "Main.run", 0);
	assert_int_equal(stats().without_lines, 1);
	python_codes_forget(codes, TGID);
	put_word(LINES + 16, 1ULL << 40);
	assert_found(1, "Main.run", 0);
}

static void long_line_table_gives_the_same_lines(void **state)
{
	static __u8 table[300000];
	const __u32 n = sizeof(table) / 3;

	for (__u32 i = 0; i < n; i++)
		table[3 * i] = 0x80 | 11 << 3;
	put_lines(table, sizeof(table));
	for (__u32 i = 0; i < n; i += 97)
		assert_found(i, "Main.run", 11 + (__s32)i);
	assert_found(n, "Main.run", 0);
}

static void without_a_version_the_texts_count(void **state)
{
	const __u64 h = image_hash();
	struct rprof_python_frame f = frame(1);
	struct python_place place;
	__u64 with_texts;

	layout.flags = 0;
	with_texts = image_mix_text(h, NAME + 40, 8, 8);
	with_texts = image_mix_text(with_texts, FILE_NAME + 40, 16, 16);
	f.fingerprint = rprof_fingerprint(with_texts);
	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	assert_string_equal(place.function, "Main.run");
	python_codes_forget(codes, TGID);
	/* The same addresses, another text. */
	put_ascii(NAME, "Main.rum");
	assert_unknown(&f);
	put_ascii(NAME, "Main.run");
	put_ascii(FILE_NAME, "/srv/app/main.pz");
	python_codes_forget(codes, TGID);
	assert_unknown(&f);
	/* And where the version is used up. */
	python_codes_forget(codes, TGID);
	layout.flags = RPROF_PYTHON_CODE_VERSION;
	put_code(10, 0);
	put_ascii(FILE_NAME, "/srv/app/main.py");
	with_texts = image_mix_text(image_hash(), NAME + 40, 8, 8);
	with_texts = image_mix_text(with_texts, FILE_NAME + 40, 16, 16);
	f.fingerprint = rprof_fingerprint(with_texts);
	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	f.fingerprint = rprof_fingerprint(image_hash());
	assert_unknown(&f);
}

static void only_the_last_bytes_of_a_text_count(void **state)
{
	struct rprof_python_frame f = frame(1);
	struct python_place place;
	__u16 text[200];
	__u64 h;

	for (int i = 0; i < 200; i++)
		text[i] = 0x400 + i;
	put_string(NAME, text, 200, 2, false);
	layout.flags = 0;
	h = image_mix_text(image_hash(), NAME + 56, 200, 400);
	f.fingerprint = rprof_fingerprint(image_mix_text(h, FILE_NAME + 40, 16, 16));
	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	assert_int_equal(strlen(place.function), 400);
}

static void assert_cut(__u64 length, size_t shown)
{
	struct rprof_python_frame f = frame(1);
	struct python_place place;
	__u64 h = image_mix_text(image_hash(), NAME + 40, length, length);

	put_word(NAME + 16, length);
	layout.flags = 0;
	f.fingerprint = rprof_fingerprint(image_mix_text(h, FILE_NAME + 40, 16, 16));
	python_codes_forget(codes, TGID);
	assert_int_equal(python_codes_find(codes, TGID, &f, &place), 0);
	assert_int_equal(strlen(place.function), shown);
	assert_string_equal(place.function + shown - 3, shown < length ? "..." : "nnn");
	/* Its end counts all the same. */
	put(NAME + 40 + length - 1, "m", 1);
	python_codes_forget(codes, TGID);
	assert_unknown(&f);
	put(NAME + 40 + length - 1, "n", 1);
}

static void long_name_is_cut(void **state)
{
	char name[20000];

	memset(name, 'n', sizeof(name));
	put_string(NAME, name, sizeof(name), 1, true);
	assert_cut(8192, 8192);
	assert_cut(8193, 512 + 3);
	assert_cut(sizeof(name), 512 + 3);
}

static void another_image_lends_no_name(void **state)
{
	/* Two programs at the same addresses, alike in all that the fingerprint has. */
	make_record(0);
	assert_int_equal(add(), 0);
	assert_found(1, "Main.run", 11);
	put_ascii(NAME, "Main.die");
	make_record(0);
	assert_int_equal(add(), 0);
	assert_found(1, "Main.run", 11);
	r.code.execs = 1;
	assert_int_equal(add(), 0);
	assert_found(1, "Main.die", 11);
	assert_int_equal(stats().known, 1);
}

static void reading_one_process_has_its_share_of_the_time(void **state)
{
	struct rprof_python_frame was;

	delay = 600000;
	make_record(4);
	assert_int_equal(add(), 0);
	assert_found(1, "Main.run", 11);
	assert_int_equal(image_reads, 1);
	/* What was captured of the next one stays; without a name it is as if it had not come, */
	put_code(20, 78);
	make_record(6);
	r.code.firstlineno = 20;
	assert_int_equal(add(), 0);
	was = frame(1);
	put_code(30, 79);
	make_record(1);
	assert_int_equal(add(), 0);
	assert_unknown(
		&(struct rprof_python_frame){ .code = CODE, .fingerprint = frame(1).fingerprint });
	put_code(20, 78);
	assert_int_equal(python_codes_find(codes, TGID, &was, &(struct python_place){ 0 }), 0);
	assert_int_equal(image_reads, 1);
	assert_int_equal(stats().known, 2);
	assert_int_equal(stats().without_lines, 1);
	/* and another process is read. */
	delay = 0;
	assert_int_equal(python_codes_find(codes, TGID + 1, &was, &(struct python_place){ 0 }), 0);
	assert_int_equal(image_reads, 4);
}

static void layouts_out_of_range_read_nothing_beyond(void **state)
{
	static const __u16 offsets_of[] = { 0, 7, 1000, 65535 };
	const struct rprof_python_frame f = frame(1);

	for (size_t i = 0; i < 4; i++) {
		layout = image_layout;
		layout.co_name = layout.co_filename = offsets_of[i];
		assert_unknown(&f);
		python_codes_forget(codes, TGID);
		layout = image_layout;
		layout.co_lines = layout.co_version = offsets_of[i];
		assert_unknown(&f);
		python_codes_forget(codes, TGID);
		layout = image_layout;
		layout.co_read = layout.co_from = offsets_of[i];
		assert_unknown(&f);
		python_codes_forget(codes, TGID);
	}
}

static void processes_are_forgotten_one_by_one(void **state)
{
	const struct rprof_python_frame f = frame(1);
	struct python_place place;

	for (__u32 tgid = TGID; tgid < TGID + 3; tgid++) {
		make_record(0);
		r.code.tgid = tgid;
		assert_int_equal(add(), 0);
	}
	assert_int_equal(stats().known, 3);
	python_codes_forget(codes, TGID);
	python_codes_forget(codes, TGID);
	python_codes_forget(codes, 7);
	assert_int_equal(stats().known, 2);
	is_alive = false;
	assert_unknown(&f);
	assert_int_equal(python_codes_find(codes, TGID + 1, &f, &place), 0);
	assert_int_equal(python_codes_find(codes, TGID + 2, &f, &place), 0);
}

static void who_holds_most_pays_for_memory(void **state)
{
	const struct rprof_python_frame small = frame(1);
	struct rprof_python_frame big;
	struct python_place place;

	/* 70,000 times 4,000 bytes of one process. */
	make_record(0);
	r.code.tgid = TGID + 1;
	assert_int_equal(add(), 0);
	put_lines(image, 4000);
	make_record(4);
	add_part(RPROF_CODE_LINES, LINES + 32, 4000, 1, true);
	for (__u32 i = 0; i < 70000; i++) {
		put_code(10, 1000 + i);
		big = frame(0);
		r.code.fingerprint = big.fingerprint;
		assert_int_equal(add(), 0);
	}
	assert_in_range(stats().known, 2, 65000);
	/* The last one stays, and so does the other process. */
	is_alive = false;
	assert_int_equal(python_codes_find(codes, TGID, &big, &place), 0);
	assert_int_equal(python_codes_find(codes, TGID + 1, &small, &place), 0);
}

#define CODES_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CODES_TEST(captured_code_is_read_no_more),
		CODES_TEST(long_name_is_cut),
		CODES_TEST(another_image_lends_no_name),
		CODES_TEST(reading_one_process_has_its_share_of_the_time),
		CODES_TEST(flags_decide_the_line),
		CODES_TEST(before_the_first_line_is_the_first_line),
		CODES_TEST(first_line_below_1_is_none),
		CODES_TEST(missing_parts_are_read_in_one_go),
		CODES_TEST(parts_in_unknown_places_are_looked_for),
		CODES_TEST(missing_parts_of_a_changed_object_stay_missing),
		CODES_TEST(captured_parts_stay_when_others_cannot_be_read),
		CODES_TEST(code_without_a_record_is_read_whole),
		CODES_TEST(reused_address_lends_no_name),
		CODES_TEST(what_is_unknown_is_not_asked_for_again),
		CODES_TEST(frame_that_could_not_be_read_is_unknown),
		CODES_TEST(what_is_no_code_object_is_unknown),
		CODES_TEST(end_of_the_process_is_no_unknown_code),
		CODES_TEST(names_of_every_kind_are_read),
		CODES_TEST(strings_that_are_none_are_unknown),
		CODES_TEST(file_name_that_is_no_string_is_said_so),
		CODES_TEST(line_table_that_is_too_long_is_left_out),
		CODES_TEST(long_line_table_gives_the_same_lines),
		CODES_TEST(without_a_version_the_texts_count),
		CODES_TEST(only_the_last_bytes_of_a_text_count),
		CODES_TEST(layouts_out_of_range_read_nothing_beyond),
		CODES_TEST(processes_are_forgotten_one_by_one),
		CODES_TEST(who_holds_most_pays_for_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
