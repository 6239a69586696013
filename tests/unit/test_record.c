// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "record.h"

/* Room for the largest STACK and one word more. */
static union {
	__u64 words[RPROF_MAX_STACK_LEN / sizeof(__u64) + 2];
	struct rprof_header h;
	struct rprof_sample sample;
	struct rprof_stack stack;
	struct rprof_space space;
	struct rprof_code code;
} r;

static struct rprof_native_frame *native(void)
{
	return (struct rprof_native_frame *)record_native(&r.stack);
}

static void make_stack(unsigned int n_kernel, unsigned int n_native)
{
	memset(&r, 0, sizeof(r));
	r.h.type = RPROF_RECORD_STACK;
	r.h.len = sizeof(r.stack) + n_kernel * 8 + n_native * sizeof(struct rprof_native_frame);
	r.stack.n_kernel = n_kernel;
	r.stack.n_native = n_native;
	r.stack.tgid = 1234;
	memcpy(r.stack.comm, "a;b\n\xff\x01 [x] 0123456", sizeof(r.stack.comm));
	for (unsigned int i = 0; i < n_native; i++)
		native()[i].flags = i ? RPROF_HOW_CHAIN : RPROF_HOW_PC;
}

static struct rprof_python_frame *python(void)
{
	return (struct rprof_python_frame *)record_python(&r.stack);
}

static void make_python(unsigned int n_native, unsigned int n_python)
{
	make_stack(1, n_native);
	r.stack.n_python = n_python;
	r.h.len += n_python * sizeof(struct rprof_python_frame);
	for (unsigned int i = 0; i < n_python; i++) {
		python()[i].code = 0x7f0000000000 + 64 * i;
		python()[i].fingerprint = i + 1;
	}
}

static struct rprof_code_text *part(int i)
{
	return &r.code.parts[i];
}

static void make_part(int i, unsigned int length, unsigned int kind, unsigned int captured)
{
	*part(i) = (struct rprof_code_text){
		.addr = 0x7f0000001000,
		.length = length,
		.kind = kind,
		.captured = captured,
	};
	r.h.len += (captured + 7) & ~7u;
}

/* A name of 7 bytes, a file name of 4 characters and a line table. */
static void make_code(void)
{
	memset(&r, 0, sizeof(r));
	r.h.type = RPROF_RECORD_CODE;
	r.h.len = sizeof(r.code);
	r.code.fingerprint = 1;
	make_part(RPROF_CODE_NAME, 7, 1, 7);
	make_part(RPROF_CODE_FILE, 4, 4, 16);
	make_part(RPROF_CODE_LINES, 9, 1, 9);
}

static void make_sample(void)
{
	memset(&r, 0, sizeof(r));
	r.h.type = RPROF_RECORD_SAMPLE;
	r.h.len = sizeof(r.sample);
	r.sample.tid = 1;
}

static void make_space(void)
{
	memset(&r, 0, sizeof(r));
	r.h.type = RPROF_RECORD_SPACE;
	r.h.len = sizeof(r.space);
	r.space.why = RPROF_SPACE_EXEC;
}

static int check(void)
{
	return record_check(&r, r.h.len);
}

static void accepts_what_the_kernel_side_sends(void **state)
{
	make_sample();
	assert_int_equal(check(), 0);
	make_space();
	assert_int_equal(check(), 0);
	make_stack(3, 5);
	assert_int_equal(check(), 0);
	make_python(5, 7);
	assert_int_equal(check(), 0);
	make_code();
	assert_int_equal(check(), 0);
}

static void accepts_a_stack_without_frames_and_the_largest(void **state)
{
	make_stack(0, 0);
	assert_int_equal(check(), 0);
	make_stack(RPROF_MAX_KERNEL, RPROF_MAX_NATIVE);
	r.stack.n_python = RPROF_MAX_PYTHON;
	r.h.len += RPROF_MAX_PYTHON * sizeof(struct rprof_python_frame);
	assert_int_equal(r.h.len, RPROF_MAX_STACK_LEN);
	assert_int_equal(check(), 0);
}

