// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kernel.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "btf_file.h"
#include "log.h"
#include "rprof/record.h"
#include "task_layout.h"

/* THREAD_SIZE of x86-64 and s390x without KASAN: arch/.../include/asm/{page_64_types,thread_info}.h */
#define THREAD_SIZE 16384

#define VMLINUX_BTF "/sys/kernel/btf/vmlinux"

/* Byte offset of a member of a struct of the kernel; 0: not there. The first member is none of ours. */
static __u32 offset_of(const struct btf_file *btf, const char *type, const char *member)
{
	int offset = btf_file_member(btf, type, member, NULL);

	return offset > 0 ? (__u32)offset : 0;
}

/* Of struct pid, include/linux/pid.h: the numbers of a task, by namespace. */
static void pid_offsets(const struct btf_file *btf, struct rprof_config *c)
{
	bool nr_is_first = !btf_file_member(btf, "upid", "nr", &c->upid_size);

	c->task_leader = offset_of(btf, "task_struct", "group_leader");
	c->pid_level = offset_of(btf, "pid", "level");
	c->pid_numbers = offset_of(btf, "pid", "numbers");
	c->upid_ns = offset_of(btf, "upid", "ns");
	if (c->task_leader && c->pid_level && c->pid_numbers && c->upid_ns && nr_is_first)
		c->task_thread_pid = offset_of(btf, "task_struct", "thread_pid");
}

/* Where a task's thread pointer is saved when it does not run, from the task_struct on. */
static __u32 thread_pointer(const struct btf_file *btf)
{
	__u32 thread = offset_of(btf, "task_struct", "thread");
	int member = btf_file_member(btf, "thread_struct", ARCH_THREAD_POINTER, NULL);

	return thread && member >= 0 ? thread + (__u32)member : 0;
}

/* How many page faults a task has had: two words, of which the first is pointed to. */
static __u32 task_faults(const struct btf_file *btf)
{
	__u32 minor = offset_of(btf, "task_struct", "min_flt");

	return minor && offset_of(btf, "task_struct", "maj_flt") == minor + 8 ? minor : 0;
}

void kernel_offsets(struct rprof_config *c)
{
	struct btf_file btf;
	int err = btf_file_open(&btf, VMLINUX_BTF);

	c->thread_size = THREAD_SIZE;
	if (err) {
		log_debug("kernel BTF: %s", strerror(-err));
		task_layout_find(c);
		return;
	}
	c->task_stack = offset_of(&btf, "task_struct", "stack");
	c->task_mm = offset_of(&btf, "task_struct", "mm");
	c->task_signal = offset_of(&btf, "task_struct", "signal");
	c->signal_live = offset_of(&btf, "signal_struct", "live");
	if (!c->signal_live)
		c->task_signal = 0;
	c->task_pid = offset_of(&btf, "task_struct", "pid");
	c->task_tgid = offset_of(&btf, "task_struct", "tgid");
	if (c->task_signal && c->task_pid && c->task_tgid)
		c->signal_runtime = offset_of(&btf, "signal_struct", "sum_sched_runtime");
	c->task_start = offset_of(&btf, "task_struct", "start_time");
	c->task_tp = thread_pointer(&btf);
	c->task_faults = task_faults(&btf);
	pid_offsets(&btf, c);
	btf_file_close(&btf);
}

bool kernel_knows_namespaces(void)
{
	struct rprof_config c = {};

	kernel_offsets(&c);
	return c.task_thread_pid;
}

__u32 kernel_max_stack(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_max_stack", "re");
	unsigned int n = RPROF_MAX_KERNEL;

	if (f) {
		if (fscanf(f, "%u", &n) != 1 || n > RPROF_MAX_KERNEL)
			n = RPROF_MAX_KERNEL;
		fclose(f);
	}
	return n;
}

bool kernel_has_task_regs(void)
{
	/* libbpf's helper probe says yes to every helper from 6.12 on, so: load it. */
	const struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_current_task_btf },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_task_pt_regs },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "rprof_probe", "GPL", insns,
			       sizeof(insns) / sizeof(insns[0]), NULL);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}
