// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * From this thread to its PyThreadState. A state is this thread's if its thread_id is the thread
 * pointer (pthread_self() on x86-64 glibc and musl, and on s390x), and its bound_gilstate bit is set:
 * a thread has one state per interpreter it was in, and that is the innermost (CPython 3.12,
 * Python/pystate.c, bind_gilstate_tstate). Found once, then looked for where the last sample had it.
 *
 * The kernel has the thread pointer of a running thread from when it was last switched out, or
 * created: s390x, arch/s390/kernel/process.c, __switch_to(), copy_thread(). A program sets its own
 * without a system call, so that what is there after an exec is of the image before. That is no
 * thread's of this one: then native_thread_id counts (3.11 on).
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "ids.bpf.h"
#include "maps.bpf.h"
#include "python.bpf.h"

#define SEARCH_STEPS 16		/* thread states of one global call, */
#define SEARCH_CALLS 128	/* 2,048 in all */
#define RETRY_NS 100000000ULL	/* a thread without a state may get one: searched for again then, */
#define LOST_NS 10000000ULL	/* or where the search failed: it may take 100 us */

extern const volatile struct rprof_config rprof_config;

static __always_inline bool read_state(struct py_scratch *py, u64 tstate)
{
	u64 len = py->p.ts_read;

	asm volatile("" : "+r"(len));
	if (!len || len > PY_STATE_BYTES || !tstate || (tstate & 7))
		return false;
	return py_read(py, py->ts, len, tstate);
}

/*
 * Is what lies in .ts the state of this thread, whatever interpreter it is of? After a fork() that
 * Python does not know of its number there is the parent's, and its pointer is right.
 */
static __always_inline bool is_ours(const struct py_scratch *py)
{
	if (py->tp && py_state_word(py, py->p.ts_thread_id) == py->tp)
		return true;
	return py->tid && py_state_word(py, py->p.ts_native_tid) == py->tid;
}

/* Though none is found for the thread pointer alone? What did the exec is the leader. */
static __always_inline bool may_have_state(const struct scratch *s, const struct py_scratch *py)
{
	return !py->tid && (rprof_config.flags & RPROF_CONFIG_TP_LATE) && s->tid == s->stack.tgid;
}

/* And of its states the innermost? */
static __always_inline bool is_bound(const struct py_scratch *py)
{
	u64 offset = py->p.ts_status;
	u32 bit = py->p.status_bit & 31;

	if (!(py->p.flags & RPROF_PYTHON_STATUS))
		return true;
	asm volatile("" : "+r"(offset));
	return *(const u32 *)(py->ts + (offset & (PY_STATE_BYTES - 1))) >> bit & 1;
}

static __always_inline bool use_state(struct py_scratch *py, u64 tstate)
{
	if (!read_state(py, tstate) || !is_ours(py) || !is_bound(py))
		return false;
	py->tstate = tstate;
	return true;
}

/* 3.9 to 3.11 have no such bit; there the runtime says whose state holds the GIL: perhaps ours. */
static __always_inline bool use_current(struct py_scratch *py)
{
	u64 current = 0;

	return py->p.runtime_current &&
	       py_read(py, &current, sizeof(current), py->p.runtime + py->p.runtime_current) &&
	       use_state(py, current);
}

/* Without the bit one of several states cannot be told, and a thread has at most one in each. */
static __always_inline bool one_interpreter(struct py_scratch *py)
{
	u64 head, next;

	return py_read(py, &head, sizeof(head), py->p.runtime + py->p.runtime_interpreters) &&
	       py_read(py, &next, sizeof(next), head + py->p.interp_next) && !next;
}

/*
 * A thread that had no state has got one: PyGILState_Ensure() puts it first in the list of the main
 * interpreter, which is named behind the first one (struct pyinterpreters, all versions).
 */
static __always_inline bool use_newest(struct py_scratch *py)
{
	u64 interp, tstate;

	return py_read(py, &interp, sizeof(interp),
		       py->p.runtime + py->p.runtime_interpreters + sizeof(u64)) &&
	       py_read(py, &tstate, sizeof(tstate), interp + py->p.interp_threads) &&
	       use_state(py, tstate);
}

