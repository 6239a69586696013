// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Forks of followed processes, tables given to their children, and the numbers of a nested pid
 * namespace: which tasks are whose, and what is said of those outside.
 */
#include "thread_x86.h"

#define FP (STACK + 0x8000)
#define TREE (RPROF_PROC_FOLLOW | RPROF_PROC_TREE)

/* Kernel structs, laid out by ourselves. */
#define OFF_PID 40u
#define OFF_TGID 44u
#define OFF_LEADER 48u
#define OFF_THREAD_PID 56u
#define OFF_LEVEL 4u
#define OFF_NUMBERS 96u
#define OFF_NS 8u
#define UPID 16u

#define CHILD (KTASK + 2048)	/* another task_struct */
#define PIDS 0xffff888100000000ULL
#define PID_OF(i) (PIDS + 256 * (u64)(i))
#define NS(i) (0xffff888200000000ULL + 64 * (u64)(i))
#define CHILD_TGID 200u

static struct rprof_config config_with(u32 flags)
{
	struct rprof_config config = thread_config();

	config.flags = flags;
	config.task_pid = OFF_PID;
	config.task_tgid = OFF_TGID;
	config.task_thread_pid = OFF_THREAD_PID;
	config.task_leader = OFF_LEADER;
	config.pid_level = OFF_LEVEL;
	config.pid_numbers = OFF_NUMBERS;
	config.upid_ns = OFF_NS;
	config.upid_size = UPID;
	return config;
}

static void put_ids(u64 task, u32 pid, u32 tgid)
{
	host_kernel_poke(task + OFF_PID, (u64)tgid << 32 | pid);
}

/* A struct pid with a number in each of @n namespaces, the first outermost. */
static void put_pid(u64 pid, u32 n, const u64 *ns, const u32 *numbers)
{
	host_kernel_poke(pid, (u64)(n - 1) << 32 | 1);
	for (u32 i = 0; i < n; i++) {
		host_kernel_poke(pid + OFF_NUMBERS + i * UPID,
				 0xdead00000000ULL << 16 | numbers[i]);
		host_kernel_poke(pid + OFF_NUMBERS + i * UPID + OFF_NS, ns[i]);
	}
}

static void put_task(u64 task, u64 leader, u64 pid)
{
	host_kernel_poke(task + OFF_LEADER, leader);
	host_kernel_poke(task + OFF_THREAD_PID, pid);
}

static int setup(void **state)
{
	struct rprof_config config = config_with(0);

	thread_setup(state);
	host_config(&config);
	host_kernel_region(PIDS, HOST_PAGE);
	put_chain(FP, 2, 64);
	put_ids(KTASK, TID, TGID);
	put_ids(CHILD, CHILD_TGID, CHILD_TGID);
	host_proc(TGID, 0, TREE, 0);
	return 0;
}

static const struct rprof_proc *proc_of(u32 tgid)
{
	return bpf_map_lookup_elem(&rprof_procs, &tgid);
}

static void do_fork(void)
{
	struct bpf_raw_tracepoint_args ctx = { .args = { KTASK, CHILD } };

	assert_int_equal(rprof_fork(&ctx), 0);
}

static int set_table(u32 tgid, u32 table)
{
	struct bpf_raw_tracepoint_args ctx = { .args = { tgid, table } };

	return rprof_set_table(&ctx);
}

static const struct rprof_space *last_space(void)
{
	const struct host_record *last = &host.records[host.n_records - 1];
	const struct rprof_space *space = last->data;

	assert_true(host.n_records > 0);
	assert_null(record_wrong(last));
	assert_int_equal(space->h.type, RPROF_RECORD_SPACE);
	return space;
}

static void child_of_a_tree_is_followed_and_said(void **state)
{
	const struct rprof_space *space;

	do_fork();
	assert_non_null(proc_of(CHILD_TGID));
	assert_int_equal(proc_of(CHILD_TGID)->flags, TREE | RPROF_PROC_BORROWS);
	assert_int_equal(proc_of(CHILD_TGID)->execs, 0);
	assert_int_equal(proc_of(CHILD_TGID)->table, 0);
	space = last_space();
	assert_int_equal(space->why, RPROF_SPACE_FORK);
	assert_int_equal(space->tgid, CHILD_TGID);
	assert_int_equal(space->ppid, TGID);
	assert_int_equal(space->space, 0);
	assert_int_equal(host.records[host.n_records - 1].flags, BPF_RB_FORCE_WAKEUP);
}

