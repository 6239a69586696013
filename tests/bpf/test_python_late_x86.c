// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A thread that did an exec and was not switched out since: its pointer is of before (s390x). */
#include "python_threads.h"

#define PID_OF_TASK 2080u	/* of task_struct: where its struct pid is, */
#define PID (KTASK + 3072)	/* this one */
#define PID_LEVEL 4u
#define PID_NUMBERS 16u
#define UPID_SIZE 16u

static void kernel_halves(u64 addr, u32 first, u32 second)
{
	const u32 halves[] = { first, second };
	u64 word;

	memcpy(&word, halves, sizeof(word));
	host_kernel_poke(addr, word);
}

static struct rprof_config late(void)
{
	return py_config(RPROF_CONFIG_TP_LATE);
}

static void stale(const struct py_stack *s)
{
	py_write(s);
	py_run(s);
	host_kernel_poke(KTASK + TASK_TP, TP(99));
}

static void late_by_number(u32 version)
{
	const struct rprof_config config = late();

	if (!py.p.ts_native_tid)
		return;
	host_config(&config);
	py.p.flags |= RPROF_PYTHON_NATIVE_TID;
	py_table(&py.p);
	for (u32 i = 0; i < 3; i++) {
		stale(&a);
		py_right(&a);
		stale(&c);
		py_right(&c);
	}
	/* Switched at last: the same state, without a search. */
	right(&a);
	right(&c);
	expect_searches(2, 6);
}

static void late_thread_pointer_counts_less_than_the_number(void **state)
{
	each_version(late_by_number);
}

/* The child of a fork that Python does not know of: its parent's numbers, and a pointer that is right. */
static void forked(u32 version)
{
	const struct rprof_config config = late();

	host_config(&config);
	py.p.flags |= RPROF_PYTHON_NATIVE_TID;
	py_table(&py.p);
	py_write(&a);
	py_run(&a);
	host.tid = TID + 500;
	py_right(&a);
	py_right(&a);
}

static void thread_pointer_counts_where_the_number_is_the_parents(void **state)
{
	each_version(forked);
}

/* Threads of another pid namespace have two numbers; their own is the last one. */
static void of_namespace(u32 version)
{
	struct rprof_config config = late();

	if (!py.p.ts_native_tid)
		return;
	config.task_thread_pid = PID_OF_TASK;
	config.pid_level = PID_LEVEL;
	config.pid_numbers = PID_NUMBERS;
	config.upid_size = UPID_SIZE;
	host_config(&config);
	host_kernel_poke(KTASK + PID_OF_TASK, PID);
	kernel_halves(PID, 1, 1);
	kernel_halves(PID + PID_NUMBERS, a.tid, 0xdead);
	kernel_halves(PID + PID_NUMBERS + UPID_SIZE, 7, 0xdead);
	host_poke(a.tstate + py.p.ts_native_tid, 7);
	/* Its number there is another thread's number here. */
	host_poke(b.tstate + py.p.ts_native_tid, a.tid);
	stale(&a);
	py_right(&a);
	py_right(&a);
}

static void number_is_that_of_the_threads_own_namespace(void **state)
{
	each_version(of_namespace);
}

static void late_and_unknown(u32 version)
{
	const struct rprof_config config = late();

	host_config(&config);
	stale(&a);
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, 0);
	/* A thread that was created has its own. */
	host.tid = TID + 9;
	expect_none(RPROF_STOP_NO_STATE);
	host.tid = TGID;
	host_kernel_poke(KTASK + TASK_START, TGID);
	expect_none(RPROF_STOP_STATE_LOST);
	/* Switched: at once. */
	host_kernel_poke(KTASK + TASK_TP, a.tp);
	py_right(&a);
}

static void leader_whose_pointer_may_be_late_is_not_without_a_state(void **state)
{
	each_version(late_and_unknown);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(late_thread_pointer_counts_less_than_the_number),
		THREAD_TEST(thread_pointer_counts_where_the_number_is_the_parents),
		THREAD_TEST(number_is_that_of_the_threads_own_namespace),
		THREAD_TEST(leader_whose_pointer_may_be_late_is_not_without_a_state),
	};

	return cmocka_run_group_tests_name("python_late", tests, NULL, NULL);
}
