// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From a thread to its PyThreadState: which one it is, and when it has to be searched for again. */
#include "python_threads.h"

/* Which one. */

static void threads(u32 version)
{
	for (u32 i = 0; i < 3; i++) {
		right(&a);
		right(&b);
		right(&c);
	}
	expect_searches(3, 6);
}

static void each_thread_has_its_own_stack(void **state)
{
	each_version(threads);
}

/* It runs in an interpreter of its own, called from the main one. */
static void two_states(u32 version)
{
	struct py_stack inner = {};

	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	for (u32 newest = 0; newest < 2; newest++) {
		py_thread(&inner, py_interp(), 0, 12);
		py_push(&inner, PY_FRAME, codes[3], 5);
		py_write(&inner);
		py_unbind(a.tstate);
		right(&inner);
		right(&inner);
		/* Back in the outer one. */
		py_unbind(inner.tstate);
		py_bind(a.tstate, true);
		right(&a);
	}
}

static void of_two_states_the_bound_one_counts(void **state)
{
	each_version(two_states);
}

/* Up to 3.11 the holder of the GIL says which one runs; without it nothing does. */
static void two_states_of_old(u32 version)
{
	struct py_stack inner = {};

	if (py_has(RPROF_PYTHON_STATUS))
		return;
	py_thread(&inner, py_interp(), 0, 12);
	py_push(&inner, PY_FRAME, codes[3], 5);
	if (py_has(RPROF_PYTHON_IS_ENTRY))
		inner.frames[0].entry = in_native(2);
	py_write(&inner);
	for (u32 i = 0; i < 2; i++) {
		right(&inner);
		right(&a);
		right(&inner);
	}
	host_poke(RUNTIME + py.p.runtime_current, b.tstate);
	expect_none(RPROF_STOP_STATE_LOST);
	/* Remembered when it was the only one. */
	right(&b);
	py_thread(&inner, inner.interp, 1, 12);
	host_poke(RUNTIME + py.p.runtime_current, a.tstate);
	expect_none(RPROF_STOP_STATE_LOST);
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 0);
}

static void of_two_states_the_holder_counts_up_to_3_11(void **state)
{
	each_version(two_states_of_old);
}

static void many(u32 version)
{
	u64 reads;

	for (u32 i = 0; i < 200; i++)
		py_state(INTERPS, TP(10 + i), TID + 10 + i);
	py_run(&a);
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, b.tstate);
	reads = counter(RPROF_COUNT_PY_READS);
	py_write(&a);
	py_right(&a);
	assert_true(counter(RPROF_COUNT_PY_READS) - reads >= 200);
	py_sample();
	reads = counter(RPROF_COUNT_PY_READS);
	right(&a);
	assert_true(counter(RPROF_COUNT_PY_READS) - reads < 25);
	expect_searches(1, 2);
}

static void state_is_found_among_200_and_then_remembered(void **state)
{
	each_version(many);
}

static void by_number(u32 version)
{
	struct rprof_config config = py_config(0);

	config.task_tp = 0;
	host_config(&config);
	py_run(&a);
	expect_none(RPROF_STOP_STATE_LOST);
	if (!py.p.ts_native_tid)
		return;
	py.p.flags |= RPROF_PYTHON_NATIVE_TID;
	py_table(&py.p);
	right(&b);
	right(&a);
}

static void number_of_the_thread_counts_where_its_pointer_is_not_known(void **state)
{
	each_version(by_number);
}

/* Hits and misses. */

static void reused_number(u32 version)
{
	right(&a);
	/* Another thread has its number now. */
	host.tid = a.tid;
	host_kernel_poke(KTASK + TASK_TP, b.tp);
	host_kernel_poke(KTASK + TASK_START, 777);
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, b.tstate);
	py_write(&b);
	py_right(&b);
	expect_searches(2, 0);
	rprof_exit(NULL);
	py_right(&b);
	expect_searches(3, 0);
	/* And one without a state. */
	host_kernel_poke(KTASK + TASK_TP, TP(50));
	host_kernel_poke(KTASK + TASK_START, 778);
	expect_none(RPROF_STOP_NO_STATE);
	expect_searches(4, 0);
}

static void number_of_a_thread_that_ended_is_another_threads(void **state)
{
	each_version(reused_number);
}

static void reused_state(u32 version)
{
	right(&a);
	/* Its state was freed, and is the new thread's; it got another. */
	host_poke(a.tstate + py.p.ts_thread_id, TP(60));
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, 0);
	expect_none(RPROF_STOP_NO_STATE);
	a.tstate = py_state(INTERPS, a.tp, a.tid);
	py_write(&a);
	host.now += RETRY_NS;
	right(&a);
}

static void state_that_is_another_threads_now_is_not_used(void **state)
{
	each_version(reused_state);
}

static void none_yet(u32 version)
{
	u64 reads;

	host.tid = TID + 70;
	host_kernel_poke(KTASK + TASK_TP, TP(70));
	expect_none(RPROF_STOP_NO_STATE);
	assert_int_equal(counter(RPROF_STOP_NO_STATE), 1);
	for (u32 i = 0; i < 50; i++)
		py_state(INTERPS, TP(100 + i), TID + 100 + i);
	reads = counter(RPROF_COUNT_PY_READS);
	for (u32 i = 0; i < 10; i++)
		expect_none(RPROF_STOP_NO_STATE);
	assert_in_range(counter(RPROF_COUNT_PY_READS) - reads, 0, 60);
	a.tid = TID + 70;
	a.tp = TP(70);
	a.tstate = py_state(INTERPS, a.tp, a.tid);
	py_write(&a);
	host.now += RETRY_NS;
	py_right(&a);
}

