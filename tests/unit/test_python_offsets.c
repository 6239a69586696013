// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "python_fields.h"
#include "python_offsets.h"
#include "python_tables_of_a_test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define WORD(n) (8 + 8 * (n))	/* of the words after the cookie */

static size_t table_named(const char *name, unsigned char *bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		if (!strcmp(real_tables[i].name, name))
			return real_table(i, bytes);
	}
	fail_msg("no table of %s", name);
	return 0;
}

static void put(unsigned char *bytes, size_t at, __u64 word)
{
	memcpy(bytes + at, &word, sizeof(word));
}

static struct rprof_python parsed(const char *name)
{
	unsigned char bytes[PYTHON_OFFSETS_MAX];
	size_t size = table_named(name, bytes);
	struct rprof_python p;
	char why[PYTHON_WHY] = "";

	if (python_offsets_parse(bytes, size, &p, why))
		fail_msg("%s: %s", name, why);
	return p;
}

static struct rprof_python builtin(__u32 version)
{
	struct python_build build = { .version = version };
	struct rprof_python p;
	char why[PYTHON_WHY] = "";

	if (python_offsets_builtin(&build, &p, why))
		fail_msg("%#x: %s", version, why);
	return p;
}

static void real_tables_are_accepted(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		struct rprof_python p = parsed(real_tables[i].name);

		assert_int_equal(p.version, real_tables[i].words[0] >> 16);
		assert_int_equal(!!(p.flags & RPROF_PYTHON_FREE_THREADED), real_tables[i].words[1]);
		assert_true(p.ts_read <= 512 && p.f_read <= 128 && p.co_read <= 192);
	}
}

/* From DWARF of Debian's python3.15. */
static void words_go_where_they_belong(void **state)
{
	struct rprof_python p = parsed("3.15");

	assert_int_equal(p.version, 0x30f);
	assert_int_equal(p.flags, RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION |
					  RPROF_PYTHON_GENERATION | RPROF_PYTHON_BASE_FRAME |
					  RPROF_PYTHON_GC_FRAME);
	assert_int_equal(p.runtime_interpreters, 936);
	assert_int_equal(p.runtime_finalizing, 912);
	assert_int_equal(p.interp_next, 7264);
	assert_int_equal(p.interp_threads, 7336);
	assert_int_equal(p.interp_generation, 7944);
	assert_int_equal(p.interp_collecting, 7400 + 112);
	assert_int_equal(p.interp_gc_frame, 7400 + 120);
	assert_int_equal(p.ts_frame, 72);
	assert_int_equal(p.ts_base_frame, 80);
	assert_int_equal(p.ts_thread_id, 176);
	assert_int_equal(p.ts_native_tid, 184);
	assert_int_equal(p.ts_chunk, 256);
	assert_int_equal(p.ts_executor, 304);
	assert_int_equal(p.ts_read, 312);
	assert_int_equal(p.f_owner, 74);
	assert_int_equal(p.f_read, 80);
	assert_int_equal(p.f_tags, 7);
	assert_int_equal(p.co_from, 64);
	assert_int_equal(p.co_version, 92);
	assert_int_equal(p.co_name, 128);
	assert_int_equal(p.co_type + p.co_read, 144);
	assert_int_equal(p.co_code, 208);
	assert_int_equal(p.str_hash, 24);
	assert_int_equal(p.str_ascii, 40);
	assert_int_equal(p.str_compact, 56);
}

static void free_threaded_builds_differ_where_they_should(void **state)
{
	struct rprof_python p = parsed("3.14t"), old = parsed("3.13t");

	assert_int_equal(p.co_type, 24);
	assert_int_equal(p.co_from, 80);
	assert_int_equal(p.co_version, 108);
	assert_int_equal(p.co_tlbc, 224);
	assert_int_equal(p.f_tlbc, 72);
	assert_int_equal(p.f_owner, 78);
	assert_int_equal(p.f_tags, 7);
	assert_int_equal(p.ts_executor, 0);
	assert_int_equal(p.str_compact, 72);
	assert_int_equal(old.f_tags, 1);
	assert_int_equal(old.f_tlbc, 0);
	assert_int_equal(old.co_name, 144);
	assert_int_equal(old.str_compact, 72);
}

