// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Samples that are proven by what comes after them, where pages age; elsewhere there are none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch.h"
#include "complete.h"
#include "complete_parts.h"
#include "modules.h"
#include "monotonic.h"
#include "python_image.h"
#include "record.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

#include "complete_image.h" /* needs all of these */

#define MS 1000000ULL

static void pass_ms(__u64 ms)
{
	clock_ns += ms * MS;
}

static size_t n_late(struct completer *c)
{
	struct completer_late late;
	size_t n = 0;

	while (completer_late(c, &late)) {
		assert_int_equal(late.stack, cut.stack.stack);
		assert_int_equal(late.tid, TID);
		assert_int_equal(late.value, late.n);
		n += late.n;
	}
	return n;
}

/* A first reading, and @n samples after it that it does not prove. */
static struct completer *begin_waiting(int n)
{
	struct completer *c = begin();

	assert_non_null(complete(c, 5));
	faults = 9;
	for (int i = 0; i < n; i++) {
		pass_ms(10);
		assert_null(complete(c, 7));
		assert_int_equal(n_late(c), 0);
	}
	return c;
}

/* One that is read for and one after it: two, that wait as well, since there are faults all the time. */
static size_t read_again(struct completer *c)
{
	faults += 10;
	pass_ms(110);
	complete(c, faults - 1);
	assert_int_equal(n_late(c), 0);
	pass_ms(10);
	complete(c, faults);
	return n_late(c);
}

static void samples_between_two_readings_of_one_tail_are_proven(void **state)
{
	struct completer *c = begin_waiting(3);
	const struct completer_late late = { cut.stack.stack, 4, TID, 4 };
	struct completer_stats stats;

	assert_int_equal(read_again(c), 4); /* that of the reading, too */
	assert_native(completer_late_stack(c, &cut.stack), NATIVE, RPROF_STOP_END);
	completer_late_done(c, &late);
	completer_stats(c, &stats);
	assert_int_equal(stats.completed, 1 + 4);
	/* That after the reading waits for the next one: nobody had as many faults before. */
	assert_int_equal(stats.failed[COMPLETE_UNPROVEN], 1);
	assert_int_equal(read_again(c), 2);
	completer_free(c);
}

static void late_stack_has_the_id_that_it_would_have_had_at_once(void **state)
{
	struct completer *c = begin();
	const __u64 id = complete(c, 5)->stack;

	completer_free(c);
	c = begin_waiting(3);
	assert_int_equal(read_again(c), 4);
	assert_int_equal(completer_late_stack(c, &cut.stack)->stack, id);
	completer_free(c);
}

static void tail_that_has_changed_in_between_proves_nothing(void **state)
{
	struct completer *c = begin_waiting(3);

	poke(frame_at(9) + ARCH_CHAIN_RA, ra(20));
	assert_int_equal(read_again(c), 0);
	/* From then on it is the other one. */
	assert_int_equal(read_again(c), 2);
	assert_int_equal(record_native(completer_late_stack(c, &cut.stack))[10].pc, ra(20));
	completer_free(c);
}

/* What comes after it may be read before it is seen, and the way back is not hidden. */
static void reading_that_no_sample_of_the_run_has_passed_proves_nothing(void **state)
{
	struct completer *c = begin_waiting(3);

	pass_ms(110);
	complete(c, 8);
	completer_pass(c, TID); /* a whole stack */
	pass_ms(10);
	complete(c, 9);
	assert_int_equal(n_late(c), 0);
	completer_free(c);
}

static void samples_older_than_the_reading_are_proven_by_the_same_faults_alone(void **state)
{
	struct completer *c = begin();
	struct rprof_sample old[3] = { sample(4), sample(5), sample(6) };
	size_t completed = 0;

	/* The ring is drained late: all of them are older than the first reading. */
	faults = 6;
	pass_ms(100);
	for (size_t i = 0; i < 3; i++)
		completed += !!completer_complete(c, &old[i], &cut.stack, space);
	assert_int_equal(completed, 1);
	assert_int_equal(read_again(c), 1);
	completer_free(c);
}

static void sample_after_a_reading_is_proven_if_one_before_had_the_same_faults(void **state)
{
	struct completer *c = begin();

	assert_non_null(complete(c, 5));
	pass_ms(50);
	assert_non_null(complete(c, 5));
	/* Of another run, that began after its only reading: nothing is known of the page until then. */
	completer_pass(c, TID);
	assert_null(complete(c, 4));
	pass_ms(50);
	assert_null(complete(c, 5));
	completer_free(c);
}

