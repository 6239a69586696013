// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sections written byte by byte. What compilers write is in test_cfi.c, against readelf. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch.h"
#include "eh_frame.h"

#define SECTION 0x10000ULL /* address of the section */
#define CODE 0x2000ULL /* of the function */
#define CODE_SIZE 0x100ULL

static unsigned char bytes[8192];
static size_t len;

static void put(const void *data, size_t n)
{
	assert_true(len + n <= sizeof(bytes));
	memcpy(bytes + len, data, n);
	len += n;
}

static void put_u8(__u8 v)
{
	put(&v, sizeof(v));
}

static void put_u32(__u32 v)
{
	put(&v, sizeof(v));
}

static size_t begin_entry(void)
{
	put_u32(0);
	return len;
}

static void end_entry(size_t at)
{
	__u32 n;

	while (len % 4)
		put_u8(0); /* DW_CFA_nop */
	n = (__u32)(len - at);
	memcpy(bytes + at - 4, &n, 4);
}

/* CFA = sp + 8, return address at CFA - 8; code in bytes, data in -8. */
static void put_cie(__u8 version, const char *letters)
{
	size_t at = begin_entry();

	put_u32(0);
	put_u8(version);
	put(letters, strlen(letters) + 1);
	put_u8(1);
	put_u8(0x78);
	put_u8(ARCH_REG_RA);
	if (letters[0] == 'z') {
		put_u8((__u8)(strlen(letters) - 1 - (strchr(letters, 'S') != NULL)));
		if (strchr(letters, 'R'))
			put_u8(0x1b); /* pc-relative, 4 bytes */
	}
	put_u8(0x0c); /* DW_CFA_def_cfa sp 8 */
	put_u8(ARCH_REG_SP);
	put_u8(8);
	put_u8(0x80 | ARCH_REG_RA); /* DW_CFA_offset ra 1 */
	put_u8(1);
	end_entry(at);
}

static void put_fde(__u64 start, __u32 size, const void *program, size_t n)
{
	size_t at = begin_entry();

	put_u32((__u32)at); /* the CIE is at 0 */
	put_u32((__u32)(start - (SECTION + len)));
	put_u32(size);
	put_u8(0);
	put(program, n);
	end_entry(at);
}

static struct eh_frame *load(void)
{
	void *copy = malloc(len ? len : 1);
	struct eh_frame *f = NULL;

	memcpy(copy, bytes, len);
	assert_int_equal(eh_frame_new(copy, len, SECTION, &f), 0);
	return f;
}

static struct eh_frame *load_program(const void *program, size_t n)
{
	len = 0;
	put_cie(1, "zR");
	put_fde(CODE, CODE_SIZE, program, n);
	put_u32(0);
	return load();
}

/* A number's bytes, given as little-endian. */
#define IS_LITTLE (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#define BYTES2(a, b) IS_LITTLE ? (a) : (b), IS_LITTLE ? (b) : (a)
#define BYTES4(a, b, c, d)                                                                         \
	IS_LITTLE ? (a) : (d), IS_LITTLE ? (b) : (c), IS_LITTLE ? (c) : (b), IS_LITTLE ? (d) : (a)
/* DW_OP_breg of the stack pointer and of the pc. */
#define SP_PLUS (0x70 + ARCH_REG_SP)
#define PC_PLUS (0x70 + ARCH_REG_RA)

/* Is there a row, and with which CFA offset? -1: none. */
static __s64 offset_at(const struct eh_frame *f, __u64 pc)
{
	struct eh_row row;

	if (!eh_frame_row(f, pc, &row))
		return -1;
	assert_true(row.start <= pc && pc < row.end);
	return row.cfa_known ? row.cfa_offset : -2;
}

static void assert_refused(const void *program, size_t n)
{
	struct eh_frame *f = load_program(program, n);

	assert_int_equal(offset_at(f, CODE + 5), -1);
	eh_frame_free(f);
}

#define REFUSED(...)                                                                               \
	do {                                                                                       \
		static const unsigned char p[] = { __VA_ARGS__ };                                  \
		assert_refused(p, sizeof(p));                                                      \
	} while (0)