static void bits_are_counted_from_either_end(void **state)
{
	struct rprof_python gil = parsed("3.14"), ft = parsed("3.14t"), old = parsed("3.13t");

	python_offsets_set_bits(&gil, false);
	assert_int_equal(gil.str_kind_shift, 2);
	assert_int_equal(gil.str_compact_bit, 5);
	assert_int_equal(gil.str_ascii_bit, 6);
	assert_int_equal(gil.status_bit, 3);
	python_offsets_set_bits(&gil, true);
	assert_int_equal(gil.str_kind_shift, 27);
	assert_int_equal(gil.str_compact_bit, 26);
	assert_int_equal(gil.str_ascii_bit, 25);
	assert_int_equal(gil.status_bit, 28);
	python_offsets_set_bits(&ft, false);
	assert_int_equal(ft.str_kind_shift, 8);
	assert_int_equal(ft.str_compact_bit, 11);
	assert_int_equal(ft.str_ascii_bit, 12);
	python_offsets_set_bits(&ft, true);
	assert_int_equal(ft.str_kind_shift, 21);
	assert_int_equal(ft.str_compact_bit, 20);
	assert_int_equal(ft.str_ascii_bit, 19);
	python_offsets_set_bits(&old, false);
	assert_int_equal(old.str_kind_shift, 2);
}

static void built_in_tables_pass_the_same_checks(void **state)
{
	struct rprof_python p = builtin(0x030912f0);

	assert_int_equal(p.flags, RPROF_PYTHON_FRAME_OBJECTS | RPROF_PYTHON_LASTI_BYTES);
	assert_int_equal(p.ts_frame, 24);
	assert_int_equal(p.f_instr, 104);
	assert_int_equal(p.co_name, 112);
	assert_int_equal(p.co_from, 16);
	assert_int_equal(p.str_ascii, 48);
	p = builtin(0x030a0000);
	assert_int_equal(p.flags, RPROF_PYTHON_FRAME_OBJECTS);
	assert_int_equal(p.f_instr, 96);
	p = builtin(0x030b07f0);
	assert_int_equal(p.flags, RPROF_PYTHON_CFRAME | RPROF_PYTHON_IS_ENTRY);
	assert_int_equal(p.runtime_current, 576);
	assert_int_equal(p.f_entry, 68);
	assert_int_equal(p.co_from, 72);
	p = builtin(0x030c01f0);
	assert_int_equal(p.flags,
			 RPROF_PYTHON_CFRAME | RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION);
	assert_int_equal(p.ts_status, 24);
	assert_int_equal(p.interp_collecting, 312);
	assert_int_equal(p.co_version, 92);
	assert_int_equal(p.co_from, p.co_firstlineno - 4);
}