static void other_forks_are_not_followed(void **state)
{
	static const u32 flags[] = { 0, RPROF_PROC_FOLLOW, RPROF_PROC_TREE,
				     TREE | RPROF_PROC_WAIT_EXEC };

	for (u32 i = 0; i < 4; i++) {
		host_proc(TGID, 0, flags[i], 0);
		do_fork();
		assert_null(proc_of(CHILD_TGID));
	}
	host_delete(&rprof_procs, TGID);
	do_fork();
	assert_null(proc_of(CHILD_TGID));
	assert_int_equal(host.n_records, 0);
}

static void a_new_thread_is_no_new_process(void **state)
{
	put_ids(CHILD, CHILD_TGID, TGID);
	do_fork();
	assert_null(proc_of(CHILD_TGID));
	assert_int_equal(proc_of(TGID)->table, 0);
	assert_int_equal(host.n_records, 0);
}

static void what_user_space_follows_already_stays(void **state)
{
	host_proc(CHILD_TGID, 3, RPROF_PROC_FOLLOW, 7);
	do_fork();
	assert_int_equal(proc_of(CHILD_TGID)->execs, 3);
	assert_int_equal(proc_of(CHILD_TGID)->table, 7);
	assert_int_equal(host.n_records, 0);
	assert_int_equal(counter(RPROF_STOP_LOST_CHILD), 0);
}

static void children_without_room_are_counted(void **state)
{
	for (u32 i = 0; i < RPROF_MAX_PROCS - 1; i++)
		host_proc(1000 + i, 0, 0, 0);
	do_fork();
	assert_null(proc_of(CHILD_TGID));
	assert_int_equal(counter(RPROF_STOP_LOST_CHILD), 1);
	assert_int_equal(host.n_records, 0);
}

static void child_is_sampled_before_and_after_it_has_a_table(void **state)
{
	struct seen seen;

	do_fork();
	host.tgid = host.tid = CHILD_TGID;
	/* It is its parent's image still. */
	seen = sample_at(FP);
	assert_int_equal(seen.stack->tgid, CHILD_TGID);
	assert_int_equal(seen.stack->space, 1);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);

	host_table(1, 5, 0, FIRST, thread_mappings, N_MAPPINGS);
	assert_int_equal(set_table(CHILD_TGID, 1), 1);
	assert_int_equal(proc_of(CHILD_TGID)->flags, TREE);
	seen = sample_at(FP);
	assert_int_equal(seen.stack->space, 5);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
	assert_int_equal(set_table(CHILD_TGID + 1, 1), 0);
}

/* User space does not hear of it, so that it could not tell when that table is another's. */
static void child_that_is_not_said_borrows_nothing(void **state)
{
	host.ring_size = 8;
	do_fork();
	assert_int_equal(counter(RPROF_STOP_LOST_SPACE), 1);
	assert_int_equal(proc_of(CHILD_TGID)->table, RPROF_NO_TABLE);
}

static void exec_of_a_child_is_not_undone_by_its_table(void **state)
{
	do_fork();
	host.tgid = host.tid = CHILD_TGID;
	rprof_exec(NULL);
	assert_int_equal(set_table(CHILD_TGID, 1), 1);
	assert_int_equal(proc_of(CHILD_TGID)->execs, 1);
	assert_int_equal(proc_of(CHILD_TGID)->table, 1);
}

/* Namespaces. Ours is NS(1), in NS(0); KTASK is in NS(2), in ours. */

static void nest(void)
{
	const struct rprof_config config = config_with(RPROF_CONFIG_NESTED);
	const u64 ns[] = { NS(0), NS(1), NS(2) };

	host_config(&config);
	/* The loader's own task, as it looks for its namespace. */
	put_pid(PID_OF(0), 2, ns, (const u32[]){ 5000, 50 });
	put_task(KTASK, KTASK, PID_OF(0));
	assert_int_equal(rprof_find_ns(NULL), 1);
	put_pid(PID_OF(1), 3, ns, (const u32[]){ 6000, 60, 6 });
	put_pid(PID_OF(2), 3, ns, (const u32[]){ 6001, 61, 7 });
	host_kernel_region(KTASK + 4 * HOST_PAGE, HOST_PAGE);
	put_task(KTASK, KTASK + 4 * HOST_PAGE, PID_OF(2));
	put_task(KTASK + 4 * HOST_PAGE, KTASK + 4 * HOST_PAGE, PID_OF(1));
	host.tgid = 6000;
	host.tid = 6001;
}

static void our_numbers_count_in_a_namespace(void **state)
{
	struct seen seen;

	nest();
	host_proc(60, 0, RPROF_PROC_FOLLOW, 0);
	seen = sample_at(FP);
	assert_int_equal(seen.stack->tgid, 60);
	assert_int_equal(seen.sample->tid, 61);
	assert_int_equal(seen.stack->space, 1);
	assert_chain(&seen, 1, 2, 0, RPROF_STOP_END);
}

