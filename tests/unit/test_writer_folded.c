// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "writer.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct frame leaf_first[] = {
	{ "_raw_spin_lock", FRAME_KERNEL }, { "do_syscall_64", FRAME_KERNEL },
	{ "write", FRAME_NATIVE },	    { "[caller unknown]", FRAME_MARK },
	{ "main", FRAME_NATIVE },
};

static void assert_line(const struct writer_stack *s, bool annotate, const char *expected)
{
	struct writer_options o = { .annotate = annotate };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(writer_folded.begin(f, &o), 0);
	assert_int_equal(writer_folded.stack(f, &o, s), 0);
	assert_int_equal(writer_folded.end(f, &o), 0);
	fclose(f);
	assert_string_equal(text, expected);
	free(text);
}

static void line_is_comm_then_root_to_leaf_then_count(void **state)
{
	struct writer_stack s = {
		.comm = "app",
		.frames = leaf_first,
		.n_frames = ARRAY_SIZE(leaf_first),
		.count = 42,
	};

	assert_line(&s, false, "app;main;[caller unknown];write;do_syscall_64;_raw_spin_lock 42\n");
}

static void annotate_marks_kernel_frames_only(void **state)
{
	struct writer_stack s = {
		.comm = "app",
		.frames = leaf_first,
		.n_frames = ARRAY_SIZE(leaf_first),
		.count = 1,
	};

	assert_line(&s, true,
		    "app;main;[caller unknown];write;do_syscall_64_[k];_raw_spin_lock_[k] 1\n");
}

static void first_field_has_pid_and_tid_when_asked(void **state)
{
	struct writer_stack s = { .comm = "a b", .pid = 12, .count = 1 };

	assert_line(&s, false, "a b-12 1\n");
	s.tid = 4194304;
	assert_line(&s, false, "a b-12/4194304 1\n");
	/* A tid belongs to a pid. */
	s.pid = 0;
	assert_line(&s, false, "a b 1\n");
}

static void stack_without_frames_is_its_comm(void **state)
{
	struct writer_stack s = { .comm = "idle", .count = ~0ull };

	assert_line(&s, true, "idle 18446744073709551615\n");
}

static void empty_names_are_unknown(void **state)
{
	const struct frame frames[] = { { "", FRAME_NATIVE }, { NULL, FRAME_KERNEL } };
	struct writer_stack s = { .comm = "", .frames = frames, .n_frames = 2, .count = 3 };

	assert_line(&s, false, "[unknown];[unknown];[unknown] 3\n");
}

static void hostile_names_stay_one_frame_of_one_line(void **state)
{
	const struct frame frames[] = {
		{ "evil;root 99\nfake;x", FRAME_NATIVE },
		{ "[truncated: no frame pointer in a;b.so]", FRAME_MARK },
	};
	struct writer_stack s = {
		.comm = "x;y\n1 [z]", .frames = frames, .n_frames = 2, .count = 1
	};

	assert_line(&s, false,
		    "x\\x3by\\x0a1 [z];[truncated: no frame pointer in a\\x3bb.so];"
		    "evil\\x3broot 99\\x0afake\\x3bx 1\n");
}

static void full_disk_is_an_error(void **state)
{
	struct writer_options o = { .annotate = false };
	struct writer_stack s = { .comm = "app", .count = 1 };
	FILE *f = fopen("/dev/full", "w");
	int err;

	assert_non_null(f);
	err = writer_folded.stack(f, &o, &s);
	if (!err)
		err = writer_folded.end(f, &o);
	assert_int_equal(err, -ENOSPC);
	fclose(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_is_comm_then_root_to_leaf_then_count),
		cmocka_unit_test(annotate_marks_kernel_frames_only),
		cmocka_unit_test(first_field_has_pid_and_tid_when_asked),
		cmocka_unit_test(stack_without_frames_is_its_comm),
		cmocka_unit_test(empty_names_are_unknown),
		cmocka_unit_test(hostile_names_stay_one_frame_of_one_line),
		cmocka_unit_test(full_disk_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
