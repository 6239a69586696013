// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The entry programs: which ticks become samples, what is sent, and that every tick is accounted for. */
#include "thread_x86.h"

#define FP (STACK + 0x8000)

static int setup(void **state)
{
	thread_setup(state);
	put_chain(FP, 3, 64);
	return 0;
}

static void tick(void)
{
	struct bpf_perf_event_data ctx = user_regs(PC, FP - 64, FP);

	assert_int_equal(rprof_clock(&ctx), 0);
}

static bool tick_matches(void)
{
	u64 matched = counter(RPROF_COUNT_MATCHED), other = counter(RPROF_COUNT_OTHER);
	u32 records = host.n_records;

	tick();
	matched = counter(RPROF_COUNT_MATCHED) - matched;
	assert_int_equal(counter(RPROF_COUNT_OTHER) - other, !matched);
	assert_int_equal(host.n_records > records, matched);
	return matched;
}

static void filter_by(enum rprof_filter filter)
{
	struct rprof_config config = thread_config();

	config.filter = filter;
	host_config(&config);
}

/* Filters. */

static void filter_all_takes_every_task_but_idle(void **state)
{
	filter_by(RPROF_FILTER_ALL);
	assert_true(tick_matches());
	host.tgid = 7777;
	host.tid = 7778;
	assert_true(tick_matches());
	host.tgid = host.tid = 0;
	assert_false(tick_matches());
}

static void filter_tgid_takes_followed_processes(void **state)
{
	assert_true(tick_matches());
	host.tid = TGID;
	assert_true(tick_matches());
	host.tgid = TGID + 1;
	assert_false(tick_matches());
	host_proc(TGID + 1, 0, 0, 0);
	assert_false(tick_matches());
	host_proc(TGID + 1, 0, RPROF_PROC_FOLLOW, 0);
	assert_true(tick_matches());
	host_delete(&rprof_procs, TGID + 1);
	assert_false(tick_matches());
}

static void filter_tid_takes_listed_threads(void **state)
{
	u32 tid = TID, one = 1;

	filter_by(RPROF_FILTER_TID);
	assert_false(tick_matches());
	bpf_map_update_elem(&rprof_tids, &tid, &one, BPF_ANY);
	assert_true(tick_matches());
	host.tid = TID + 1;
	assert_false(tick_matches());
	/* Another process's thread, which nobody put into rprof_procs. */
	host.tid = TID;
	host.tgid = TGID + 1;
	assert_true(tick_matches());
}

static void idle_is_no_thread_whatever_the_maps_say(void **state)
{
	u32 zero = 0, one = 1;

	host_proc(0, 0, RPROF_PROC_FOLLOW, 0);
	bpf_map_update_elem(&rprof_tids, &zero, &one, BPF_ANY);
	host.tgid = host.tid = 0;
	for (u32 filter = RPROF_FILTER_ALL; filter <= RPROF_FILTER_TID; filter++) {
		filter_by(filter);
		assert_false(tick_matches());
	}
}

static void child_that_waits_for_exec_is_followed_from_its_exec(void **state)
{
	u32 tid = TID, one = 1;

	bpf_map_update_elem(&rprof_tids, &tid, &one, BPF_ANY);
	host_proc(TGID, 0, RPROF_PROC_FOLLOW | RPROF_PROC_WAIT_EXEC, 0);
	for (u32 filter = RPROF_FILTER_ALL; filter <= RPROF_FILTER_TID; filter++) {
		filter_by(filter);
		assert_false(tick_matches());
	}
	rprof_exec(NULL);
	for (u32 filter = RPROF_FILTER_ALL; filter <= RPROF_FILTER_TID; filter++) {
		filter_by(filter);
		assert_true(tick_matches());
	}
}

/* exec. */

static void exec_is_counted_and_sent_as_a_space(void **state)
{
	u32 tgid = TGID;
	const struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &tgid);
	const struct rprof_space *space;

	for (u32 i = 1; i <= 3; i++) {
		rprof_exec(NULL);
		assert_int_equal(proc->execs, i);
		assert_int_equal(proc->flags, RPROF_PROC_FOLLOW);
		assert_int_equal(host.n_records, i);
		assert_null(record_wrong(&host.records[i - 1]));
		assert_int_equal(host.records[i - 1].flags, BPF_RB_FORCE_WAKEUP);
		space = host.records[i - 1].data;
		assert_int_equal(space->h.type, RPROF_RECORD_SPACE);
		assert_int_equal(space->tgid, TGID);
		assert_int_equal(space->why, RPROF_SPACE_EXEC);
		assert_int_equal(space->space, i);
	}
}