/* The state that the last sample of this thread had. */
static __always_inline bool use_last(struct py_scratch *py)
{
	if (!py->last.tstate)
		return use_newest(py);
	if (!(py->p.flags & RPROF_PYTHON_STATUS) && !one_interpreter(py))
		return false;
	return use_state(py, py->last.tstate);
}

/*
 * Where user space has seen it. The way that the search takes is through pages that an idle process
 * does not touch: where they age BPF cannot read them (s390x), though it can the state itself. Up to
 * 3.11 the innermost state cannot be told without the list of interpreters, so that those stay lost.
 * Return: 0: it is there, as after use_state().
 */
__noinline int pystate_hint(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	const struct rprof_hint *hint;
	u32 tid;

	if (!py || !s || !(py->p.flags & RPROF_PYTHON_STATUS))
		return 1;
	tid = s->tid;
	hint = bpf_map_lookup_elem(&rprof_hints, &tid);
	if (!hint || hint->tgid != s->stack.tgid || hint->execs != py->execs)
		return 1;
	return use_state(py, hint->tstate) ? 0 : 1;
}

/* One thread state of the list. 1: the search is over. */
__noinline int pystate_step(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	u64 next;

	if (!py || !s)
		return 1;
	if (!py->search) {
		/* The next interpreter; the newest is first. */
		if (!py_read(py, &next, sizeof(next), py->search_interp + py->p.interp_next)) {
			py->stop = RPROF_STOP_STATE_LOST;
			return 1;
		}
		py->search_interp = next;
		if (!next) {
			py->stop = RPROF_STOP_NO_STATE;
			return 1;
		}
		if (!py_read(py, &next, sizeof(next), next + py->p.interp_threads)) {
			py->stop = RPROF_STOP_STATE_LOST;
			return 1;
		}
		py->search = next;
		return 0;
	}
	if (!read_state(py, py->search)) {
		py->stop = RPROF_STOP_STATE_LOST;
		return 1;
	}
	if (is_ours(py) && is_bound(py)) {
		py->candidate = py->search;
		py->n_candidates++;
		if (py->p.flags & RPROF_PYTHON_STATUS) {
			py->stop = RPROF_STOP_NONE;
			return 1;
		}
	}
	py->search = py_state_word(py, py->p.ts_next);
	return 0;
}

__noinline int pystate_chunk(u32 slot)
{
	for (int i = 0; i < SEARCH_STEPS; i++)
		if (pystate_step(slot))
			return 1;
	return 0;
}

/* All interpreters, all their threads. py->stop is NONE if there is a candidate in py->ts. */
static __always_inline void search(const struct scratch *s, struct py_scratch *py, u32 slot)
{
	u64 head = 0;

	py->search = 0;
	py->candidate = 0;
	py->n_candidates = 0;
	py->stop = RPROF_STOP_STATE_LOST;
	if (!py_read(py, &head, sizeof(head), py->p.runtime + py->p.runtime_interpreters))
		return;
	/* None before it is initialized, and none again when it is finalized. */
	if (!head) {
		py->stop = RPROF_STOP_NO_STATE;
		return;
	}
	py->search_interp = head;
	if (!py_read(py, &py->search, sizeof(head), head + py->p.interp_threads))
		return;
	for (int i = 0; i < SEARCH_CALLS; i++)
		if (pystate_chunk(slot))
			break;
	if (py->stop != RPROF_STOP_NO_STATE)
		return;
	if (py->n_candidates == 1 && read_state(py, py->candidate))
		py->stop = RPROF_STOP_NONE;
	else if (py->n_candidates) /* Several, and nothing says which is the innermost. */
		py->stop = RPROF_STOP_STATE_LOST;
	else if (may_have_state(s, py))
		py->stop = RPROF_STOP_STATE_LOST;
}

/* Where the thread pointer is exact, the number, which may be an earlier thread's, is not asked. */
static __always_inline void identify_by_number(const struct scratch *s, struct py_scratch *py,
					       u64 task)
{
	py->tid = 0;
	if (!py->p.ts_native_tid || (py->tp && !(rprof_config.flags & RPROF_CONFIG_TP_LATE)))
		return;
	py->tid = py->p.flags & RPROF_PYTHON_NATIVE_TID ? s->tid : own_number(task);
}