static void unknown_builds_are_refused_by_name(void **state)
{
	static const struct {
		struct python_build build;
		const char *why;
	} cases[] = {
		{ { .version = 0x030812f0 }, "Python 3.8 is not supported (3.9 to 3.15 are)" },
		{ { .version = 0x020712f0 }, "Python 2.7 is not supported (3.9 to 3.15 are)" },
		{ { .version = 0x031000f0 }, "Python 3.16 is not supported (3.9 to 3.15 are)" },
		{ { .version = 0x030c00c1 },
		  "Python 3.12.0rc1 is a pre-release that is not known" },
		{ { .version = 0x030d00f0 },
		  "Python 3.13 has a table of its own, but it is not there" },
		{ { .version = 0x030c01f0, .trace_refs = true },
		  "Python 3.12 built with Py_TRACE_REFS is not supported" },
		{ { .version = 0x030c01f0, .free_threaded = true },
		  "Python 3.12 built with Py_GIL_DISABLED is not supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rprof_python p = { .execs = 7 };
		char why[PYTHON_WHY] = "";

		assert_int_equal(python_offsets_builtin(&cases[i].build, &p, why), -ENOTSUP);
		assert_string_equal(why, cases[i].why);
		assert_int_equal(p.execs, 7);
	}
}

static void heads_that_are_none_are_refused(void **state)
{
	static const struct {
		size_t at;
		__u64 word;
		int err;
		const char *why;
	} cases[] = {
		{ 0, 0, -ENOENT, "debug offsets: no cookie" },
		{ WORD(0), 0x031000f0, -ENOTSUP, "Python 3.16 is not supported (3.9 to 3.15 are)" },
		{ WORD(0), 0x030f00b4, -ENOTSUP,
		  "Python 3.15.0b4 is a pre-release that is not known" },
		{ WORD(0), 0x030c01f0, -EINVAL,
		  "debug offsets: 1024 bytes are no table of Python 3.12" },
		{ WORD(0), 1ull << 32 | 0x030f02f0, -EINVAL,
		  "debug offsets: version 0x1030f02f0 is none" },
		{ WORD(1), 2, -EINVAL, "debug offsets: free_threaded 2 is neither 0 nor 1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned char bytes[PYTHON_OFFSETS_MAX] = { 0 };
		struct rprof_python p;
		char why[PYTHON_WHY] = "";

		table_named("3.15", bytes);
		put(bytes, cases[i].at, cases[i].word);
		assert_int_equal(python_offsets_parse(bytes, sizeof(bytes), &p, why), cases[i].err);
		assert_string_equal(why, cases[i].why);
	}
}

static void fields_out_of_place_are_refused_by_name(void **state)
{
	static const struct {
		size_t at;
		__u64 word;
		const char *why;
	} cases[] = {
		{ 352, 4096,
		  "debug offsets: interpreter_frame.owner 4096 is outside the 88-byte frame" },
		{ 352, 88,
		  "debug offsets: interpreter_frame.owner 88 is outside the 88-byte frame" },
		{ 352, 60, "debug offsets: interpreter_frame.owner 60 overlaps instr_ptr at 56" },
		{ 320, 9, "debug offsets: interpreter_frame.previous 9 is not aligned to 8 bytes" },
		{ 320, 0, "debug offsets: interpreter_frame.previous 0 is no place for it" },
		{ 312, 0, "debug offsets: interpreter_frame.size 0 is no size" },
		{ 312, 4096, "debug offsets: interpreter_frame.size 4096 is more than 256" },
		{ 368, 72,
		  "debug offsets: interpreter_frame.tlbc_index 72 is a place, but this build has no such field" },
		{ 488, 40, "debug offsets: type_object.tp_name 40 is not at 24" },
		{ 432, 40, "debug offsets: code_object.localsplusnames 40 is not at 96" },
		{ 88, 7264, "debug offsets: interpreter_state.gc 7264 overlaps id at 7272" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned char bytes[PYTHON_OFFSETS_MAX] = { 0 };
		struct rprof_python p;
		char why[PYTHON_WHY] = "";

		table_named("3.15", bytes);
		put(bytes, cases[i].at, cases[i].word);
		assert_int_equal(python_offsets_parse(bytes, sizeof(bytes), &p, why), -EINVAL);
		if (!strstr(why, cases[i].why))
			fail_msg("\"%s\" instead of \"%s\"", why, cases[i].why);
	}
}

static void cut_tables_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		unsigned char bytes[PYTHON_OFFSETS_MAX];
		size_t size = real_table(i, bytes);

		for (size_t cut = 0; cut < size; cut++) {
			/* Ends where the table ends: the sanitizer sees a byte too many. */
			unsigned char *copy = malloc(cut + 1);
			struct rprof_python p;
			char why[PYTHON_WHY] = "";

			assert_non_null(copy);
			copy = realloc(copy, cut ? cut : 1);
			assert_non_null(copy);
			memcpy(copy, bytes, cut);
			assert_int_equal(python_offsets_parse(copy, cut, &p, why),
					 cut < 8 ? -ENOENT : -EINVAL);
			assert_true(*why);
			free(copy);
		}
	}
}

/* What is accepted leads no read out of a buffer or further than its ceiling. */
static void assert_bounded(const struct rprof_python *p)
{
	const __u32 co_end = p->co_type + p->co_read;

	assert_true(p->ts_read <= 512 && p->f_read <= 128 && p->co_read <= 192);
	assert_true(p->ts_next + 8u <= p->ts_read && p->ts_interp + 8u <= p->ts_read);
	assert_true(p->ts_frame + 8u <= p->ts_read && p->ts_base_frame + 8u <= p->ts_read);
	assert_true(p->ts_thread_id + 8u <= p->ts_read && p->ts_native_tid + 8u <= p->ts_read);
	assert_true(p->ts_status + 4u <= p->ts_read && p->ts_chunk + 8u <= p->ts_read);
	assert_true(!p->ts_executor || p->ts_executor + 8u <= p->ts_read);
	assert_true(p->f_code + 8u <= p->f_read && p->f_previous + 8u <= p->f_read);
	assert_true(p->f_instr + 8u <= p->f_read && p->f_owner < p->f_read);
	assert_true(p->f_entry < p->f_read && p->f_tlbc + 4u <= p->f_read);
	assert_true(p->co_from > p->co_type && p->co_from < co_end && p->co_from % 8 == 0);
	assert_true(p->co_name >= p->co_from && p->co_name + 8u <= co_end);
	assert_true(p->co_filename >= p->co_from && p->co_filename + 8u <= co_end);
	assert_true(p->co_lines >= p->co_from && p->co_lines + 8u <= co_end);
	assert_true(p->co_firstlineno >= p->co_from && p->co_firstlineno + 4u <= co_end);
	assert_true(p->co_version + 4u <= co_end && p->co_code < 512 && p->co_tlbc < 512);
	assert_true(p->runtime_interpreters < 1 << 20 && p->runtime_finalizing < 1 << 20);
	assert_true(p->interp_next < 1 << 18 && p->interp_threads < 1 << 18);
	assert_true(p->interp_collecting < 1 << 18 && p->interp_gc_frame < 1 << 18);
	assert_true(p->interp_generation < 1 << 18);
	assert_true(p->str_length < 256 && p->str_state < 256 && p->str_ascii < 256);
	assert_true(p->str_compact < 256 && p->str_hash < 256);
	assert_true(p->bytes_size < 256 && p->bytes_data < 256);
	assert_true(p->str_kind_shift <= 29 && p->str_compact_bit < 32 && p->str_ascii_bit < 32);
	assert_true(p->f_tags == 0 || p->f_tags == 1 || p->f_tags == 7);
	assert_true(p->f_code != p->f_previous && p->f_previous != p->f_instr);
	assert_true(p->co_name != p->co_filename && p->co_name != p->co_lines);
}

static const __u64 hostile[] = { 0,	     1,		 7,	     8,
				 0,	     1ull << 20, 1ull << 31, 1ull << 32,
				 1ull << 63, (__u64)-8,	 (__u64)-1 };

/* Every word; those that we use nothing of may pass if they are no worse than others. */
static void hostile_words_are_refused_or_harmless(void **state)
{
	size_t refused = 0, accepted = 0;

	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		for (size_t j = 0; j < real_tables[i].n; j++) {
			for (size_t k = 0; k < ARRAY_SIZE(hostile); k++) {
				unsigned char bytes[PYTHON_OFFSETS_MAX];
				size_t size = real_table(i, bytes);
				struct rprof_python p;
				char why[PYTHON_WHY] = "";

				/* The fifth: the struct's size, for "just behind it". */
				put(bytes, WORD(j), k == 4 ? size : hostile[k]);
				if (python_offsets_parse(bytes, size, &p, why)) {
					assert_true(*why);
					refused++;
					continue;
				}
				assert_bounded(&p);
				accepted++;
			}
		}
	}
	assert_true(refused > 5 * accepted);
}