static void exec_of_an_unknown_process_is_ignored(void **state)
{
	host.tgid = TGID + 1;
	rprof_exec(NULL);
	assert_int_equal(host.n_records, 0);
	assert_int_equal(counter(RPROF_STOP_LOST_SPACE), 0);
}

static void exec_that_the_ring_refuses_is_counted_and_still_an_exec(void **state)
{
	u32 tgid = TGID;
	const struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &tgid);

	host.ring_size = 16;
	rprof_exec(NULL);
	assert_int_equal(proc->execs, 1);
	assert_int_equal(counter(RPROF_STOP_LOST_SPACE), 1);
	assert_int_equal(counter(RPROF_COUNT_TICKS), 0);
}

/* exit. */

static void end_of_the_first_thread_is_sent(void **state)
{
	const struct rprof_space *space;

	host.tid = TGID + 1; /* another thread of the process */
	host.tgid = TGID;
	rprof_exit(NULL);
	assert_int_equal(host.n_records, 0);
	host.tid = TGID;
	rprof_exit(NULL);
	assert_int_equal(host.n_records, 1);
	assert_null(record_wrong(&host.records[0]));
	space = host.records[0].data;
	assert_int_equal(space->tgid, TGID);
	assert_int_equal(space->why, RPROF_SPACE_EXIT);
}

/* With the kernel's offsets it is the last thread that counts, whichever it is. */
static void process_is_forgotten_with_its_last_thread(void **state)
{
	struct rprof_config config = thread_config();
	u32 tgid = TGID;

	config.task_signal = TASK_MM + 8;
	config.signal_live = 16;
	host_config(&config);
	host_kernel_poke(KTASK + config.task_signal, KTASK + 512);
	host_kernel_poke(KTASK + 512 + config.signal_live, 1);
	host.tid = TGID;
	rprof_exit(NULL);
	assert_int_equal(host.n_records, 0);
	assert_non_null(bpf_map_lookup_elem(&rprof_procs, &tgid));
	host_kernel_poke(KTASK + 512 + config.signal_live, 0);
	host.tid = TGID + 1;
	rprof_exit(NULL);
	assert_int_equal(host.n_records, 1);
	assert_null(bpf_map_lookup_elem(&rprof_procs, &tgid));
	assert_false(tick_matches());
}

static void thread_that_ends_is_not_followed_under_its_number_again(void **state)
{
	u32 tid = TID, one = 1;

	bpf_map_update_elem(&rprof_tids, &tid, &one, BPF_ANY);
	filter_by(RPROF_FILTER_TID);
	assert_true(tick_matches());
	rprof_exit(NULL);
	assert_false(tick_matches());
}

/* Records. */

static void record_says_who_where_and_when(void **state)
{
	struct seen seen;

	host.cpu = 5;
	host.now = 123456789;
	memcpy(host.comm, "sixteen bytes!!!", sizeof(host.comm));
	tick();
	seen = last_seen();
	assert_int_equal(seen.sample->time_ns, 123456789);
	assert_int_equal(seen.sample->cpu, 5);
	assert_int_equal(seen.sample->tid, TID);
	assert_int_equal(seen.sample->event, 0);
	assert_int_equal(seen.stack->tgid, TGID);
	assert_int_equal(seen.stack->space, 1);
	assert_memory_equal(seen.stack->comm, host.comm, sizeof(host.comm));
	assert_int_equal(seen.n, 4);
}

static void stack_is_sent_once_and_samples_always(void **state)
{
	for (u32 i = 0; i < 10; i++)
		tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 1);
	assert_int_equal(count_records(RPROF_RECORD_SAMPLE), 10);
	put_frame(FP + 64, 0, RA(9));
	tick();
	put_chain(FP, 3, 64);
	tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 2);
	assert_int_equal(count_records(RPROF_RECORD_SAMPLE), 12);
	assert_null(ring_wrong());
}

static void threads_of_a_process_share_its_stacks(void **state)
{
	tick();
	host.tid++;
	host.cpu++;
	host.now += 1000000;
	tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 1);
	assert_int_equal(last_seen().sample->tid, TID + 1);
}

static void forgotten_stack_is_sent_again(void **state)
{
	tick();
	host_delete(&rprof_seen, last_seen().sample->stack);
	tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 2);
}