/* Who is this? Kernel memory; 0 where an offset is not known. */
static __always_inline void identify(const struct scratch *s, struct py_scratch *py)
{
	u64 task = bpf_get_current_task();

	py->tp = 0;
	py->start = 0;
	if (rprof_config.task_tp)
		bpf_probe_read_kernel(&py->tp, sizeof(py->tp),
				      (void *)(task + rprof_config.task_tp));
	if (rprof_config.task_start)
		bpf_probe_read_kernel(&py->start, sizeof(py->start),
				      (void *)(task + rprof_config.task_start));
	identify_by_number(s, py, task);
}

/* What the last sample of this thread found, into py->last. False: it was another's, or none. */
static __always_inline bool recall(const struct scratch *s, struct py_scratch *py)
{
	u32 tid = s->tid;
	const struct py_thread *t = bpf_map_lookup_elem(&rprof_threads, &tid);

	if (!t || t->start != py->start || t->tgid != s->stack.tgid || t->execs != py->execs)
		return false;
	/* A call of 50 ns: 200 words by instructions take longer. */
	return !bpf_probe_read_kernel(&py->last, sizeof(py->last), t);
}

/* For the next sample. What .memo holds says by itself what it is of. */
static __always_inline void remember(const struct scratch *s, struct py_scratch *py)
{
	u32 tid = s->tid;

	py->last.start = py->start;
	py->last.tp = py->tp;
	py->last.tgid = s->stack.tgid;
	py->last.execs = py->execs;
	py->last.tstate = py->tstate;
	py->last.retry = s->time_ns + (py->stop == RPROF_STOP_STATE_LOST ? LOST_NS : RETRY_NS);
	py->last.stop = py->stop;
	py->last.stack = 0;
	bpf_map_update_elem(&rprof_threads, &tid, &py->last, BPF_ANY);
}

/* Known without a search: that it has this one, or none. */
static __always_inline int state_hit(const struct py_scratch *py, struct rprof_cpu *cpu)
{
	/* With --no-cache nothing was remembered: the runtime itself says who holds the GIL. */
	if (!py->plain)
		cpu->counters[RPROF_COUNT_STATE_HITS]++;
	return py->stop != RPROF_STOP_NONE;
}

/*
 * The last sample does not say it. @recalled: there was one, which had the state @before; 0: none.
 * Sets py->stop and .tstate.
 */
static __always_inline void look(const struct scratch *s, struct py_scratch *py, u32 slot,
				 bool recalled, u64 before)
{
	if (!recalled && !py->plain && !pystate_hint(slot))
		return;
	search(s, py, slot);
	py->tstate = py->stop == RPROF_STOP_NONE ? py->candidate : 0;
	if (py->stop != RPROF_STOP_STATE_LOST)
		return;
	if (!pystate_hint(slot))
		py->stop = RPROF_STOP_NONE;
	else /* Its page, or those of the way to it, may be aged: looked for there again. */
		py->tstate = before;
}

__noinline int pystate_find(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	struct rprof_cpu *cpu = this_cpu();
	bool recalled = false;
	u64 before = 0;

	if (!py || !s || !cpu)
		return 1;
	identify(s, py);
	if (!py->tp && !py->tid) {
		py->stop = RPROF_STOP_STATE_LOST;
		return 1;
	}
	py->stop = RPROF_STOP_NONE;
	if (use_current(py))
		return state_hit(py, cpu);
	if (!py->plain && recall(s, py)) {
		recalled = true;
		before = py->last.tstate;
		if (use_last(py)) {
			if (!py->last.tstate)
				remember(s, py);
			return state_hit(py, cpu);
		}
		if (!py->last.tstate && py->last.tp == py->tp && s->time_ns < py->last.retry) {
			py->stop = py->last.stop;
			return state_hit(py, cpu);
		}
	}
	if (!py->compare)
		cpu->counters[RPROF_COUNT_STATE_MISSES]++;
	look(s, py, slot, recalled, before);
	if (!py->plain)
		remember(s, py);
	return py->stop != RPROF_STOP_NONE;
}
