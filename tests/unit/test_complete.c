// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch.h"
#include "complete.h"
#include "modules.h"
#include "monotonic.h"
#include "python_image.h"
#include "record.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

#include "complete_image.h" /* needs all of these */

static void parents_are_read_to_the_proper_end(void **state)
{
	struct completer *c = begin();
	const struct rprof_stack *whole = complete(c, 5);

	assert_non_null(whole);
	assert_native(whole, NATIVE, RPROF_STOP_END);
	assert_int_not_equal(whole->stack, cut.stack.stack);
	assert_int_equal(whole->tgid, TGID);
	completer_free(c);
}

static void other_parents_are_another_stack(void **state)
{
	struct completer *c = begin();
	const __u64 first = complete(c, 5)->stack;

	assert_int_equal(complete(c, 5)->stack, first);
	completer_pass(c, TID);
	poke(frame_at(9) + ARCH_CHAIN_RA, ra(20));
	assert_int_not_equal(complete(c, 5)->stack, first);
	completer_free(c);
}

static void page_fault_since_is_no_proof(void **state)
{
	struct completer *c = begin();

	assert_null(complete(c, 4));
	assert_failed(c, COMPLETE_UNPROVEN);
}

static void faults_that_are_not_known_are_no_proof(void **state)
{
	struct completer *c = begin();

	faults = 0;
	assert_null(complete(c, 0));
	assert_failed(c, COMPLETE_UNPROVEN);
}

static void sample_of_another_edge_begins_again(void **state)
{
	struct completer *c = begin();
	struct rprof_native_frame *f = (void *)record_native(&cut.stack);

	assert_null(complete(c, 4));
	/* The leaf has returned: one frame less was walked. */
	f[WALKED] = f[WALKED + 1];
	f[WALKED].pc = frame_at(WALKED - 1);
	cut.stack.n_native--;
	end_record();
	assert_null(complete(c, 4));
	completer_free(c);
}

static void link_that_has_changed_is_another_stack(void **state)
{
	struct completer *c = begin();

	poke(frame_at(WALKED - 1), frame_at(WALKED) + 64);
	assert_null(complete(c, 5));
	assert_failed(c, COMPLETE_CHANGED);
}

static void return_address_that_has_changed_is_another_stack(void **state)
{
	struct completer *c = begin();

	poke(frame_at(WALKED - 1) + ARCH_CHAIN_RA, ra(30));
	assert_null(complete(c, 5));
	assert_failed(c, COMPLETE_CHANGED);
}

static void link_in_a_register_is_not_followed(void **state)
{
	struct completer *c = begin();
	struct rprof_native_frame *f = (void *)record_native(&cut.stack);

	f[WALKED + 1].flags = RPROF_NATIVE_NEXT;
	end_record();
	assert_false(completer_wants(&cut.stack));
	completer_free(c);
}

static void what_the_kernel_side_alone_steps_over_completes_nothing(void **state)
{
	struct rprof_mapping *m = (void *)(uintptr_t)space_mapping(space, STACK);
	const __u32 flags = m->flags;
	struct completer *c = begin();

	m->flags |= RPROF_MAPPING_EXEC | RPROF_MAPPING_VDSO;
	poke(frame_at(9) + ARCH_CHAIN_RA, STACK);
	assert_null(complete(c, 5));
	m->flags = flags;
	assert_failed(c, COMPLETE_GONE);
}

static void bad_chains_end_the_walk(void **state)
{
	const struct {
		__u64 link;
		unsigned int stop;
	} bad[] = {
		{ 0, RPROF_STOP_END },
		{ STACK + 0x8000 + 4, RPROF_STOP_UNALIGNED },
		{ STACK + 0x8000, RPROF_STOP_DOWN },
		{ STACK_END - 8, RPROF_STOP_BOUNDS },
		{ STACK - 4096, RPROF_STOP_DOWN },
		{ ~7ULL, RPROF_STOP_BOUNDS },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct completer *c = begin();

		poke(frame_at(6), bad[i].link);
		assert_native(complete(c, 5), 7, bad[i].stop);
		completer_free(c);
	}
}

