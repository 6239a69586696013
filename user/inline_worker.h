/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process that reads the debug information of one file for the profiler: this program, run
 * again with INLINE_WORKER_OPTION, the file as descriptor 0 and a SOCK_SEQPACKET as 1, nothing else
 * open. It locks itself in before it looks at the file's first byte, answers queries, and ends with
 * its socket. How it is started and ended: inlines.c.
 */
#ifndef RPROF_INLINE_WORKER_H
#define RPROF_INLINE_WORKER_H

#include <linux/types.h>
#include <stdbool.h>

#define INLINE_WORKER_OPTION "--inline-worker"
#define INLINE_MAX_CALLS 64		/* inlined at one address */
#define INLINE_MAX_ANSWER 65536		/* bytes of an answer */

struct inline_query {
	__u64 number;	/* comes back in the answer */
	__u64 vaddr;
};

/* Followed by n_calls names, innermost first, each with its NUL. */
struct inline_answer {
	__u64 number;
	__u32 n_calls;
	__u32 damaged;	/* 1: the debug information of that code cannot be read */
};

/* Is this process to be a worker? For main(), before anything else. */
bool inline_worker_wanted(int argc, char **argv);

/* Return: exit code, when the socket was closed or the file is of no use. */
int inline_worker_run(void);

#endif