static void rows_change_where_the_program_advances(void **state)
{
	static const unsigned char program[] = {
		0x41,
		0x0e,
		16, /* +1: CFA offset 16 */
		0x80 | ARCH_REG_FP,
		2, /* fp at CFA - 16 */
		0x02,
		3,
		0x0d,
		ARCH_REG_FP, /* +3: CFA register fp */
		0x0a, /* remember */
		0x03,
		BYTES2(0x10, 0x00),
		0x0c,
		ARCH_REG_SP,
		8, /* +16: CFA sp + 8 */
		0xc0 | ARCH_REG_FP, /* restore fp */
		0x41,
		0x0b, /* +1: recall */
	};
	struct eh_frame *f = load_program(program, sizeof(program));
	struct eh_row row;

	assert_int_equal(offset_at(f, CODE - 1), -1);
	assert_true(eh_frame_row(f, CODE, &row));
	assert_int_equal(row.start, CODE);
	assert_int_equal(row.end, CODE + 1);
	assert_int_equal(row.cfa_offset, 8);
	assert_int_equal(row.fp.kind, EH_SAME);
	assert_int_equal(row.ra.kind, EH_AT_CFA);
	assert_int_equal(row.ra.value, -8);
	assert_true(eh_frame_row(f, CODE + 3, &row));
	assert_int_equal(row.cfa_offset, 16);
	assert_int_equal(row.cfa_reg, ARCH_REG_SP);
	assert_int_equal(row.fp.value, -16);
	assert_true(eh_frame_row(f, CODE + 4, &row));
	assert_int_equal(row.cfa_reg, ARCH_REG_FP);
	assert_true(eh_frame_row(f, CODE + 20, &row));
	assert_int_equal(row.cfa_reg, ARCH_REG_SP);
	assert_int_equal(row.fp.kind, EH_SAME);
	assert_true(eh_frame_row(f, CODE + 21, &row));
	assert_int_equal(row.cfa_reg, ARCH_REG_FP);
	assert_int_equal(row.fp.kind, EH_AT_CFA);
	assert_int_equal(row.end, CODE + CODE_SIZE);
	assert_int_equal(offset_at(f, CODE + CODE_SIZE), -1);
	eh_frame_free(f);
}

static void function_is_found_among_many(void **state)
{
	struct eh_frame *f;

	len = 0;
	put_cie(1, "zR");
	/* Not in order of address, with gaps. */
	for (int i = 0; i < 200; i++) {
		const unsigned char program[] = { 0x0e, (unsigned char)(i & 0x7f) };

		put_fde(CODE + (__u64)(i * 77 % 200) * 0x40, 0x20, program, sizeof(program));
	}
	f = load();
	for (int i = 0; i < 200; i++) {
		__u64 start = CODE + (__u64)(i * 77 % 200) * 0x40;

		assert_int_equal(offset_at(f, start), i & 0x7f);
		assert_int_equal(offset_at(f, start + 0x1f), i & 0x7f);
		assert_int_equal(offset_at(f, start + 0x20), -1);
	}
	eh_frame_free(f);
}

static void signal_frame_is_told(void **state)
{
	struct eh_frame *f;
	struct eh_row row;

	len = 0;
	put_cie(1, "zRS");
	put_fde(CODE, CODE_SIZE, "", 0);
	f = load();
	assert_true(eh_frame_row(f, CODE, &row));
	assert_true(row.signal_frame);
	eh_frame_free(f);
}

/* The case that took libdw 2 GiB and 18 s: registers are numbers here, not indexes. */
static void huge_register_numbers_cost_nothing(void **state)
{
	static const unsigned char program[] = {
		0x05, 0x80, 0x80, 0x80, 0x20, 1,    0x0a, 0x0a, 0x0a, 0x06, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x07, 0xff,
		0xff, 0xff, 0xff, 0x7f, 0x09, 0xff, 0xff, 0x7f, 0xff, 0xff, 0x7f,
	};
	struct eh_frame *f = load_program(program, sizeof(program));

	assert_int_equal(offset_at(f, CODE + 5), 8);
	eh_frame_free(f);
}

