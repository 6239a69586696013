// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The life of followed processes: exec, exit, fork. Raw tracepoints need neither tracefs nor BTF.
 * What happens is sent in ring order, so that user space knows which samples are older.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "python.bpf.h"
#include "ids.bpf.h"

#define MAP_EEXIST 17 /* EEXIST, include/uapi/asm-generic/errno-base.h */

static __always_inline void count(u32 what)
{
	struct rprof_cpu *cpu = this_cpu();

	if (cpu)
		cpu->counters[what]++;
}

/* Return: did the ring take it? */
static __always_inline bool send_space(u32 tgid, u32 execs, u32 ppid, u8 why, u64 flags)
{
	struct rprof_space space = {};

	space.h.type = RPROF_RECORD_SPACE;
	space.h.len = sizeof(space);
	space.time_ns = bpf_ktime_get_ns();
	space.tgid = tgid;
	space.space = execs;
	space.ppid = ppid;
	space.why = why;
	if (!bpf_ringbuf_output(&rprof_ring, &space, sizeof(space), flags))
		return true;
	count(RPROF_STOP_LOST_SPACE);
	return false;
}

/* A followed process has a new image: its mapping table no longer counts. */
SEC("raw_tp/sched_process_exec")
int rprof_exec(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tgid = current_ids() >> 32;
	struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &tgid);

	if (!proc)
		return 0;
	/* The other threads of this process are gone by now (de_thread in fs/exec.c). */
	proc->execs++;
	proc->flags &= ~RPROF_PROC_WAIT_EXEC;
	send_space(tgid, proc->execs, 0, RPROF_SPACE_EXEC, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/*
 * Have all threads of current's process ended, current last? do_exit() counts signal->live down
 * before the tracepoint. Where the offsets are not known the end of the first thread is a hint.
 */
static __always_inline bool process_ends(u64 pid_tgid, bool *sure)
{
	u64 signal = 0, task = bpf_get_current_task();
	u32 tgid = pid_tgid >> 32;
	int live = 1;

	*sure = rprof_config.task_signal;
	if (!*sure)
		return tgid == (u32)pid_tgid;
	if (bpf_probe_read_kernel(&signal, sizeof(signal),
				  (void *)(task + rprof_config.task_signal)) ||
	    bpf_probe_read_kernel(&live, sizeof(live),
				  (void *)(signal + rprof_config.signal_live)) ||
	    live)
		return false;
	if (rprof_config.signal_runtime)
		bpf_map_update_elem(&rprof_ending, &signal, &tgid, BPF_ANY);
	return true;
}

/* Numbers of what ends may be others' at once: they are followed no more. */
SEC("raw_tp/sched_process_exit")
int rprof_exit(struct bpf_raw_tracepoint_args *ctx)
{
	u64 pid_tgid = current_ids();
	u32 tgid = pid_tgid >> 32, tid = pid_tgid;
	struct rprof_proc *proc;
	bool sure;

	if (rprof_config.filter == RPROF_FILTER_TID)
		bpf_map_delete_elem(&rprof_tids, &tid);
	bpf_map_delete_elem(&rprof_threads, &tid);
	proc = bpf_map_lookup_elem(&rprof_procs, &tgid);
	if (!proc || !process_ends(pid_tgid, &sure))
		return 0;
	send_space(tgid, proc->execs, 0, RPROF_SPACE_EXIT, BPF_RB_NO_WAKEUP);
	if (sure)
		bpf_map_delete_elem(&rprof_procs, &tgid);
	return 0;
}

/*
 * A task is given back. release_task() has added its time to what its process has used, the first
 * thread's last (__exit_signal() in kernel/exit.c); its numbers are gone, but not its signal_struct.
 */
SEC("?raw_tp/sched_process_free")
int rprof_free(struct bpf_raw_tracepoint_args *ctx)
{
	u64 task = ctx->args[0], signal = 0, ns = 0;
	u32 pid = 0, tgid = 0, *ending;

	if (bpf_probe_read_kernel(&pid, sizeof(pid), (void *)(task + rprof_config.task_pid)) ||
	    bpf_probe_read_kernel(&tgid, sizeof(tgid), (void *)(task + rprof_config.task_tgid)) ||
	    pid != tgid ||
	    bpf_probe_read_kernel(&signal, sizeof(signal),
				  (void *)(task + rprof_config.task_signal)))
		return 0;
	ending = bpf_map_lookup_elem(&rprof_ending, &signal);
	if (!ending)
		return 0;
	tgid = *ending;
	bpf_map_delete_elem(&rprof_ending, &signal);
	if (!bpf_probe_read_kernel(&ns, sizeof(ns), (void *)(signal + rprof_config.signal_runtime)))
		bpf_map_update_elem(&rprof_ended, &tgid, &ns, BPF_ANY);
	return 0;
}

/* The number of the process that @task is the first thread of; 0: it is a thread of another's. */
static __always_inline u32 new_process(u64 task)
{
	u32 pid = 0, tgid = 0;

	if (bpf_probe_read_kernel(&pid, sizeof(pid), (void *)(task + rprof_config.task_pid)) ||
	    bpf_probe_read_kernel(&tgid, sizeof(tgid), (void *)(task + rprof_config.task_tgid)) ||
	    pid != tgid)
		return 0;
	if (rprof_config.flags & RPROF_CONFIG_NESTED)
		return nested_ids(task) >> 32;
	return tgid;
}

/*
 * A child of a process that is followed with its children. The tracepoint comes before the child
 * first runs (kernel_clone in kernel/fork.c), so that no sample of it is missed. Loaded with -s.
 */
SEC("?raw_tp/sched_process_fork")
int rprof_fork(struct bpf_raw_tracepoint_args *ctx)
{
	const u32 want = RPROF_PROC_FOLLOW | RPROF_PROC_TREE;
	struct rprof_proc child = { .flags = want | RPROF_PROC_BORROWS }, *its;
	u32 ppid = current_ids() >> 32, tgid;
	const struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &ppid);
	long err;

	if (!proc || (proc->flags & (want | RPROF_PROC_WAIT_EXEC)) != want)
		return 0;
	tgid = new_process(ctx->args[1]);
	if (!tgid)
		return 0;
	/* Its image is its parent's: so are mappings and interpreter, until it has a table. */
	child.table = proc->table;
	child.execs = proc->execs;
	err = bpf_map_update_elem(&rprof_procs, &tgid, &child, BPF_NOEXIST);
	if (err == -MAP_EEXIST) /* User space has seen it in /proc already, and follows it. */
		return 0;
	if (err) {
		count(RPROF_STOP_LOST_CHILD);
		return 0;
	}
	if (send_space(tgid, 0, ppid, RPROF_SPACE_FORK, BPF_RB_FORCE_WAKEUP))
		return 0;
	/* User space would not know of it when the parent's table becomes another's. */
	its = bpf_map_lookup_elem(&rprof_procs, &tgid);
	if (its)
		its->table = RPROF_NO_TABLE;
	return 0;
}

/*
 * Run by the loader, never attached: process args[0] has table args[1]. Here and not by an update
 * of the map from user space, which writes the whole value and so could undo an exec.
 * Return: 0: no such process.
 */
SEC("?raw_tp")
int rprof_set_table(struct bpf_raw_tracepoint_args *ctx)
{
	u32 tgid = ctx->args[0];
	struct rprof_proc *proc = bpf_map_lookup_elem(&rprof_procs, &tgid);

	if (!proc)
		return 0;
	proc->table = ctx->args[1];
	proc->flags &= ~RPROF_PROC_BORROWS;
	return 1;
}
