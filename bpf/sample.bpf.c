// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Entry programs: count the tick, filter, take a scratch slot, find the registers, walk, send.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "native.bpf.h"
#include "python.bpf.h"
#include "emit.bpf.h"
#include "ids.bpf.h"
#include "arch/arch.h"

#define NATIVE_CALLS ((RPROF_MAX_NATIVE + RPROF_CHUNK - 1) / RPROF_CHUNK)
#define TIMED_MASK 15	/* one run of 16 is timed: a reading of the clock is 3 % of a sample */

static __always_inline bool followed(const struct rprof_proc *proc, u32 tid)
{
	if (!(u32)bpf_get_current_pid_tgid()) /* idle */
		return false;
	if (proc && (proc->flags & RPROF_PROC_WAIT_EXEC))
		return false;
	if (rprof_config.filter == RPROF_FILTER_TGID)
		return proc && (proc->flags & RPROF_PROC_FOLLOW);
	if (rprof_config.filter == RPROF_FILTER_TID)
		return bpf_map_lookup_elem(&rprof_tids, &tid) != NULL;
	return true;
}

/* Which mappings count for this sample: those of this process's current image, or none. */
static __always_inline void take_table(struct scratch *s, const struct rprof_proc *proc)
{
	const struct rprof_table *t;
	u32 space, execs, version, index;
	const struct rprof_run *run;

	s->stack.space = 0;
	s->table_count = 0;
	if (!proc)
		return;
	index = proc->table;
	t = bpf_map_lookup_elem(&rprof_tables, &index);
	if (!t)
		return;
	version = *(const volatile u32 *)&t->version;
	run = &t->runs[version & 1];
	space = *(const volatile u32 *)&run->space;
	execs = *(const volatile u32 *)&run->execs;
	s->table_first = *(const volatile u32 *)&run->first;
	s->table_count = *(const volatile u32 *)&run->count;
	if (!space || execs != proc->execs || version != *(const volatile u32 *)&t->version) {
		s->table_count = 0;
		return;
	}
	s->stack.space = space;
	/* What is remembered from the last sample on this CPU holds for the same table alone. */
	u64 key = (u64)index << 32 | version;

	if (s->table_key != key) {
		s->table_key = key;
		s->exec_map.end = 0;
		s->exec_map2.end = 0;
		s->stack_map.end = 0;
		s->absent_page = 0;
	}
}

/* How the interpreter of this process is read, if it has one that user space knows. */
static __always_inline void take_python(struct scratch *s, u32 slot, const struct rprof_proc *proc)
{
	const struct rprof_python *p;
	struct py_scratch *py = py_at(slot);
	u32 index;

	s->has_python = 0;
	if (!proc || !py || rprof_config.flags & RPROF_CONFIG_NO_USER)
		return;
	index = proc->table;
	p = bpf_map_lookup_elem(&rprof_pythons, &index);
	if (!p || *(const volatile u32 *)&p->execs != proc->execs + 1)
		return;
	py->p = *p;
	py->execs = proc->execs;
	s->has_python = *(const volatile u32 *)&p->execs == proc->execs + 1;
}

/* The interrupted kernel stack. 0 frames and a stop when it was user code, or not wanted. */
static __always_inline void walk_kernel(struct bpf_perf_event_data *ctx, struct scratch *s,
					bool user)
{
	long len;

	s->stack.stop_kernel = RPROF_STOP_NONE;
	if (user || (rprof_config.flags & RPROF_CONFIG_NO_KERNEL))
		return;
	len = bpf_get_stack(ctx, s->words, RPROF_MAX_KERNEL * sizeof(u64), 0);
	if (len < 0 || len > (long)(RPROF_MAX_KERNEL * sizeof(u64))) {
		s->stack.stop_kernel = RPROF_STOP_KSTACK;
		return;
	}
	s->n_words = len / sizeof(u64);
	s->stack.n_kernel = s->n_words;
	/* The kernel does not say whether it had more. */
	s->stack.stop_kernel = s->n_words >= rprof_config.max_kernel ? RPROF_STOP_DEPTH :
								       RPROF_STOP_END;
}

/* User registers of a task that was interrupted in the kernel; enum rprof_stop. */
static __always_inline int saved_frame(struct scratch *s, bool task_regs)
{
	u64 *regs = (u64 *)s->window;
	u64 task = bpf_get_current_task(), mm = 0, top = 0;

	if (rprof_config.task_mm) {
		if (bpf_probe_read_kernel(&mm, sizeof(mm), (void *)(task + rprof_config.task_mm)))
			return RPROF_STOP_NO_REGS;
		if (!mm)
			return RPROF_STOP_NO_MM;
	}
	if (task_regs) {
		void *from = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		if (bpf_probe_read_kernel(regs, ARCH_PT_REGS_WORDS * 8, from))
			return RPROF_STOP_NO_REGS;
		return arch_regs_from_task(regs, s);
	}
	if (!rprof_config.task_stack ||
	    bpf_probe_read_kernel(&top, sizeof(top), (void *)(task + rprof_config.task_stack)))
		return RPROF_STOP_NO_REGS;
	top += rprof_config.thread_size;
	if (bpf_probe_read_kernel(regs, ARCH_TOP_WORDS * 8, (void *)(top - ARCH_TOP_WORDS * 8)))
		return RPROF_STOP_NO_REGS;
	return arch_regs_from_top(regs, s);
}