static void malformed_programs_have_no_row(void **state)
{
	/* Operands beyond the end; what pads a program is 0. */
	REFUSED(0x0e, 0x80, 0x80);
	REFUSED(0x0f, 0x7f, 0x77, 0x08, 0x00, 0x00);
	REFUSED(0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
	/* A number of more than ten bytes. */
	REFUSED(0x0e, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01);
	/* Unknown instructions. */
	REFUSED(0x3f);
	REFUSED(0x17, 0);
	/* Nothing was remembered. */
	REFUSED(0x0b);
	/* Remembered more than anybody does. */
	REFUSED(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a,
		0x0a, 0x0a, 0x0a);
	/* Rows that go down: set_loc to before the function. */
	REFUSED(0x01, BYTES4(0x00, 0x10, 0xff, 0xff));
}

static void advance_that_overflows_ends_nowhere(void **state)
{
	static const unsigned char program[] = { 0x04, 0xff, 0xff, 0xff, 0xff, 0x0e, 99 };
	struct eh_frame *f = load_program(program, sizeof(program));

	assert_int_equal(offset_at(f, CODE + 5), 8);
	assert_int_equal(offset_at(f, CODE + 0xff), 8);
	eh_frame_free(f);
}

static void expressions_are_evaluated_within_bounds(void **state)
{
	static const unsigned char plt[] = { 0x0f, 11,	 SP_PLUS, 8,	PC_PLUS, 0,   0x3f,
					     0x1a, 0x3b, 0x2a,	  0x33, 0x24,	 0x22 };
	static const unsigned char squared[] = { 0x0f, 5, SP_PLUS, 0, SP_PLUS, 0, 0x1a };
	static const unsigned char doubled[] = { 0x0f, 5, SP_PLUS, 0, SP_PLUS, 0, 0x22 };
	static const unsigned char underflow[] = { 0x0f, 3, SP_PLUS, 0, 0x22 };
	static const unsigned char empty[] = { 0x0f, 0 };
	static const unsigned char two_left[] = { 0x0f, 3, SP_PLUS, 0, 0x31 };
	static const unsigned char cut_short[] = { 0x0f, 2, SP_PLUS, 0x80, 0x00 };
	static const unsigned char shifted[] = { 0x0f, 5, SP_PLUS, 0, SP_PLUS, 0, 0x24 };
	static const struct {
		const unsigned char *program;
		size_t n;
		__s64 offset;
	} cases[] = {
		{ plt, sizeof(plt), 8 },
		{ squared, sizeof(squared), 0 },
		{ doubled, sizeof(doubled), -2 },
		{ underflow, sizeof(underflow), -2 },
		{ empty, sizeof(empty), -2 },
		{ two_left, sizeof(two_left), -2 },
		{ cut_short, sizeof(cut_short), -2 },
		{ shifted, sizeof(shifted), -2 },
	};
	unsigned char deep[2 + 100];
	struct eh_frame *f;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f = load_program(cases[i].program, cases[i].n);
		assert_int_equal(offset_at(f, CODE + 5), cases[i].offset);
		eh_frame_free(f);
	}
	f = load_program(plt, sizeof(plt));
	assert_int_equal(offset_at(f, CODE + 0x1a), 8);
	assert_int_equal(offset_at(f, CODE + 0x1b), 16);
	eh_frame_free(f);
	memset(deep, 0x31, sizeof(deep));
	deep[0] = 0x0f;
	deep[1] = 100;
	f = load_program(deep, sizeof(deep));
	assert_int_equal(offset_at(f, CODE + 5), -2);
	eh_frame_free(f);
}

