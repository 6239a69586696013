// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whose registers a walk starts from: the sample's, or those saved when the thread entered the kernel. */
#include <errno.h>

#include "thread_x86.h"

#define FP (STACK + 0x8000)

static const u64 kstack[] = { 0xffffffff81000010ULL, 0xffffffff81000020ULL, 0xffffffff81000030ULL };

static int setup(void **state)
{
	struct bpf_perf_event_data user = user_regs(PC, FP - 64, FP);

	thread_setup(state);
	host.kstack = kstack;
	host.n_kstack = 3;
	put_chain(FP, 3, 64);
	save_regs(&user, 0);
	return 0;
}

static struct seen sample_kernel(bool btf)
{
	struct bpf_perf_event_data ctx = kernel_regs();

	assert_int_equal(btf ? rprof_clock_btf(&ctx) : rprof_clock(&ctx), 0);
	return last_seen();
}

static void assert_refused(u32 stop)
{
	for (u32 btf = 0; btf < 2; btf++) {
		u64 before = counter(stop);
		struct seen seen = sample_kernel(btf);

		assert_int_equal(seen.stop, stop);
		assert_int_equal(seen.n, 0);
		/* The kernel part stands. */
		assert_int_equal(seen.stack->n_kernel, 3);
		assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_END);
		assert_int_equal(counter(stop), before + 1);
	}
}

static void sample_in_user_mode_has_no_kernel_stack(void **state)
{
	struct seen seen = sample_at(FP);

	assert_int_equal(seen.stack->n_kernel, 0);
	assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_NONE);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

static void sample_in_the_kernel_has_both_stacks(void **state)
{
	for (u32 btf = 0; btf < 2; btf++) {
		struct seen seen = sample_kernel(btf);

		assert_int_equal(seen.stack->n_kernel, 3);
		assert_memory_equal(seen.kernel, kstack, sizeof(kstack));
		assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_END);
		assert_frame(&seen, 0, PC, RPROF_HOW_PC);
		assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	}
}

static void padding_at_the_top_of_the_kernel_stack_is_skipped(void **state)
{
	struct bpf_perf_event_data nothing = {}, user = user_regs(PC, FP - 64, FP);
	struct seen seen;

	save_regs(&nothing, 0);
	save_regs(&user, 16);
	seen = sample_kernel(false);
	assert_frame(&seen, 0, PC, RPROF_HOW_PC);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

static void upper_bits_of_saved_selectors_mean_nothing(void **state)
{
	struct bpf_perf_event_data user = user_regs(PC, FP - 64, FP);
	struct seen seen;

	/* struct fred_cs, 6.9: event bits above the selector. */
	user.regs.words[W_CS] |= 0x123400000000ULL;
	user.regs.words[W_SS] |= 0x567800010000ULL;
	save_regs(&user, 16);
	seen = sample_kernel(false);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

static void saved_registers_of_the_kernel_are_refused(void **state)
{
	struct bpf_perf_event_data saved = kernel_regs();

	save_regs(&saved, 0);
	assert_refused(RPROF_STOP_NO_REGS);
}

/* io_uring's: they share the memory of who made them, and a stale frame pointer of its stack. */
static void kernel_worker_of_a_process_has_no_user_stack(void **state)
{
	struct bpf_perf_event_data saved = user_regs(0, 0, FP);

	save_regs(&saved, 0);
	assert_refused(RPROF_STOP_NO_MM);
}

static void saved_registers_with_a_wrong_stack_segment_are_refused(void **state)
{
	struct bpf_perf_event_data saved = user_regs(PC, FP - 64, FP);

	saved.regs.words[W_SS] = 0;
	save_regs(&saved, 0);
	assert_refused(RPROF_STOP_NO_REGS);
}

static void garbage_at_the_top_of_the_kernel_stack_is_refused(void **state)
{
	struct bpf_perf_event_data saved = {};
	u64 random = 7;

	for (u32 round = 0; round < 500; round++) {
		for (u32 i = 0; i < W_REGS; i++)
			saved.regs.words[i] = next_random(&random);
		save_regs(&saved, round % 2 * 16);
		assert_int_equal(sample_kernel(false).stop, RPROF_STOP_NO_REGS);
	}
}

static void process_in_32_bit_mode_is_not_walked(void **state)
{
	struct bpf_perf_event_data ctx = user_regs(PC, FP - 64, FP);
	struct seen seen;

	ctx.regs.words[W_CS] = 0x23;
	save_regs(&ctx, 0);
	assert_refused(RPROF_STOP_COMPAT);
	rprof_clock(&ctx);
	seen = last_seen();
	assert_int_equal(seen.stop, RPROF_STOP_COMPAT);
	assert_int_equal(seen.n, 0);
}

static void task_without_memory_is_named(void **state)
{
	host_kernel_poke(KTASK + TASK_MM, 0);
	assert_refused(RPROF_STOP_NO_MM);
}

static void task_that_cannot_be_read_has_no_registers(void **state)
{
	host.task = 0x1000;
	assert_refused(RPROF_STOP_NO_REGS);
}

static void stack_that_cannot_be_read_has_no_registers(void **state)
{
	host_kernel_poke(KTASK + TASK_STACK, KSTACK + KSTACK_SIZE);
	host.task_regs = KSTACK + KSTACK_SIZE;
	assert_refused(RPROF_STOP_NO_REGS);
	host_kernel_poke(KTASK + TASK_STACK, KSTACK + 8);
	assert_int_equal(sample_kernel(false).stop, RPROF_STOP_NO_REGS);
}

static void kernel_without_btf_has_no_registers(void **state)
{
	struct rprof_config config = thread_config();

	config.task_stack = 0;
	host_config(&config);
	assert_int_equal(sample_kernel(false).stop, RPROF_STOP_NO_REGS);
	/* Where the kernel itself points them out, no offset of the stack is needed. */
	assert_int_equal(sample_kernel(true).stop, RPROF_STOP_END);
	config = thread_config();
	config.task_mm = 0;
	host_config(&config);
	host_kernel_poke(KTASK + TASK_MM, 0);
	assert_int_equal(sample_kernel(false).stop, RPROF_STOP_END);
}

static void registers_of_the_last_sample_are_not_used(void **state)
{
	sample_kernel(false);
	host_kernel_poke(KTASK + TASK_MM, 0);
	assert_int_equal(sample_kernel(false).n, 0);
}

static void kernel_frames_only_leaves_user_memory_alone(void **state)
{
	struct rprof_config config = thread_config();
	struct seen seen;

	config.flags = RPROF_CONFIG_NO_USER;
	host_config(&config);
	seen = sample_kernel(false);
	assert_int_equal(seen.stack->n_kernel, 3);
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.stop, RPROF_STOP_NONE);
	seen = sample_at(FP);
	assert_int_equal(seen.stack->n_kernel, 0);
	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.stop, RPROF_STOP_NONE);
	assert_int_equal(host.user_reads, 0);
}

