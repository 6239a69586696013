// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Thread states whose lists cannot be read, as where pages age: user space says where they are. */
#include "python_threads.h"

#define SEARCH_AGAIN_NS 20000000 /* a search that failed is not repeated at once */

static void hint(u32 tid, u64 tstate, u32 tgid, u32 execs)
{
	const struct rprof_hint h = { .tstate = tstate, .tgid = tgid, .execs = execs };

	bpf_map_update_elem(&rprof_hints, &tid, &h, BPF_ANY);
}

static void hint_of(const struct py_stack *s)
{
	hint(s->tid, s->tstate, TGID, 0);
}

/* The way to the states is not readable from now on. */
static void age(void)
{
	host_user_hole(RUNTIME + py.p.runtime_interpreters);
}

/* As right(), where the runtime is not there to say who holds the GIL. */
static void run(const struct py_stack *s)
{
	py_write(s);
	host.tid = s->tid;
	host_kernel_poke(KTASK + TASK_TP, s->tp);
	host_kernel_poke(KTASK + TASK_START, s->tid);
}

static void found(const struct py_stack *s)
{
	run(s);
	py_right(s);
}

static void lost(const struct py_stack *s)
{
	run(s);
	host.now += SEARCH_AGAIN_NS;
	expect_none(RPROF_STOP_STATE_LOST);
}

static void aged(u32 version)
{
	age();
	lost(&a);
	hint_of(&a);
	hint_of(&b);
	if (!py_has(RPROF_PYTHON_STATUS)) {
		lost(&a);
		lost(&b);
		return;
	}
	host.now += SEARCH_AGAIN_NS;
	for (u32 i = 0; i < 3; i++) {
		found(&a);
		found(&b);
	}
	/* Missed, and mended; then remembered. */
	expect_searches(3, 4);
	lost(&c);
}

static void state_is_found_where_user_space_has_seen_it(void **state)
{
	each_version(aged);
}

/* The page of an interpreter alone, and that of a state which comes before it in the list. */
static void aged_elsewhere(u32 version)
{
	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	host_poke(INTERPS + py.p.interp_threads, 4096);
	lost(&a);
	hint_of(&a);
	host.now += SEARCH_AGAIN_NS;
	found(&a);
	host_poke(INTERPS + py.p.interp_threads, c.tstate);
	host_poke(c.tstate + py.p.ts_next, 4096);
	lost(&b);
	hint_of(&b);
	host.now += SEARCH_AGAIN_NS;
	found(&b);
}

static void wherever_the_search_has_failed(void **state)
{
	each_version(aged_elsewhere);
}

static void instead_of_search(u32 version)
{
	u64 reads;

	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	for (u32 i = 0; i < 200; i++)
		py_state(INTERPS, TP(10 + i), TID + 10 + i);
	hint_of(&a);
	reads = counter(RPROF_COUNT_PY_READS);
	found(&a);
	assert_in_range(counter(RPROF_COUNT_PY_READS) - reads, 1, 60);
	expect_searches(1, 0);
	/* Not where it is to be compared with. */
	py_flags(RPROF_CONFIG_NO_CACHE);
	reads = counter(RPROF_COUNT_PY_READS);
	found(&a);
	assert_true(counter(RPROF_COUNT_PY_READS) - reads >= 200);
	py_flags(0);
	/* A wrong one does not keep it from being found. */
	hint(b.tid, a.tstate, TGID, 0);
	found(&b);
}

static void thread_of_which_nothing_is_remembered_is_looked_for_there_first(void **state)
{
	each_version(instead_of_search);
}