static void odd_headers_are_skipped_and_the_rest_stands(void **state)
{
	static const char *const letters[] = { "zPLRX", "eh", "R", "zQ", "zRRRRRRRRRRRRRRRRRR" };

	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		struct eh_frame *f;

		len = 0;
		put_cie(1, letters[i]);
		put_fde(CODE, CODE_SIZE, "", 0);
		f = load();
		assert_int_equal(offset_at(f, CODE), -1);
		eh_frame_free(f);
	}
	len = 0;
	put_cie(2, "zR");
	put_fde(CODE, CODE_SIZE, "", 0);
	eh_frame_free(load());
}

static void references_out_of_the_section_are_refused(void **state)
{
	for (__u32 back = 0; back < 0x200; back++) {
		struct eh_frame *f;
		size_t at;

		len = 0;
		put_cie(1, "zR");
		at = begin_entry();
		put_u32(back == 0x1ff ? 0xfffffff0 : back);
		put_u32((__u32)(CODE - (SECTION + len)));
		put_u32(0x100);
		put_u8(0);
		end_entry(at);
		f = load();
		/* Only its own CIE makes sense. */
		assert_int_equal(offset_at(f, CODE), back == at ? 8 : -1);
		eh_frame_free(f);
	}
}

static void lengths_out_of_the_section_end_it(void **state)
{
	static const __u32 lengths[] = { 1, 3, 0x7f, 0x7fffffff, 0xfffffff0, 0xfffffffe, ~0u };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct eh_frame *f;

		len = 0;
		put_cie(1, "zR");
		put_fde(CODE, CODE_SIZE, "", 0);
		put_u32(lengths[i]);
		put_u32(0x1234);
		f = load();
		assert_int_equal(offset_at(f, CODE), 8);
		eh_frame_free(f);
	}
}

static void empty_and_too_large_sections(void **state)
{
	struct eh_frame *f = NULL;
	char byte;

	len = 0;
	f = load();
	assert_int_equal(offset_at(f, CODE), -1);
	eh_frame_free(f);
	assert_int_equal(eh_frame_new(&byte, EH_FRAME_MAX + 1, 0, &f), -EFBIG);
}

/* Each byte of a section with all that compilers use takes every value; and each length. */
static void no_byte_can_break_it(void **state)
{
	static const unsigned char program[] = {
		0x41, 0x0e, 16,	  0x86, 2, 0x43, 0x0d, 6,    0x0a, 0x03, 0x10, 0x00, 0x0c, 7,	 8,
		0xc6, 0x41, 0x0b, 0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6,	 2,    0x76, 0,	   0x2e, 16,
	};
	unsigned char whole[sizeof(bytes)];
	size_t whole_len;

	len = 0;
	put_cie(1, "zR");
	put_fde(CODE, CODE_SIZE, program, sizeof(program));
	put_u32(0);
	whole_len = len;
	memcpy(whole, bytes, len);
	for (size_t i = 0; i < whole_len; i++) {
		for (int v = 0; v < 256; v++) {
			struct eh_frame *f;

			memcpy(bytes, whole, whole_len);
			bytes[i] = (unsigned char)v;
			len = whole_len;
			f = load();
			for (__u64 pc = CODE; pc < CODE + 40; pc += 3)
				offset_at(f, pc);
			eh_frame_free(f);
		}
		memcpy(bytes, whole, whole_len);
		len = i;
		eh_frame_free(load());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_change_where_the_program_advances),
		cmocka_unit_test(function_is_found_among_many),
		cmocka_unit_test(signal_frame_is_told),
		cmocka_unit_test(huge_register_numbers_cost_nothing),
		cmocka_unit_test(malformed_programs_have_no_row),
		cmocka_unit_test(advance_that_overflows_ends_nowhere),
		cmocka_unit_test(expressions_are_evaluated_within_bounds),
		cmocka_unit_test(odd_headers_are_skipped_and_the_rest_stands),
		cmocka_unit_test(references_out_of_the_section_are_refused),
		cmocka_unit_test(lengths_out_of_the_section_end_it),
		cmocka_unit_test(empty_and_too_large_sections),
		cmocka_unit_test(no_byte_can_break_it),
	};

	return cmocka_run_group_tests_name("eh_frame", tests, NULL, NULL);
}
