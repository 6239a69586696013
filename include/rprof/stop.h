/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a walk ended or a sample was lost: the one vocabulary of failure. The same number is the
 * return code of a walker, a field of every stack, the index of a per-CPU counter, a line of the
 * summary and a label in tests. Appended to, never renumbered: capture files carry these numbers.
 */
#ifndef RPROF_STOP_H
#define RPROF_STOP_H

enum rprof_stop {
	/* Not a failure: the chain reached its proper end, or there was nothing to walk. */
	RPROF_STOP_END = 0,
	RPROF_STOP_NONE = 1,		/* not asked for (-K, -U), or no such stack */

	/* Ends of a native or kernel walk; the frames below (leaf side) stand. */
	RPROF_STOP_DEPTH = 2,		/* more frames than a record holds */
	RPROF_STOP_FAULT = 3,		/* stack memory not readable without a page fault */
	RPROF_STOP_UNALIGNED = 4,	/* chain word not 8-aligned */
	RPROF_STOP_DOWN = 5,		/* chain does not move up */
	RPROF_STOP_BOUNDS = 6,		/* chain leaves the mapping the stack lies in */
	RPROF_STOP_NOT_EXEC = 7,	/* return address not in executable memory */
	RPROF_STOP_NO_REGS = 8,		/* user registers of a sample in the kernel not found */
	RPROF_STOP_COMPAT = 9,		/* 32-bit or 31-bit process */
	RPROF_STOP_NO_MM = 10,		/* no user code: kernel thread, io worker, exiting */
	RPROF_STOP_KSTACK = 11,		/* bpf_get_stack failed */

	/* Losses: the sample is not sent, the counter is its only trace. */
	RPROF_STOP_LOST_RING = 12,	/* ring buffer full */
	RPROF_STOP_LOST_SCRATCH = 13,	/* no scratch at this nesting level */
	RPROF_STOP_LOST_SPACE = 14,	/* not a sample: a SPACE record the ring refused */

	/* Later ones, of either group. */
	RPROF_STOP_OTHER_NS = 15,	/* a walk: task outside of our pid namespace, its user part */
	RPROF_STOP_LOST_CHILD = 16,	/* not a sample: a child process not followed, no room */

	/* Ends of a Python walk; DEPTH, FAULT and UNALIGNED end one, too. */
	RPROF_STOP_NO_STATE = 17,	/* this thread has no thread state: it runs no Python code */
	RPROF_STOP_STATE_LOST = 18,	/* its thread state could not be found: memory, or too many */
	RPROF_STOP_BAD_FRAME = 19,	/* what should be a frame of the interpreter is none */
	RPROF_STOP_LOST_CODE = 20,	/* not a sample: a CODE record the ring refused */
	RPROF_STOP_UNLINKED =
		21, /* a frame, of either kind, that was not linked to its caller yet */

	RPROF_STOP_MAX
};

/* Counters that are not failures follow the stops in the same per-CPU array (DESIGN 7). */
enum rprof_count {
	RPROF_COUNT_TICKS = RPROF_STOP_MAX, /* runs of the program */
	RPROF_COUNT_OTHER,		/* ticks of tasks outside the filter, and of idle */
	RPROF_COUNT_MATCHED,		/* ticks of followed threads */
	RPROF_COUNT_SAMPLES,		/* SAMPLE records accepted by the ring */
	RPROF_COUNT_STACKS,		/* STACK records accepted by the ring */
	RPROF_COUNT_TIMED,		/* matched ticks whose run was timed */
	RPROF_COUNT_TIMED_NS,		/* and how long they took, ns */
	RPROF_COUNT_READS,		/* window reads of user stacks */
	RPROF_COUNT_READ_FAULTS,	/* and those that failed and were narrowed */
	RPROF_COUNT_SEARCHES,		/* mapping searches: neither remembered mapping held it */
	RPROF_COUNT_CODES,		/* CODE records accepted by the ring */
	RPROF_COUNT_STATE_HITS,		/* thread states where the last sample found them */
	RPROF_COUNT_STATE_MISSES,	/* and those that were searched for */
	RPROF_COUNT_PY_READS,		/* reads of interpreter memory */
	RPROF_COUNT_PY_FAULTS,		/* and those that failed */
	RPROF_COUNT_WINDOW_HITS,	/* Python frames that lay in a window read already */
	RPROF_COUNT_FRAMES_EQUAL,	/* whose code object was known without a read */
	RPROF_COUNT_FRAMES_NEW,		/* and those whose code object was read */
	RPROF_COUNT_UNCHANGED,		/* stacks with Python frames equal to the thread's last one */
	RPROF_COUNT_VERIFIED,		/* --verify: Python walks that were done twice */
	RPROF_COUNT_MISMATCHES,		/* and those that differed */

	RPROF_COUNT_MAX
};

#endif