/* Reading brings them in, and the thread goes there without a fault. */
static void pages_that_were_swapped_out_prove_nothing_after_they_are_read(void **state)
{
	struct completer *c = begin();
	struct completer_stats stats;

	swapped = true;
	assert_non_null(complete(c, 5)); /* until then it had no fault */
	pass_ms(10);
	assert_non_null(complete(c, 5)); /* swapped out again, and read again */
	completer_stats(c, &stats);
	assert_int_equal(stats.readings, 2);
	faults = 7;
	pass_ms(10);
	assert_null(complete(c, 6));
	assert_int_equal(read_again(c), 0);
	completer_free(c);
}

/* Of whichever thread the reading was: the page may be that of this one's first unread frame. */
static void page_that_another_reading_has_brought_in_proves_nothing(void **state)
{
	struct completer *c = begin();
	struct rprof_sample old = sample(5), other = sample(5);

	assert_non_null(complete(c, 5));
	swapped = true;
	other.tid++;
	assert_non_null(completer_complete(c, &other, &cut.stack, space));
	/* Of before it, of a run of its own; and after it, of one that was read. */
	swapped = false;
	old.tid += 2;
	assert_null(completer_complete(c, &old, &cut.stack, space));
	pass_ms(10);
	assert_null(complete(c, 5));
	completer_free(c);
}

static void what_is_in_memory_is_asked_page_by_page(void **state)
{
	static __u8 here[3 * COMPLETE_PAGE];
	const __u64 page = ((uintptr_t)here + COMPLETE_PAGE - 1) & ~(__u64)(COMPLETE_PAGE - 1);

	*(volatile __u8 *)(uintptr_t)(page + COMPLETE_PAGE) = 1;
	if (access("/proc/self/pagemap", R_OK))
		skip();
	assert_int_equal(complete_absent((__u32)getpid(), page + COMPLETE_PAGE, 1), 0);
	assert_int_equal(complete_absent((__u32)getpid(), 0, 2), 3);
	assert_int_equal(complete_absent(~0U >> 1, page, 3), 7);
}

static void long_run_is_read_again(void **state)
{
	struct completer *c = begin();
	struct completer_stats stats;

	for (int i = 0; i < 20; i++) {
		assert_non_null(complete(c, 5));
		pass_ms(100);
	}
	completer_stats(c, &stats);
	assert_in_range(stats.readings, 3, 6);
	completer_free(c);
}

static void link_that_has_changed_ends_a_run(void **state)
{
	struct completer *c = begin_waiting(3);
	struct completer_stats stats;

	poke(frame_at(WALKED - 1), frame_at(WALKED) + 64);
	assert_int_equal(read_again(c), 0);
	completer_stats(c, &stats);
	assert_int_equal(stats.failed[COMPLETE_CHANGED], 2);
	completer_free(c);
}

static void gap_ends_a_run(void **state)
{
	struct completer *c = begin_waiting(3);

	pass_ms(300);
	complete(c, 8);
	pass_ms(10);
	complete(c, 9);
	assert_int_equal(n_late(c), 0);
	completer_free(c);
}

static void image_that_is_replaced_ends_a_run(void **state)
{
	struct completer *c = begin_waiting(3);

	completer_forget(c, TGID);
	assert_int_equal(read_again(c), 0);
	completer_free(c);
	c = begin_waiting(3);
	cut.stack.space++; /* executable memory was replaced */
	assert_int_equal(read_again(c), 0);
	completer_free(c);
}

/* Its number was given to another thread, which has had fewer faults. */
static void thread_that_has_ended_ends_a_run(void **state)
{
	struct completer *c = begin_waiting(3);

	faults = 2;
	pass_ms(110);
	complete(c, 1);
	pass_ms(10);
	complete(c, 2);
	assert_int_equal(n_late(c), 0);
	completer_free(c);
}

static void walk_that_stopped_before_the_page_says_nothing_of_it(void **state)
{
	struct completer *c = begin_waiting(3);
	struct rprof_native_frame *f = (void *)record_native(&cut.stack);
	const struct rprof_native_frame kept[2] = { f[2], f[3] };
	const __u16 n = cut.stack.n_native;

	f[2] = f[WALKED + 1];
	f[2].pc = frame_at(1);
	cut.stack.n_native = 3;
	end_record();
	pass_ms(10);
	assert_null(complete(c, 7));
	f[2] = kept[0];
	f[3] = kept[1];
	cut.stack.n_native = n;
	end_record();
	assert_int_equal(read_again(c), 4);
	completer_free(c);
}

