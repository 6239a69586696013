/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads of a user stack, a window at a time: the call is the cost, not the bytes (DESIGN 4).
 */
#ifndef RPROF_WINDOW_BPF_H
#define RPROF_WINDOW_BPF_H

#include "scratch.bpf.h"

/* End a walk: why, and a value the walk loops break on. */
static __always_inline int walk_stop(struct scratch *s, u32 stop)
{
	s->stop = stop;
	return 1;
}

/*
 * window_at() - make [@addr, @addr + @need) part of the window of @slot, @need <= WINDOW_SLACK.
 *
 * Tries a whole window clipped to the stack's mapping, then what is left of the first page: what a
 * stack holds is worth a failed read, not a lost frame. A global function, verified once
 * (native.bpf.h).
 * Return: offset of @addr in the window, to be masked with WINDOW - 1 before use; negative if the
 * memory cannot be read.
 */
int window_at(u32 slot, u64 addr, u64 need);

/* The same, and [@addr, @addr + @more) if that is not known to be missing; @need <= @more. */
int window_with(u32 slot, u64 addr, u64 need, u64 more);

#endif