static void stack_the_ring_refused_is_sent_with_the_next_sample(void **state)
{
	host.ring_size = 64;
	tick();
	tick();
	assert_int_equal(host.n_records, 0);
	assert_int_equal(host.outputs, 2);
	assert_int_equal(counter(RPROF_STOP_LOST_RING), 2);
	host.ring_size = 0;
	tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 1);
	assert_null(ring_wrong());
	assert_int_equal(counter(RPROF_STOP_LOST_RING), 2);
	assert_int_equal(counter(RPROF_COUNT_SAMPLES), 1);
}

static void sample_the_ring_refused_is_a_loss_and_its_stack_is_known(void **state)
{
	host.ring_size = 8 + sizeof(struct rprof_stack) + 4 * 16;
	tick();
	assert_int_equal(host.n_records, 1);
	assert_int_equal(counter(RPROF_STOP_LOST_RING), 1);
	assert_int_equal(counter(RPROF_COUNT_STACKS), 1);
	assert_int_equal(counter(RPROF_COUNT_SAMPLES), 0);
	host_drain();
	tick();
	assert_int_equal(count_records(RPROF_RECORD_STACK), 1);
	assert_int_equal(counter(RPROF_COUNT_SAMPLES), 1);
	assert_null(ring_wrong());
}

static void reader_is_woken_when_the_ring_is_a_quarter_full(void **state)
{
	struct rprof_config config = thread_config();

	config.ring_quarter = 300;
	host_config(&config);
	for (u32 i = 0; i < 8; i++) {
		u64 used = host.ring_used;
		u32 n = host.n_records;

		tick();
		while (n < host.n_records)
			assert_int_equal(host.records[n++].flags,
					 used >= 300 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	}
	assert_true(host.ring_used > 300);
}

/* Nesting: a program that interrupts another one on the same CPU. */

static void tick_again(void)
{
	tick();
}

static void interrupting_program_takes_the_next_slot(void **state)
{
	struct seen inner, outer;

	host.on_output = NULL;
	tick();
	outer = last_seen();
	host_cpu()->level = 1;
	tick();
	inner = last_seen();
	assert_int_equal(inner.sample->stack, outer.sample->stack);
	assert_int_equal(host_cpu()->level, 1);
	assert_ptr_not_equal(host_scratch(0), host_scratch(1));
	assert_int_equal(host_scratch(0)->stack.stack, host_scratch(1)->stack.stack);
}

static void program_without_a_slot_loses_its_sample(void **state)
{
	/* Interrupts the sending of records, and itself, until no level is left. */
	host.on_output = tick_again;
	tick();
	host.on_output = NULL;
	assert_int_equal(host_cpu()->level, 0);
	assert_true(counter(RPROF_STOP_LOST_SCRATCH) > 0);
	assert_true(counter(RPROF_COUNT_SAMPLES) > 1);
	assert_int_equal(counter(RPROF_COUNT_MATCHED),
			 counter(RPROF_COUNT_SAMPLES) + counter(RPROF_STOP_LOST_SCRATCH));
	assert_null(ring_wrong());
}

static void one_run_of_sixteen_is_timed(void **state)
{
	for (u32 i = 0; i < 160; i++)
		tick();
	assert_int_equal(counter(RPROF_COUNT_TIMED), 10);
	assert_in_range(counter(RPROF_COUNT_TIMED_NS), 10, 100);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(filter_all_takes_every_task_but_idle),
		TEST(filter_tgid_takes_followed_processes),
		TEST(filter_tid_takes_listed_threads),
		TEST(idle_is_no_thread_whatever_the_maps_say),
		TEST(child_that_waits_for_exec_is_followed_from_its_exec),
		TEST(exec_is_counted_and_sent_as_a_space),
		TEST(exec_of_an_unknown_process_is_ignored),
		TEST(exec_that_the_ring_refuses_is_counted_and_still_an_exec),
		TEST(end_of_the_first_thread_is_sent),
		TEST(process_is_forgotten_with_its_last_thread),
		TEST(thread_that_ends_is_not_followed_under_its_number_again),
		TEST(record_says_who_where_and_when),
		TEST(stack_is_sent_once_and_samples_always),
		TEST(threads_of_a_process_share_its_stacks),
		TEST(forgotten_stack_is_sent_again),
		TEST(stack_the_ring_refused_is_sent_with_the_next_sample),
		TEST(sample_the_ring_refused_is_a_loss_and_its_stack_is_known),
		TEST(reader_is_woken_when_the_ring_is_a_quarter_full),
		TEST(interrupting_program_takes_the_next_slot),
		TEST(program_without_a_slot_loses_its_sample),
		TEST(one_run_of_sixteen_is_timed),
	};

	return cmocka_run_group_tests_name("sample_x86", tests, NULL, NULL);
}