static void user_frames_only_has_no_kernel_stack(void **state)
{
	struct rprof_config config = thread_config();
	struct seen seen;

	config.flags = RPROF_CONFIG_NO_KERNEL;
	host_config(&config);
	seen = sample_kernel(false);
	assert_int_equal(seen.stack->n_kernel, 0);
	assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_NONE);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	config.flags |= RPROF_CONFIG_NO_USER;
	host_config(&config);
	assert_int_equal(sample_kernel(false).stack->h.len, sizeof(struct rprof_stack));
}

static void kernel_stack_that_cannot_be_had_is_named(void **state)
{
	struct seen seen;

	host.kstack_err = -EFAULT;
	seen = sample_kernel(false);
	assert_int_equal(seen.stack->n_kernel, 0);
	assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_KSTACK);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
	assert_int_equal(counter(RPROF_STOP_KSTACK), 1);
}

static void empty_kernel_stack_is_complete(void **state)
{
	struct seen seen;

	host.n_kstack = 0;
	seen = sample_kernel(false);
	assert_int_equal(seen.stack->n_kernel, 0);
	assert_int_equal(seen.stack->stop_kernel, RPROF_STOP_END);
	assert_chain(&seen, 1, 3, 0, RPROF_STOP_END);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sample_in_user_mode_has_no_kernel_stack),
		TEST(sample_in_the_kernel_has_both_stacks),
		TEST(padding_at_the_top_of_the_kernel_stack_is_skipped),
		TEST(upper_bits_of_saved_selectors_mean_nothing),
		TEST(saved_registers_of_the_kernel_are_refused),
		TEST(kernel_worker_of_a_process_has_no_user_stack),
		TEST(saved_registers_with_a_wrong_stack_segment_are_refused),
		TEST(garbage_at_the_top_of_the_kernel_stack_is_refused),
		TEST(process_in_32_bit_mode_is_not_walked),
		TEST(task_without_memory_is_named),
		TEST(task_that_cannot_be_read_has_no_registers),
		TEST(stack_that_cannot_be_read_has_no_registers),
		TEST(kernel_without_btf_has_no_registers),
		TEST(registers_of_the_last_sample_are_not_used),
		TEST(kernel_frames_only_leaves_user_memory_alone),
		TEST(user_frames_only_has_no_kernel_stack),
		TEST(kernel_stack_that_cannot_be_had_is_named),
		TEST(empty_kernel_stack_is_complete),
	};

	return cmocka_run_group_tests_name("registers_x86", tests, NULL, NULL);
}