static void return_address_outside_of_code_ends_the_walk(void **state)
{
	struct completer *c = begin();

	poke(frame_at(6) + ARCH_CHAIN_RA, STACK);
	assert_native(complete(c, 5), 6, RPROF_STOP_NOT_EXEC);
	completer_free(c);
}

static void code_that_is_not_known_yet_is_unchecked(void **state)
{
	struct completer *c = begin();
	const struct rprof_stack *whole;

	poke(frame_at(6) + ARCH_CHAIN_RA, 1ULL << 40);
	whole = complete(c, 5);
	assert_int_equal(whole->n_native, 1 + NATIVE);
	assert_int_equal(record_native(whole)[7].flags, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	completer_free(c);
}

static size_t read_nothing(void *ctx, const struct python_range *ranges, size_t n)
{
	return 0;
}

static void memory_that_is_gone_completes_nothing(void **state)
{
	struct completer *c = begin();

	memory.read = read_nothing;
	assert_null(complete(c, 5));
	assert_failed(c, COMPLETE_GONE);
}

static void frames_beyond_a_record_are_cut(void **state)
{
	struct completer *c = begin();
	__u64 at = frame_at(WALKED);

	/* 16 bytes apart on x86-64; the return address lies in the next frames on s390x. */
	for (int i = 0; i < 600; i++, at += 128) {
		poke(at, at + 128);
		poke(at + ARCH_CHAIN_RA, ra(1));
	}
	assert_int_equal(complete(c, 5)->stop_native, RPROF_STOP_DEPTH);
	completer_free(c);
}

/* Python. */

static __u64 py_at(int i)
{
	return HEAP + 128ULL * i;
}

/* Frame @i from the root, which links to the one before. */
static void write_python(__u64 at, __u64 previous, __u64 code, __u8 owner, __u64 instr)
{
	poke(at, code);
	poke(at + 8, previous);
	poke(at + 56, instr);
	/* The owner is byte 70 of the frame. */
	memcpy(at >= STACK && at < STACK_END ? (__u8 *)(uintptr_t)at + 70 :
					       image + (at - IMAGE) + 70,
	       &owner, 1);
}

/* 20 frames of one code object, the first one called from an entry frame at @entry; 0: from none. */
static void write_pythons(__u64 entry)
{
	has_python = true;
	for (int i = 0; i < 20; i++)
		write_python(py_at(i), i ? py_at(i - 1) : entry, CODE, 0,
			     CODE + 200 + 2 * (__u64)i);
	if (entry)
		write_python(entry, 0, 0, 3, TEXT);
}

/* The kernel side walked down to frame 15, and of the native stack as much as @native says. */
static void cut_python(bool native)
{
	struct rprof_native_frame *f;
	struct rprof_python_frame *p;

	if (!native) {
		cut.stack.stop_native = RPROF_STOP_END;
		cut.stack.n_native = WALKED + 1;
	}
	cut.stack.stop_python = RPROF_STOP_FAULT;
	f = (void *)record_native(&cut.stack);
	for (int i = 0; i <= WALKED; i++)
		f[i].flags |= (i ? frame_at(i - 1) + ARCH_CHAIN_LOW : frame_at(0) - 64)
			      << RPROF_NATIVE_LOW_SHIFT;
	p = (void *)record_python(&cut.stack);
	for (int i = 0; i < 5; i++)
		p[i] = (struct rprof_python_frame){ CODE, 9, 19 - (__u32)i };
	p[5] = (struct rprof_python_frame){ py_at(14), 0, RPROF_PY_NEXT };
	p[6] = (struct rprof_python_frame){ py_at(15), 0, RPROF_PY_NEXT };
	cut.stack.n_python = 7;
	end_record();
}

static void assert_python(const struct rprof_stack *s, size_t n, unsigned int stop)
{
	const struct rprof_python_frame *p = record_python(s);

	assert_int_equal(s->n_python, n);
	for (size_t i = 0; i < n && i < 20; i++) {
		assert_int_equal(p[i].code, CODE);
		assert_int_equal(p[i].where, 19 - i);
		if (i >= 5)
			assert_int_equal(p[i].fingerprint, rprof_fingerprint(image_hash()));
	}
	assert_int_equal(s->stop_python, stop);
}

static void python_parents_are_read_with_their_fingerprints(void **state)
{
	const __u64 entry = frame_at(2) - 128; /* between the frames of ra(1) and ra(2) */
	struct completer *c = begin();
	const struct rprof_stack *whole;

	write_pythons(entry);
	cut_python(false);
	whole = complete(c, 5);
	assert_non_null(whole);
	assert_python(whole, 21, RPROF_STOP_END);
	assert_int_equal(record_python(whole)[20].where, RPROF_PY_SHIM);
	assert_int_equal(record_python(whole)[20].code, 3);
	assert_int_equal(record_native(whole)[2].flags, RPROF_HOW_CHAIN);
	completer_free(c);
}

static void shim_is_joined_with_a_frame_that_was_read(void **state)
{
	const __u64 entry = frame_at(WALKED + 3) - 128;
	struct completer *c = begin();
	const struct rprof_stack *whole;

	write_pythons(entry);
	cut_python(true);
	whole = complete(c, 5);
	assert_non_null(whole);
	assert_native(whole, NATIVE, RPROF_STOP_END);
	assert_python(whole, 21, RPROF_STOP_END);
	assert_int_equal(record_python(whole)[20].code, 1 + WALKED + 3);
	completer_free(c);
}

/* At the same frame, first from a register, then from memory: what was read for the first is no tail. */
static void link_that_was_in_a_register_is_of_another_run(void **state)
{
	struct completer *c = begin();
	struct rprof_native_frame *next = (void *)&record_native(&cut.stack)[WALKED + 1];
	const struct rprof_sample s[2] = { sample(5), sample(5) };
	const struct rprof_stack *whole;
	const __u64 flags = next->flags;

	write_pythons(0);
	cut_python(true);
	next->flags = RPROF_NATIVE_NEXT;
	assert_non_null(completer_complete(c, &s[0], &cut.stack, space));
	next->flags = flags;
	whole = completer_complete(c, &s[1], &cut.stack, space);
	if (whole)
		assert_int_equal(whole->n_native, 1 + NATIVE);
	completer_free(c);
}

/* The Python frames are whole: their entry frame lies where the native walk did not come. */
static void shim_of_the_record_is_joined_by_its_low_half(void **state)
{
	struct completer *c = begin();
	struct rprof_python_frame *p = (void *)record_python(&cut.stack);
	const struct rprof_stack *whole;

	p[0] = (struct rprof_python_frame){ CODE, 9, 3 };
	p[1] = (struct rprof_python_frame){ 0, (__u32)(frame_at(WALKED + 2) - 128), RPROF_PY_SHIM };
	cut.stack.n_python = 2;
	end_record();
	whole = complete(c, 5);
	assert_non_null(whole);
	assert_int_equal(record_python(whole)[1].code, 1 + WALKED + 2);
	assert_int_equal(record_python(whole)[1].fingerprint, 0);
	completer_free(c);
}

static void base_frame_is_no_activation(void **state)
{
	struct completer *c = begin();

	write_pythons(HEAP + 0x4000);
	layout.flags |= RPROF_PYTHON_BASE_FRAME;
	write_python(HEAP + 0x4000, 0, 0, 3, 0);
	cut_python(false);
	assert_python(complete(c, 5), 20, RPROF_STOP_END);
	completer_free(c);
}

static void chain_of_python_that_ends_nowhere_is_marked(void **state)
{
	struct completer *c = begin();

	write_pythons(0);
	cut_python(false);
	assert_python(complete(c, 5), 20, RPROF_STOP_BAD_FRAME);
	completer_free(c);
}

static void loop_of_python_frames_is_bounded(void **state)
{
	struct completer *c = begin();

	write_pythons(0);
	put_word(py_at(3) + 8, py_at(9));
	cut_python(false);
	assert_int_equal(complete(c, 5)->stop_python, RPROF_STOP_DEPTH);
	completer_free(c);
}

static void what_is_no_code_object_ends_the_python_frames(void **state)
{
	struct completer *c = begin();

	write_pythons(0);
	put_word(py_at(7), NAME);
	cut_python(false);
	assert_python(complete(c, 5), 12, RPROF_STOP_BAD_FRAME);
	completer_free(c);
}

static void python_link_that_has_changed_is_another_stack(void **state)
{
	struct completer *c = begin();

	write_pythons(0);
	cut_python(false);
	put_word(py_at(15) + 8, py_at(13));
	assert_null(complete(c, 5));
	assert_failed(c, COMPLETE_CHANGED);
}

static void code_of_the_linking_frame_has_changed(void **state)
{
	struct completer *c = begin();

	write_pythons(0);
	cut_python(false);
	put_word(py_at(15), NAME);
	assert_null(complete(c, 5));
	assert_failed(c, COMPLETE_CHANGED);
}

static void process_that_is_forgotten_begins_again(void **state)
{
	struct completer *c = begin();
	struct completer_stats stats;

	assert_non_null(complete(c, 5));
	completer_forget(c, TGID);
	assert_non_null(complete(c, 5));
	completer_stats(c, &stats);
	assert_int_equal(stats.completed, 2);
	assert_int_equal(stats.readings, 2);
	completer_free(c);
}

/* A process of our own, with our memory as it was. */
static void stack_of_a_real_process_is_read(void **state)
{
	struct completer *c = begin();
	const struct rprof_stack *whole;
	bool readable;
	__u64 word = 0;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	memset((void *)(uintptr_t)STACK, 0, STACK_SIZE);
	memory = python_memory_of((__u32)pid);
	readable = process_vm_readv(pid, &(struct iovec){ &word, 8 }, 1,
				    &(struct iovec){ (void *)(uintptr_t)frame_at(0), 8 }, 1,
				    0) == 8 &&
		   word == frame_at(1);
	whole = complete(c, 5);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!readable) {
		completer_free(c);
		print_message("process_vm_readv does not read a child here (user-mode qemu)\n");
		skip();
	}
	assert_non_null(whole);
	assert_native(whole, NATIVE, RPROF_STOP_END);
	completer_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parents_are_read_to_the_proper_end),
		cmocka_unit_test(other_parents_are_another_stack),
		cmocka_unit_test(page_fault_since_is_no_proof),
		cmocka_unit_test(faults_that_are_not_known_are_no_proof),
		cmocka_unit_test(sample_of_another_edge_begins_again),
		cmocka_unit_test(link_that_has_changed_is_another_stack),
		cmocka_unit_test(return_address_that_has_changed_is_another_stack),
		cmocka_unit_test(link_in_a_register_is_not_followed),
		cmocka_unit_test(what_the_kernel_side_alone_steps_over_completes_nothing),
		cmocka_unit_test(bad_chains_end_the_walk),
		cmocka_unit_test(return_address_outside_of_code_ends_the_walk),
		cmocka_unit_test(code_that_is_not_known_yet_is_unchecked),
		cmocka_unit_test(memory_that_is_gone_completes_nothing),
		cmocka_unit_test(frames_beyond_a_record_are_cut),
		cmocka_unit_test(python_parents_are_read_with_their_fingerprints),
		cmocka_unit_test(shim_is_joined_with_a_frame_that_was_read),
		cmocka_unit_test(link_that_was_in_a_register_is_of_another_run),
		cmocka_unit_test(shim_of_the_record_is_joined_by_its_low_half),
		cmocka_unit_test(base_frame_is_no_activation),
		cmocka_unit_test(chain_of_python_that_ends_nowhere_is_marked),
		cmocka_unit_test(loop_of_python_frames_is_bounded),
		cmocka_unit_test(what_is_no_code_object_ends_the_python_frames),
		cmocka_unit_test(python_link_that_has_changed_is_another_stack),
		cmocka_unit_test(code_of_the_linking_frame_has_changed),
		cmocka_unit_test(process_that_is_forgotten_begins_again),
		cmocka_unit_test(stack_of_a_real_process_is_read),
	};

	return cmocka_run_group_tests(tests, map_all, unmap_all);
}