static void thread_without_a_state_is_not_searched_for_at_each_sample(void **state)
{
	each_version(none_yet);
}

/* A thread of C that enters and leaves Python all the time: PyGILState_Ensure(). */
static void comes_and_goes(u32 version)
{
	struct py_stack s;

	py_flags(RPROF_CONFIG_VERIFY);
	py_interp();
	py_thread(&s, INTERPS, 90, 12);
	py_push(&s, PY_FRAME, codes[0], 1)->entry = py_has(RPROF_PYTHON_IS_ENTRY) ? in_native(4) :
										    0;
	host_poke(s.tstate + py.p.ts_thread_id, 1);
	py_run(&s);
	for (u32 i = 0; i < 5; i++) {
		if (py.p.runtime_current)
			host_poke(RUNTIME + py.p.runtime_current, 0);
		expect_none(RPROF_STOP_NO_STATE);
		/* A new one, or its memory again. */
		if (i & 1)
			s.tstate = py_state(INTERPS, s.tp, s.tid);
		else
			host_poke(s.tstate + py.p.ts_thread_id, s.tp);
		py_write(&s);
		py_right(&s);
		py_right(&s);
		host_poke(s.tstate + py.p.ts_thread_id, 1);
	}
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 0);
}

static void thread_that_gets_a_state_is_seen_at_once(void **state)
{
	each_version(comes_and_goes);
}

static void exec(u32 version)
{
	u32 other = (version + 3) % N_LAYOUTS, execs;

	right(&a);
	rprof_exec(NULL);
	expect_none(RPROF_STOP_NONE);
	/* The new image, of another version, where the old one was. */
	py.p.execs = 2;
	py_table(&py.p);
	execs = py.p.execs;
	py.p = py_layout(other);
	py.p.runtime = RUNTIME;
	py.p.code_type = CODE_TYPE;
	py.p.execs = execs;
	py_table(&py.p);
	py.n_interps = 1;
	a.interp = py_interp();
	a.n = 0;
	a.tstate = py_state(a.interp, a.tp, a.tid);
	codes[0] = py_code("after", "exec.py", 7);
	py_push(&a, PY_FRAME, codes[0], 3);
	if (py_has(RPROF_PYTHON_IS_ENTRY))
		a.frames[0].entry = in_native(4);
	py_write(&a);
	right(&a);
}

static void new_image_has_a_new_interpreter(void **state)
{
	each_version(exec);
}

/* Lists that are none. */

#define SEARCH_AGAIN_NS 20000000 /* a search that failed is not repeated at once */

static void expect_lost(void)
{
	u32 reads;

	host.now += SEARCH_AGAIN_NS;
	expect_none(RPROF_STOP_STATE_LOST);
	reads = host.user_reads;
	expect_none(RPROF_STOP_STATE_LOST);
	assert_true(host.user_reads - reads < 20);
}

static void bad_lists(u32 version)
{
	const u64 head = RUNTIME + py.p.runtime_interpreters;
	const u64 threads = INTERPS + py.p.interp_threads;
	const u64 first = py_peek(threads);
	u32 reads;

	host.tid = TID + 80;
	host_kernel_poke(KTASK + TASK_TP, TP(80));
	host_poke(head, 0xffff888000001000ULL);
	expect_lost();
	host_poke(head, INTERPS);
	host_poke(threads, 4096);
	expect_lost();
	host_poke(threads, first + 4);
	expect_lost();
	host_poke(threads, first);
	host_poke(a.tstate + py.p.ts_next, c.tstate);
	reads = host.user_reads;
	expect_lost();
	assert_true(host.user_reads - reads < 2100);
	host_poke(INTERPS + py.p.interp_next, INTERPS);
	host_poke(threads, 0);
	reads = host.user_reads;
	expect_lost();
	assert_true(host.user_reads - reads < 4200);
	/* Not initialized yet, or finalized. */
	host_poke(head, 0);
	host.now += SEARCH_AGAIN_NS;
	expect_none(RPROF_STOP_NO_STATE);
}

static void list_that_does_not_end_is_bounded(void **state)
{
	each_version(bad_lists);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(each_thread_has_its_own_stack),
		THREAD_TEST(of_two_states_the_bound_one_counts),
		THREAD_TEST(of_two_states_the_holder_counts_up_to_3_11),
		THREAD_TEST(state_is_found_among_200_and_then_remembered),
		THREAD_TEST(number_of_the_thread_counts_where_its_pointer_is_not_known),
		THREAD_TEST(number_of_a_thread_that_ended_is_another_threads),
		THREAD_TEST(state_that_is_another_threads_now_is_not_used),
		THREAD_TEST(thread_without_a_state_is_not_searched_for_at_each_sample),
		THREAD_TEST(thread_that_gets_a_state_is_seen_at_once),
		THREAD_TEST(new_image_has_a_new_interpreter),
		THREAD_TEST(list_that_does_not_end_is_bounded),
	};

	return cmocka_run_group_tests_name("python_state", tests, NULL, NULL);
}
