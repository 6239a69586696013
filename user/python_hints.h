/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the PyThreadStates of a process are, by a walk from its runtime: for the kernel side, which
 * cannot read all pages on that way (s390x: those that are aged). What is found is to be verified
 * there: the memory is the process's own, and changes meanwhile.
 */
#ifndef RPROF_PYTHON_HINTS_H
#define RPROF_PYTHON_HINTS_H

#include <linux/types.h>
#include <stddef.h>

#include "python_memory.h"
#include "rprof/config.h"

#define PYTHON_HINTS_MAX 4096 /* thread states that are looked at */

struct python_hint {
	__u64 tstate;
	__u32 tid;	/* as the state has it: who asks has to see whose it is */
};

/*
 * python_hints_find() - the innermost thread state of each thread.
 * @p: validated; of no use without RPROF_PYTHON_NATIVE_TID, or up to 3.11: nothing is found then
 * @deadline_ns: monotonic; a walk that lasts longer ends with what it has
 * @out: PYTHON_HINTS_MAX
 *
 * Return: how many. More than one may be of the same thread if the lists are no lists.
 */
size_t python_hints_find(const struct python_memory *m, const struct rprof_python *p,
			 __u64 deadline_ns, struct python_hint *out);

#endif