static __always_inline void walk_native(struct bpf_perf_event_data *ctx, struct scratch *s,
					u32 slot, bool user, bool task_regs)
{
	s->stop = RPROF_STOP_NONE;
	if (rprof_config.flags & RPROF_CONFIG_NO_USER)
		return;
	/* Without a number of its own nothing of it can be read, so no address has a meaning. */
	if (!s->stack.tgid) {
		s->stop = RPROF_STOP_OTHER_NS;
		return;
	}
	s->stop = user ? arch_ctx_frame(ctx, s) : saved_frame(s, task_regs);
	if (s->stop != RPROF_STOP_END)
		return;
	/* Kernel workers of a process (io_uring, vhost) have its memory but were never in it. */
	if (!user && (s->frame.ip < LOWEST_CODE || !s->frame.sp)) {
		s->stop = RPROF_STOP_NO_MM;
		return;
	}
	if (native_begin(slot))
		return;
	/* The last chunk that may run ends with DEPTH, or the walk ended before it. */
	for (int i = 0; i < NATIVE_CALLS; i++)
		if (native_chunk(slot))
			return;
}

/* Count what the walks of this sample met; END and NONE are no failures. */
static __always_inline void count_stop(struct rprof_cpu *cpu, u64 stop)
{
	if (stop <= RPROF_STOP_NONE)
		return;
	/* Keeps the two tests apart: clang makes one of a copy, and 5.10 loses the bound. */
	asm volatile("" : "+r"(stop));
	if (stop >= RPROF_STOP_MAX)
		return;
	cpu->counters[stop]++;
}

static __always_inline void take_sample(struct bpf_perf_event_data *ctx, struct scratch *s,
					struct rprof_cpu *cpu, u32 slot,
					const struct rprof_proc *proc, bool task_regs)
{
	bool user = arch_ctx_user(ctx);

	s->time_ns = bpf_ktime_get_ns();
	s->stack.n_kernel = 0;
	s->stack.n_native = 0;
	s->stack.n_python = 0;
	s->stack.stop_python = RPROF_STOP_NONE;
	s->n_words = 0;
	s->reads = 0;
	s->read_faults = 0;
	s->searches = 0;
	bpf_get_current_comm(s->stack.comm, sizeof(s->stack.comm));
	take_table(s, proc);
	take_python(s, slot, proc);
	walk_kernel(ctx, s, user);
	walk_native(ctx, s, slot, user, task_regs);
	s->stack.stop_native = s->stop;
	/* Whose memory is gone, or cannot be named, has no frames. */
	if (s->has_python && s->stack.tgid && s->stop != RPROF_STOP_NO_MM)
		python_walk(slot);
	count_stop(cpu, s->stack.stop_python);
	count_stop(cpu, s->stack.stop_kernel);
	count_stop(cpu, s->stop);
	cpu->counters[RPROF_COUNT_READS] += s->reads;
	cpu->counters[RPROF_COUNT_READ_FAULTS] += s->read_faults;
	cpu->counters[RPROF_COUNT_SEARCHES] += s->searches;
	emit_sample(slot);
}

static __always_inline int on_tick(struct bpf_perf_event_data *ctx, bool task_regs)
{
	u64 pid_tgid = current_ids();
	struct rprof_cpu *cpu = this_cpu();
	const struct rprof_proc *proc;
	struct scratch *s;
	u32 tgid = pid_tgid >> 32, slot;

	if (!cpu)
		return 0;
	cpu->counters[RPROF_COUNT_TICKS]++;
	proc = bpf_map_lookup_elem(&rprof_procs, &tgid);
	if (!followed(proc, pid_tgid)) {
		cpu->counters[RPROF_COUNT_OTHER]++;
		return 0;
	}
	cpu->counters[RPROF_COUNT_MATCHED]++;
	/* A program that interrupts another one on this CPU takes the next slot, and ends first. */
	slot = cpu->level;
	s = slot < RPROF_LEVELS ? scratch_at(slot) : NULL;
	if (!s) {
		cpu->counters[RPROF_STOP_LOST_SCRATCH]++;
		return 0;
	}
	s->tid = pid_tgid;
	s->stack.tgid = tgid;
	cpu->level++;
	take_sample(ctx, s, cpu, slot, proc, task_regs);
	cpu->level--;
	if (!(cpu->counters[RPROF_COUNT_MATCHED] & TIMED_MASK)) {
		cpu->counters[RPROF_COUNT_TIMED]++;
		cpu->counters[RPROF_COUNT_TIMED_NS] += bpf_ktime_get_ns() - s->time_ns;
	}
	return 0;
}

SEC("perf_event")
int rprof_clock(struct bpf_perf_event_data *ctx)
{
	return on_tick(ctx, false);
}

/*
 * The same where the kernel points out the user registers itself: bpf_task_pt_regs(), 5.15, needs
 * BTF. Loaded instead of rprof_clock if it loads; "?": off unless session.c asks.
 */
SEC("?perf_event")
int rprof_clock_btf(struct bpf_perf_event_data *ctx)
{
	return on_tick(ctx, true);
}