static void refuses_sizes_that_are_not_the_records(void **state)
{
	make_stack(3, 5);
	for (size_t size = 0; size < r.h.len; size++)
		assert_int_equal(record_check(&r, size), -EINVAL);
	assert_int_equal(record_check(&r, r.h.len + 8), -EINVAL);

	make_sample();
	r.h.len += 8;
	assert_int_equal(check(), -EINVAL);
	r.h.len -= 16;
	assert_int_equal(check(), -EINVAL);

	make_space();
	r.h.len += 8;
	assert_int_equal(check(), -EINVAL);

	make_stack(0, 0);
	r.h.len -= 8;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_null_and_unaligned_data(void **state)
{
	make_sample();
	assert_int_equal(record_check(NULL, 48), -EINVAL);
	memmove((char *)&r + 4, &r, sizeof(r.sample));
	assert_int_equal(record_check((char *)&r + 4, sizeof(r.sample)), -EINVAL);
}

static void refuses_counts_that_do_not_fit_the_length(void **state)
{
	make_stack(3, 5);
	r.stack.n_kernel++;
	assert_int_equal(check(), -EINVAL);
	make_stack(3, 5);
	r.stack.n_native--;
	assert_int_equal(check(), -EINVAL);
	/* Same length, so only the frames can tell: flags of a kernel address are no flags. */
	make_stack(2, 5);
	r.stack.n_kernel = 4;
	r.stack.n_native = 4;
	memset(native(), 0xff, 4 * sizeof(*native()));
	assert_int_equal(check(), -EINVAL);
}

static void refuses_counts_above_the_limits(void **state)
{
	make_stack(RPROF_MAX_KERNEL, 0);
	r.stack.n_kernel++;
	r.h.len += 8;
	assert_int_equal(check(), -EINVAL);

	make_stack(0, RPROF_MAX_NATIVE);
	r.stack.n_native++;
	r.h.len += sizeof(struct rprof_native_frame);
	assert_int_equal(check(), -EINVAL);

	make_stack(0, 0);
	r.stack.n_python = 1;
	assert_int_equal(check(), -EINVAL);

	make_python(0, RPROF_MAX_PYTHON);
	assert_int_equal(check(), 0);
	r.stack.n_python++;
	r.h.len += sizeof(struct rprof_python_frame);
	assert_int_equal(check(), -EINVAL);
}

static void refuses_a_shim_in_a_frame_that_is_not_there(void **state)
{
	make_python(5, 2);
	python()[1] = (struct rprof_python_frame){ .code = 5, .where = RPROF_PY_SHIM };
	assert_int_equal(check(), 0);
	python()[1].code = 0;
	assert_int_equal(check(), 0);
	python()[1].code = 6;
	assert_int_equal(check(), -EINVAL);
	python()[1].code = 1ull << 32;
	assert_int_equal(check(), -EINVAL);
	python()[1].code = 5;
	python()[1].where |= RPROF_PY_NEXT;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_code_whose_lengths_do_not_fit(void **state)
{
	make_code();
	for (size_t size = 0; size < r.h.len; size++)
		assert_int_equal(record_check(&r, size), -EINVAL);
	r.h.len += 8;
	assert_int_equal(check(), -EINVAL);
	/* Not all of it, and more than there is. */
	make_code();
	part(RPROF_CODE_LINES)->captured--;
	assert_int_equal(check(), -EINVAL);
	make_code();
	part(RPROF_CODE_NAME)->length = 0x10000007;
	part(RPROF_CODE_NAME)->kind = 4;
	assert_int_equal(check(), -EINVAL);
	make_code();
	part(RPROF_CODE_NAME)->captured = 0;
	assert_int_equal(check(), -EINVAL);
	r.h.len -= 8;
	assert_int_equal(check(), 0);
}

static void refuses_parts_above_their_limits(void **state)
{
	static const unsigned int limits[] = { RPROF_MAX_CODE_NAME, RPROF_MAX_CODE_FILE,
					       RPROF_MAX_CODE_LINES };

	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		make_code();
		r.h.len -= (part(i)->captured + 7) & ~7u;
		make_part(i, limits[i], 1, limits[i]);
		assert_int_equal(check(), 0);
		r.h.len -= limits[i];
		make_part(i, limits[i] + 1, 1, limits[i] + 1);
		assert_int_equal(check(), -EINVAL);
	}
}

static void refuses_kinds_of_text_that_there_are_not(void **state)
{
	for (unsigned int kind = 0; kind < 256; kind++) {
		memset(&r, 0, sizeof(r));
		r.h.type = RPROF_RECORD_CODE;
		r.h.len = sizeof(r.code);
		r.code.fingerprint = 1;
		make_part(RPROF_CODE_NAME, 1, kind, kind);
		assert_int_equal(check(), kind == 1 || kind == 2 || kind == 4 ? 0 : -EINVAL);
	}
	make_code();
	part(RPROF_CODE_LINES)->kind = 2;
	part(RPROF_CODE_LINES)->length = 4;
	part(RPROF_CODE_LINES)->captured = 8;
	r.h.len -= 8;
	assert_int_equal(check(), -EINVAL);
	make_code();
	part(RPROF_CODE_NAME)->ascii = 1;
	assert_int_equal(check(), 0);
	part(RPROF_CODE_NAME)->ascii = 2;
	assert_int_equal(check(), -EINVAL);
	make_code();
	part(RPROF_CODE_FILE)->ascii = 1;
	assert_int_equal(check(), -EINVAL);
	/* Bytes of nowhere. */
	make_code();
	part(RPROF_CODE_NAME)->addr = 0;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_code_without_a_fingerprint(void **state)
{
	make_code();
	r.code.fingerprint = 0;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_stops_that_no_stack_can_have(void **state)
{
	static const __u8 bad[] = { RPROF_STOP_LOST_RING,  RPROF_STOP_LOST_SCRATCH,
				    RPROF_STOP_LOST_SPACE, RPROF_STOP_LOST_CODE,
				    RPROF_STOP_MAX,	   0xff };

	for (size_t i = 0; i < sizeof(bad); i++) {
		make_stack(1, 1);
		r.stack.stop_kernel = bad[i];
		assert_int_equal(check(), -EINVAL);
		make_stack(1, 1);
		r.stack.stop_native = bad[i];
		assert_int_equal(check(), -EINVAL);
		make_stack(1, 1);
		r.stack.stop_python = bad[i];
		assert_int_equal(check(), -EINVAL);
	}
}

static void accepts_every_stop_of_a_walk(void **state)
{
	for (int stop = RPROF_STOP_END; stop < RPROF_STOP_LOST_RING; stop++) {
		make_stack(1, 1);
		r.stack.stop_kernel = stop;
		r.stack.stop_native = stop;
		assert_int_equal(check(), 0);
	}
	for (int stop = RPROF_STOP_NO_STATE; stop <= RPROF_STOP_BAD_FRAME; stop++) {
		make_python(1, 1);
		r.stack.stop_python = stop;
		assert_int_equal(check(), 0);
	}
}

static void refuses_unknown_ways_a_frame_was_found(void **state)
{
	make_stack(1, 4);
	native()[3].flags = (RPROF_HOW_MAX - 1) | RPROF_NATIVE_UNCHECKED | RPROF_NATIVE_UNBOUND;
	assert_int_equal(check(), 0);
	native()[3].flags = RPROF_HOW_MAX;
	assert_int_equal(check(), -EINVAL);
	native()[3].flags = 1ull << 63;
	assert_int_equal(check(), -EINVAL);
}

/* Three frames, and where the fourth one was not to be read. */
static void make_cut(void)
{
	make_stack(1, 4);
	r.stack.stop_native = RPROF_STOP_FAULT;
	native()[3] =
		(struct rprof_native_frame){ 0x7ffd00002000,
					     RPROF_NATIVE_NEXT | 64ull << RPROF_NATIVE_NEXT_SHIFT };
}

static void where_a_native_walk_stopped_is_said_last(void **state)
{
	make_cut();
	assert_int_equal(check(), 0);
	assert_int_equal(record_n_native(&r.stack), 3);
	native()[2].flags = RPROF_NATIVE_NEXT;
	assert_int_equal(check(), -EINVAL);
	/* Of another end it says nothing, and without a frame neither. */
	make_cut();
	r.stack.stop_native = RPROF_STOP_DOWN;
	assert_int_equal(check(), -EINVAL);
	make_stack(1, 1);
	r.stack.stop_native = RPROF_STOP_FAULT;
	native()[0].flags = RPROF_NATIVE_NEXT;
	assert_int_equal(check(), -EINVAL);
	make_stack(1, 0);
	assert_int_equal(record_n_native(&r.stack), 0);
}

static void native_frames_have_addresses_where_python_is_cut(void **state)
{
	make_stack(1, 3);
	native()[1].flags |= 0x7ffd00001000 << RPROF_NATIVE_LOW_SHIFT;
	assert_int_equal(check(), -EINVAL);
	r.stack.stop_python = RPROF_STOP_FAULT;
	assert_int_equal(check(), 0);
	native()[1].flags |= RPROF_NATIVE_NEXT << 1;
	assert_int_equal(check(), -EINVAL);
}

static void where_a_python_walk_stopped_is_said_last(void **state)
{
	make_python(5, 4);
	r.stack.stop_python = RPROF_STOP_FAULT;
	python()[3].where = RPROF_PY_NEXT;
	assert_int_equal(check(), 0);
	python()[2].where = RPROF_PY_NEXT;
	assert_int_equal(check(), 0);
	python()[1].where = RPROF_PY_NEXT;
	assert_int_equal(check(), -EINVAL);
	make_python(5, 4);
	python()[2].where = RPROF_PY_NEXT;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_reserved_bytes_that_are_set(void **state)
{
	make_stack(1, 1);
	r.stack.reserved[6] = 1;
	assert_int_equal(check(), -EINVAL);
	make_sample();
	r.sample.reserved[0] = 1;
	assert_int_equal(check(), -EINVAL);
	make_space();
	r.space.reserved[0] = 1;
	assert_int_equal(check(), -EINVAL);
	make_code();
	r.code.reserved[2] = 1;
	assert_int_equal(check(), -EINVAL);
}

static void refuses_unknown_reasons_for_a_space(void **state)
{
	make_space();
	r.space.why = 0;
	assert_int_equal(check(), -EINVAL);
	r.space.why = RPROF_SPACE_MAPPING + 1;
	assert_int_equal(check(), -EINVAL);
}

static void unknown_types_and_flags_can_be_skipped(void **state)
{
	make_sample();
	r.h.type = RPROF_RECORD_SPACE + 1;
	assert_int_equal(check(), -ENOTSUP);
	r.h.type = 0xffff;
	assert_int_equal(check(), -ENOTSUP);
	make_sample();
	r.h.flags = 1;
	assert_int_equal(check(), -ENOTSUP);
	/* But only by a length that can be believed. */
	assert_int_equal(record_check(&r, sizeof(r.sample) - 8), -EINVAL);
}

static void parts_of_a_stack_are_where_the_kernel_put_them(void **state)
{
	make_stack(3, 5);
	assert_ptr_equal(record_kernel(&r.stack), r.words + 8);
	assert_ptr_equal(record_native(&r.stack), r.words + 11);
	assert_ptr_equal(record_python(&r.stack), r.words + 21);
	make_code();
	assert_ptr_equal(record_code_part(&r.code, RPROF_CODE_NAME), r.words + 12);
	assert_ptr_equal(record_code_part(&r.code, RPROF_CODE_FILE), r.words + 13);
	assert_ptr_equal(record_code_part(&r.code, RPROF_CODE_LINES), r.words + 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepts_what_the_kernel_side_sends),
		cmocka_unit_test(accepts_a_stack_without_frames_and_the_largest),
		cmocka_unit_test(refuses_sizes_that_are_not_the_records),
		cmocka_unit_test(refuses_null_and_unaligned_data),
		cmocka_unit_test(refuses_counts_that_do_not_fit_the_length),
		cmocka_unit_test(refuses_counts_above_the_limits),
		cmocka_unit_test(refuses_a_shim_in_a_frame_that_is_not_there),
		cmocka_unit_test(refuses_code_whose_lengths_do_not_fit),
		cmocka_unit_test(refuses_parts_above_their_limits),
		cmocka_unit_test(refuses_kinds_of_text_that_there_are_not),
		cmocka_unit_test(refuses_code_without_a_fingerprint),
		cmocka_unit_test(refuses_stops_that_no_stack_can_have),
		cmocka_unit_test(accepts_every_stop_of_a_walk),
		cmocka_unit_test(refuses_unknown_ways_a_frame_was_found),
		cmocka_unit_test(where_a_native_walk_stopped_is_said_last),
		cmocka_unit_test(native_frames_have_addresses_where_python_is_cut),
		cmocka_unit_test(where_a_python_walk_stopped_is_said_last),
		cmocka_unit_test(refuses_reserved_bytes_that_are_set),
		cmocka_unit_test(refuses_unknown_reasons_for_a_space),
		cmocka_unit_test(unknown_types_and_flags_can_be_skipped),
		cmocka_unit_test(parts_of_a_stack_are_where_the_kernel_put_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
