// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The accounting identities of DESIGN 7 after thousands of random events of random tasks, with a
 * ring that fills, programs that interrupt one another, execs, and stacks that end in every way.
 */
#include "thread_x86.h"

#define FP (STACK + 0x8000)
#define N_PROCS 6 /* tgids 0 (idle) to 5; 4 is not followed, 5 not known */
#define EVENTS 4000

static u64 rng;
static u64 expect_other, expect_ticks, expect_spaces;
static u32 nested;

static u32 roll(u32 n)
{
	return next_random(&rng) % n;
}

static bool is_followed(u32 filter)
{
	u32 tgid = host.tgid, tid = host.tid;
	const struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &tgid);

	if (tid == 0 || (proc && proc->flags & RPROF_PROC_WAIT_EXEC))
		return false;
	if (filter == RPROF_FILTER_TGID)
		return tgid >= 1 && tgid <= 3;
	if (filter == RPROF_FILTER_TID)
		return tid % 10 == 1;
	return true;
}

static void random_event(u32 filter)
{
	static const u64 links[] = { 0, 4, FP, FP + 64, STACK_END, STACK, FP + 2 * HOST_PAGE };
	static const u64 ras[] = { RA(0), RA(1), RA(2), RA(3), DATA };
	static const u64 kstack[] = { 1, 2, 3 };
	struct bpf_perf_event_data user, ctx;

	put_chain(FP, 4, 64);
	put_frame(FP + 64 * roll(4), links[roll(7)], ras[roll(5)]);
	user = user_regs(PC + roll(20), FP - 64, FP + (roll(20) ? 0 : 8 - 64));
	if (!roll(20))
		user.regs.words[W_CS] = 0x23;
	ctx = user;
	if (!roll(3)) {
		ctx = kernel_regs();
		save_regs(roll(10) ? &user : &ctx, 16 * roll(2));
		host_kernel_poke(KTASK + TASK_MM, roll(10));
		host.kstack = kstack;
		host.n_kstack = roll(4);
		host.kstack_err = roll(10) ? 0 : -14;
	}
	expect_ticks++;
	expect_other += !is_followed(filter);
	roll(2) ? rprof_clock(&ctx) : rprof_clock_btf(&ctx);
}

static u32 current_filter;

/* An event in the middle of sending, now and then; of the same task, as interrupts are. */
static void interrupt(void)
{
	if (nested < 4 && !roll(6)) {
		nested++;
		random_event(current_filter);
		nested--;
	}
}

static void random_task(void)
{
	host.tgid = roll(N_PROCS);
	host.tid = host.tgid ? host.tgid * 10 + roll(3) : 0;
	memcpy(host.comm, roll(3) ? "target" : "thread", 7);
	host.cpu = roll(2);
	host.now += roll(100000);
}

static u64 losses(void)
{
	return counter(RPROF_STOP_LOST_RING) + counter(RPROF_STOP_LOST_SCRATCH);
}

static void assert_identities(void)
{
	assert_int_equal(counter(RPROF_COUNT_TICKS), expect_ticks);
	assert_int_equal(counter(RPROF_COUNT_OTHER), expect_other);
	assert_int_equal(counter(RPROF_COUNT_TICKS),
			 counter(RPROF_COUNT_OTHER) + counter(RPROF_COUNT_MATCHED));
	assert_int_equal(counter(RPROF_COUNT_MATCHED), counter(RPROF_COUNT_SAMPLES) + losses());
	assert_int_equal(counter(RPROF_COUNT_SAMPLES), count_records(RPROF_RECORD_SAMPLE));
	assert_int_equal(counter(RPROF_COUNT_STACKS), count_records(RPROF_RECORD_STACK));
	assert_int_equal(expect_spaces,
			 count_records(RPROF_RECORD_SPACE) + counter(RPROF_STOP_LOST_SPACE));
	assert_int_equal(host_cpu()->level, 0);
}

static void run_events(u32 filter, void **state)
{
	struct rprof_config config = thread_config();
	u32 one = 1;

	config.filter = current_filter = filter;
	host_config(&config);
	rng = 1000 + filter;
	expect_other = expect_ticks = expect_spaces = nested = 0;
	host_user_hole(FP + 2 * HOST_PAGE);
	for (u32 tgid = 1; tgid < N_PROCS - 1; tgid++)
		host_proc(tgid, 0, tgid == 4 ? 0 : RPROF_PROC_FOLLOW, 0);
	for (u32 tid = 1; tid < N_PROCS * 10; tid += 10)
		bpf_map_update_elem(&rprof_tids, &tid, &one, BPF_ANY);
	host.on_output = interrupt;
	host.ring_size = 4096;
	for (u32 i = 0; i < EVENTS; i++) {
		random_task();
		random_event(filter);
		if (!roll(40))
			host_drain();
		if (!roll(100) && host.tgid && host.tgid < N_PROCS - 1) {
			expect_spaces++;
			rprof_exec(NULL);
			if (roll(2))
				host_proc(host.tgid, 0, host.tgid == 4 ? 0 : RPROF_PROC_FOLLOW, 0);
		}
	}
	assert_identities();
	assert_null(ring_wrong());
	/* The run met what it is about. */
	assert_true(counter(RPROF_COUNT_SAMPLES) > 200);
	assert_true(counter(RPROF_STOP_LOST_RING) > 200);
	assert_true(counter(RPROF_STOP_LOST_SCRATCH) > 20);
	assert_true(counter(RPROF_COUNT_OTHER) > 200);
}

static void all_tasks_are_accounted_for(void **state)
{
	run_events(RPROF_FILTER_ALL, state);
	for (u32 stop = RPROF_STOP_FAULT; stop <= RPROF_STOP_KSTACK; stop++)
		assert_true(counter(stop) > 0);
}

static void processes_are_accounted_for(void **state)
{
	run_events(RPROF_FILTER_TGID, state);
}

static void threads_are_accounted_for(void **state)
{
	run_events(RPROF_FILTER_TID, state);
}

/* Stops of walks are no losses: the sample is sent. */
static void short_stacks_are_samples(void **state)
{
	u64 stops = 0;

	for (u32 i = 0; i < 100; i++)
		sample_user(PC, FP, FP + 1 + i % 7);
	for (u32 stop = RPROF_STOP_DEPTH; stop < RPROF_STOP_MAX; stop++)
		stops += counter(stop);
	assert_int_equal(stops, 100);
	assert_int_equal(counter(RPROF_STOP_UNALIGNED), 100);
	assert_int_equal(counter(RPROF_COUNT_SAMPLES), 100);
	assert_int_equal(losses(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(all_tasks_are_accounted_for),
		THREAD_TEST(processes_are_accounted_for),
		THREAD_TEST(threads_are_accounted_for),
		THREAD_TEST(short_stacks_are_samples),
	};

	return cmocka_run_group_tests_name("accounting_x86", tests, NULL, NULL);
}