static void walk_that_went_beyond_the_page_ends_a_run(void **state)
{
	struct completer *c = begin_waiting(3);
	struct rprof_native_frame *f = (void *)record_native(&cut.stack);

	f[WALKED + 2] = f[WALKED + 1];
	f[WALKED + 2].pc = frame_at(WALKED + 1);
	f[WALKED + 1] = (struct rprof_native_frame){ ra(WALKED), RPROF_HOW_CHAIN };
	cut.stack.n_native++;
	end_record();
	pass_ms(10);
	complete(c, 7);
	f[WALKED + 1] = f[WALKED + 2];
	f[WALKED + 1].pc = frame_at(WALKED);
	cut.stack.n_native--;
	end_record();
	assert_int_equal(read_again(c), 0);
	completer_free(c);
}

/* Of as many stacks as there may be, and more. */
static void waiting_samples_are_bounded(void **state)
{
	struct completer *c = begin_waiting(0);
	struct completer_stats stats;
	size_t n = 0;
	struct completer_late late;

	for (int i = 0; i < 20000; i++) {
		struct rprof_sample s = sample(7);

		s.stack = cut.stack.stack = 1000 + (__u64)i;
		s.time_ns = now();
		assert_null(completer_complete(c, &s, &cut.stack, space));
		assert_false(completer_late(c, &late));
		if (i % 100 == 0)
			clock_ns += MS / 10;
	}
	completer_stats(c, &stats);
	assert_in_range(stats.failed[COMPLETE_CROWDED], 1, 20000 - 16384);
	pass_ms(110);
	complete(c, 8);
	pass_ms(10);
	complete(c, 9);
	while (completer_late(c, &late))
		n += late.n;
	assert_int_equal(n, 16384);
	/* There is room again. */
	assert_int_equal(read_again(c), 2);
	completer_free(c);
}

/* The end of the run of the profiler: they stay as they are. */
static void what_still_waits_at_the_end_stays_cut(void **state)
{
	struct completer *c = begin_waiting(7);
	struct completer_stats stats;

	completer_stats(c, &stats);
	assert_int_equal(stats.failed[COMPLETE_UNPROVEN], 7);
	assert_int_equal(stats.completed, 1);
	completer_free(c);
}

/* Where reading a page makes it readable for the kernel side, that it was not says nothing. */
static void nothing_is_proven_late_where_pages_do_not_age(void **state)
{
	struct completer *c = begin_waiting(3);

	assert_int_equal(read_again(c), 0);
	assert_int_equal(read_again(c), 0);
	completer_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_between_two_readings_of_one_tail_are_proven),
		cmocka_unit_test(late_stack_has_the_id_that_it_would_have_had_at_once),
		cmocka_unit_test(tail_that_has_changed_in_between_proves_nothing),
		cmocka_unit_test(reading_that_no_sample_of_the_run_has_passed_proves_nothing),
		cmocka_unit_test(
			samples_older_than_the_reading_are_proven_by_the_same_faults_alone),
		cmocka_unit_test(
			sample_after_a_reading_is_proven_if_one_before_had_the_same_faults),
		cmocka_unit_test(pages_that_were_swapped_out_prove_nothing_after_they_are_read),
		cmocka_unit_test(page_that_another_reading_has_brought_in_proves_nothing),
		cmocka_unit_test(long_run_is_read_again),
		cmocka_unit_test(link_that_has_changed_ends_a_run),
		cmocka_unit_test(gap_ends_a_run),
		cmocka_unit_test(image_that_is_replaced_ends_a_run),
		cmocka_unit_test(thread_that_has_ended_ends_a_run),
		cmocka_unit_test(walk_that_stopped_before_the_page_says_nothing_of_it),
		cmocka_unit_test(walk_that_went_beyond_the_page_ends_a_run),
		cmocka_unit_test(waiting_samples_are_bounded),
		cmocka_unit_test(what_still_waits_at_the_end_stays_cut),
	};
	const struct CMUnitTest ageless[] = {
		cmocka_unit_test(what_is_in_memory_is_asked_page_by_page),
		cmocka_unit_test(nothing_is_proven_late_where_pages_do_not_age),
	};

	return ARCH_PAGES_AGE ? cmocka_run_group_tests(tests, map_all, unmap_all) :
				cmocka_run_group_tests(ageless, map_all, unmap_all);
}
