// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A task has a number in its own pid namespace and in each one above: struct pid, include/linux/pid.h.
 * bpf_get_ns_current_pid_tgid() knows the innermost alone, so tasks further down would be lost.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "ids.bpf.h"

static __always_inline int read_at(void *to, u32 size, u64 base, u32 offset)
{
	return bpf_probe_read_kernel(to, size, (void *)(base + offset));
}

static __always_inline u64 number_at(u64 pid, u32 level)
{
	return pid + rprof_config.pid_numbers + (u64)level * rprof_config.upid_size;
}

__noinline u32 pid_number(u64 pid)
{
	struct rprof_ns *own;
	u32 zero = 0, level = 0, number = 0;
	u64 ns = 0;

	asm volatile("" : "+r"(pid));
	own = bpf_map_lookup_elem(&rprof_ns, &zero);
	if (!own || !own->ns || !pid)
		return 0;
	if (read_at(&level, sizeof(level), pid, rprof_config.pid_level) || level < own->level)
		return 0;
	/* The same level in another branch is another namespace. */
	if (read_at(&ns, sizeof(ns), number_at(pid, own->level), rprof_config.upid_ns) ||
	    ns != own->ns)
		return 0;
	if (read_at(&number, sizeof(number), number_at(pid, own->level), 0))
		return 0;
	return number;
}

__noinline u32 own_number(u64 task)
{
	u64 pid = 0;
	u32 level = 0, number = 0;

	asm volatile("" : "+r"(task));
	if (!rprof_config.task_thread_pid ||
	    read_at(&pid, sizeof(pid), task, rprof_config.task_thread_pid) ||
	    read_at(&level, sizeof(level), pid, rprof_config.pid_level) ||
	    read_at(&number, sizeof(number), number_at(pid, level), 0))
		return 0;
	return number;
}

__noinline u64 nested_ids(u64 task)
{
	u64 leader = 0, leader_pid = 0, pid = 0;
	u32 tid;

	asm volatile("" : "+r"(task));
	if (read_at(&leader, sizeof(leader), task, rprof_config.task_leader) ||
	    read_at(&leader_pid, sizeof(leader_pid), leader, rprof_config.task_thread_pid) ||
	    read_at(&pid, sizeof(pid), task, rprof_config.task_thread_pid))
		return 0;
	tid = pid_number(pid);
	return (u64)pid_number(leader_pid) << 32 | tid;
}

/*
 * Run once by the loader, as itself, before anything else: its namespace is the innermost that it
 * has a number in. Never attached.
 */
SEC("?raw_tp")
int rprof_find_ns(struct bpf_raw_tracepoint_args *ctx)
{
	u32 zero = 0, level = 0;
	struct rprof_ns *own = bpf_map_lookup_elem(&rprof_ns, &zero);
	u64 pid = 0, ns = 0;

	if (!own ||
	    read_at(&pid, sizeof(pid), bpf_get_current_task(), rprof_config.task_thread_pid) ||
	    read_at(&level, sizeof(level), pid, rprof_config.pid_level) ||
	    read_at(&ns, sizeof(ns), number_at(pid, level), rprof_config.upid_ns))
		return 0;
	own->level = level;
	own->ns = ns;
	return 1;
}