/* The same of what the programs get: each of its places is one that they rely on. */
static void hostile_places_do_not_validate(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		const struct rprof_python good = parsed(real_tables[i].name);

		for (size_t j = 0; j < n_python_fields; j++) {
			const struct python_field *row = &python_fields[j];
			struct rprof_python p = good;
			char why[PYTHON_WHY] = "";

			if (!row->to_size)
				continue;
			memset((char *)&p + row->to, 0xff, row->to_size);
			if (!python_offsets_validate(&p, why))
				fail_msg("%s: %s may be anything", real_tables[i].name, row->name);
		}
	}
}

static void reads_that_are_too_small_do_not_validate(void **state)
{
	static const size_t reads[] = { offsetof(struct rprof_python, ts_read),
					offsetof(struct rprof_python, f_read),
					offsetof(struct rprof_python, co_read) };
	const struct rprof_python good = parsed("3.15");

	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		struct rprof_python p = good;
		char why[PYTHON_WHY] = "";
		__u16 *read = (__u16 *)((char *)&p + reads[i]);

		assert_int_equal(python_offsets_validate(&p, why), 0);
		*read -= 8;
		assert_int_equal(python_offsets_validate(&p, why), -EINVAL);
		*read = 513;
		assert_int_equal(python_offsets_validate(&p, why), -EINVAL);
	}
}

static void each_place_is_printed_once(void **state)
{
	struct rprof_python p = parsed("3.13");
	char *text = NULL, *found;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	python_offsets_print(&p, f);
	assert_int_equal(fclose(f), 0);
	found = strstr(text, "interpreter_frame.owner ");
	assert_non_null(found);
	assert_int_equal(strtoul(strchr(found, ' '), NULL, 10), 70);
	assert_null(strstr(found + 1, "interpreter_frame.owner "));
	assert_null(strstr(text, "tlbc"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_tables_are_accepted),
		cmocka_unit_test(words_go_where_they_belong),
		cmocka_unit_test(free_threaded_builds_differ_where_they_should),
		cmocka_unit_test(bits_are_counted_from_either_end),
		cmocka_unit_test(built_in_tables_pass_the_same_checks),
		cmocka_unit_test(unknown_builds_are_refused_by_name),
		cmocka_unit_test(heads_that_are_none_are_refused),
		cmocka_unit_test(fields_out_of_place_are_refused_by_name),
		cmocka_unit_test(cut_tables_are_refused),
		cmocka_unit_test(hostile_words_are_refused_or_harmless),
		cmocka_unit_test(hostile_places_do_not_validate),
		cmocka_unit_test(reads_that_are_too_small_do_not_validate),
		cmocka_unit_test(each_place_is_printed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