static bool is_other(void)
{
	struct bpf_perf_event_data ctx = user_regs(PC, FP - 64, FP);
	u64 other = counter(RPROF_COUNT_OTHER);

	rprof_clock(&ctx);
	return counter(RPROF_COUNT_OTHER) > other;
}

/* In no namespace of ours, though the numbers of others are the same as followed ones. */
static void numbers_of_other_namespaces_match_nothing(void **state)
{
	const u64 sibling[] = { NS(0), NS(3), NS(2) };
	const u64 above[] = { NS(0) };

	nest();
	host_proc(6000, 0, RPROF_PROC_FOLLOW, 0);
	host_proc(6, 0, RPROF_PROC_FOLLOW, 0);
	assert_true(is_other());
	host_proc(60, 0, RPROF_PROC_FOLLOW, 0);
	assert_false(is_other());
	put_pid(PID_OF(1), 3, sibling, (const u32[]){ 6000, 60, 6 });
	assert_true(is_other());
	put_pid(PID_OF(1), 1, above, (const u32[]){ 60 });
	assert_true(is_other());
	/* A task on its way out has no struct pid any more. */
	put_task(KTASK + 4 * HOST_PAGE, KTASK + 4 * HOST_PAGE, 0);
	assert_true(is_other());
}

static void tasks_outside_are_kernel_stacks_only_under_all(void **state)
{
	static const u64 kstack[] = { 1, 2 };
	struct rprof_config config;
	struct bpf_perf_event_data ctx = kernel_regs();
	const u64 above[] = { NS(0) };
	struct seen seen;

	nest();
	config = config_with(RPROF_CONFIG_NESTED);
	config.filter = RPROF_FILTER_ALL;
	host_config(&config);
	put_pid(PID_OF(1), 1, above, (const u32[]){ 60 });
	put_pid(PID_OF(2), 1, above, (const u32[]){ 61 });
	seen = sample_at(FP);
	assert_int_equal(seen.stack->tgid, 0);
	assert_int_equal(seen.sample->tid, 0);
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.stop, RPROF_STOP_OTHER_NS);
	host.kstack = kstack;
	host.n_kstack = 2;
	rprof_clock(&ctx);
	seen = last_seen();
	assert_int_equal(seen.stack->n_kernel, 2);
	assert_int_equal(seen.stop, RPROF_STOP_OTHER_NS);
	assert_memory_equal(seen.stack->comm, host.comm, sizeof(host.comm));
	/* Idle is idle. */
	host.tgid = host.tid = 0;
	assert_true(is_other());
}

static void life_of_processes_has_our_numbers(void **state)
{
	nest();
	host_proc(60, 0, TREE, 0);
	rprof_exec(NULL);
	assert_int_equal(last_space()->tgid, 60);
	assert_int_equal(last_space()->why, RPROF_SPACE_EXEC);
	put_ids(CHILD, 7000, 7000);
	put_pid(PID_OF(3), 3, (const u64[]){ NS(0), NS(1), NS(2) }, (const u32[]){ 7000, 70, 7 });
	put_task(CHILD, CHILD, PID_OF(3));
	do_fork();
	assert_non_null(proc_of(70));
	assert_int_equal(last_space()->tgid, 70);
	assert_int_equal(last_space()->ppid, 60);
	/* Without the offsets that tell, the first thread's end is the process's. */
	put_task(KTASK, KTASK + 4 * HOST_PAGE, PID_OF(1));
	rprof_exit(NULL);
	assert_int_equal(last_space()->tgid, 60);
	assert_int_equal(last_space()->why, RPROF_SPACE_EXIT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(child_of_a_tree_is_followed_and_said),
		TEST(other_forks_are_not_followed),
		TEST(a_new_thread_is_no_new_process),
		TEST(what_user_space_follows_already_stays),
		TEST(children_without_room_are_counted),
		TEST(child_is_sampled_before_and_after_it_has_a_table),
		TEST(child_that_is_not_said_borrows_nothing),
		TEST(exec_of_a_child_is_not_undone_by_its_table),
		TEST(our_numbers_count_in_a_namespace),
		TEST(numbers_of_other_namespaces_match_nothing),
		TEST(tasks_outside_are_kernel_stacks_only_under_all),
		TEST(life_of_processes_has_our_numbers),
	};

	return cmocka_run_group_tests_name("process_x86", tests, NULL, NULL);
}
