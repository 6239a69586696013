// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "kernel.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "rprof/record.h"

/* THREAD_SIZE of x86-64 and s390x without KASAN: arch/.../include/asm/{page_64_types,thread_info}.h */
#define THREAD_SIZE 16384

/* Byte offset of a member, also inside anonymous structs and unions; -ENOENT. */
static int member_offset(const struct btf *btf, __u32 type_id, const char *name, int depth)
{
	const struct btf_type *t = btf__type_by_id(btf, type_id);
	const struct btf_member *m;

	if (!t || !btf_is_composite(t) || depth > 4)
		return -ENOENT;
	m = btf_members(t);
	for (int i = 0; i < btf_vlen(t); i++, m++) {
		const char *member = btf__name_by_offset(btf, m->name_off);
		int bits = btf_member_bit_offset(t, i), inner;

		if (member && !strcmp(member, name))
			return bits / 8;
		if (member && *member)
			continue;
		inner = member_offset(btf, m->type, name, depth + 1);
		if (inner >= 0)
			return bits / 8 + inner;
	}
	return -ENOENT;
}

/* Byte offset of a member of a struct of the kernel; 0: not there. The first member is none of ours. */
static __u32 offset_of(const struct btf *btf, const char *type, const char *member)
{
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT);
	int offset = id > 0 ? member_offset(btf, id, member, 0) : -ENOENT;

	return offset > 0 ? offset : 0;
}

/* Of struct pid, include/linux/pid.h: the numbers of a task, by namespace. */
static void pid_offsets(const struct btf *btf, struct rprof_config *c)
{
	int upid = btf__find_by_name_kind(btf, "upid", BTF_KIND_STRUCT);

	c->task_leader = offset_of(btf, "task_struct", "group_leader");
	c->pid_level = offset_of(btf, "pid", "level");
	c->pid_numbers = offset_of(btf, "pid", "numbers");
	c->upid_ns = offset_of(btf, "upid", "ns");
	c->upid_size = upid > 0 ? btf__resolve_size(btf, upid) : 0;
	if (c->task_leader && c->pid_level && c->pid_numbers && c->upid_ns && c->upid_size &&
	    !member_offset(btf, upid, "nr", 0))
		c->task_thread_pid = offset_of(btf, "task_struct", "thread_pid");
}

void kernel_offsets(struct rprof_config *c)
{
	struct btf *btf = btf__load_vmlinux_btf();

	c->thread_size = THREAD_SIZE;
	if (!btf) {
		log_debug("kernel BTF: %s", strerror(errno));
		return;
	}
	c->task_stack = offset_of(btf, "task_struct", "stack");
	c->task_mm = offset_of(btf, "task_struct", "mm");
	c->task_signal = offset_of(btf, "task_struct", "signal");
	c->signal_live = offset_of(btf, "signal_struct", "live");
	if (!c->signal_live)
		c->task_signal = 0;
	c->task_pid = offset_of(btf, "task_struct", "pid");
	c->task_tgid = offset_of(btf, "task_struct", "tgid");
	pid_offsets(btf, c);
	btf__free(btf);
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