static void wrong(u32 version)
{
	const u64 freed = py_alloc(STATE_SIZE);
	const struct {
		u64 tstate;
		u32 tgid, execs;
	} hints[] = {
		{ a.tstate, TGID + 1, 0 }, { a.tstate, TGID, 1 },
		{ a.tstate, TGID, ~0u },   { b.tstate, TGID, 0 },
		{ freed, TGID, 0 },	   { a.tstate + 4, TGID, 0 },
		{ a.tstate + 8, TGID, 0 }, { 0, TGID, 0 },
		{ 4096, TGID, 0 },	   { 0xffff888000001000ULL, TGID, 0 },
		{ ~7ULL, TGID, 0 },
	};

	age();
	for (u32 i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		hint(a.tid, hints[i].tstate, hints[i].tgid, hints[i].execs);
		lost(&a);
		lost(&a);
	}
	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	/* Its own, but not the innermost, or not any more. */
	hint_of(&a);
	py_unbind(a.tstate);
	lost(&a);
	py_bind(a.tstate, true);
	host.now += SEARCH_AGAIN_NS;
	found(&a);
}

static void what_is_not_the_threads_state_stays_lost(void **state)
{
	each_version(wrong);
}

static void of_old(u32 version)
{
	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	age();
	hint_of(&a);
	found(&a);
	/* The state that is remembered is another's now, and it got one elsewhere. */
	host_poke(a.tstate + py.p.ts_thread_id, TP(60));
	lost(&a);
	a.tstate = py_state(INTERPS, a.tp, a.tid);
	lost(&a);
	hint_of(&a);
	host.now += SEARCH_AGAIN_NS;
	found(&a);
	/* After an exec nothing of before counts. */
	rprof_exec(NULL);
	py.p.execs = 2;
	py_table(&py.p);
	lost(&a);
	hint(a.tid, a.tstate, TGID, 1);
	host.now += SEARCH_AGAIN_NS;
	found(&a);
}

static void newer_hint_mends_what_is_remembered(void **state)
{
	each_version(of_old);
}

static void without_one(u32 version)
{
	hint(TID + 70, a.tstate, TGID, 0);
	host.tid = TID + 70;
	host_kernel_poke(KTASK + TASK_TP, TP(70));
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, 0);
	expect_none(RPROF_STOP_NO_STATE);
}

static void thread_without_a_state_has_none_for_a_hint(void **state)
{
	each_version(without_one);
}

static void by_number(u32 version)
{
	struct rprof_config config = py_config(0);

	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	config.task_tp = 0;
	host_config(&config);
	py.p.flags |= RPROF_PYTHON_NATIVE_TID;
	py_table(&py.p);
	age();
	hint(a.tid, b.tstate, TGID, 0);
	lost(&a);
	hint_of(&a);
	host.now += SEARCH_AGAIN_NS;
	found(&a);
}

static void number_counts_there_where_the_pointer_is_not_known(void **state)
{
	each_version(by_number);
}

static void walked_twice(u32 version)
{
	const u32 flags[] = { RPROF_CONFIG_VERIFY, RPROF_CONFIG_NO_CACHE };

	if (!py_has(RPROF_PYTHON_STATUS))
		return;
	age();
	hint_of(&a);
	for (u32 i = 0; i < 2; i++) {
		py_flags(flags[i]);
		found(&a);
		found(&a);
	}
	assert_true(counter(RPROF_COUNT_VERIFIED) == 2);
	assert_int_equal(counter(RPROF_COUNT_MISMATCHES), 0);
	expect_searches(3, 1);
}

static void walk_that_uses_nothing_of_before_finds_it_too(void **state)
{
	each_version(walked_twice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREAD_TEST(state_is_found_where_user_space_has_seen_it),
		THREAD_TEST(wherever_the_search_has_failed),
		THREAD_TEST(thread_of_which_nothing_is_remembered_is_looked_for_there_first),
		THREAD_TEST(what_is_not_the_threads_state_stays_lost),
		THREAD_TEST(newer_hint_mends_what_is_remembered),
		THREAD_TEST(thread_without_a_state_has_none_for_a_hint),
		THREAD_TEST(number_counts_there_where_the_pointer_is_not_known),
		THREAD_TEST(walk_that_uses_nothing_of_before_finds_it_too),
	};

	return cmocka_run_group_tests_name("python_hint", tests, NULL, NULL);
}
