// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The chain from where the kernel side stopped, with its stops and bounds. A signal's frame is not
 * followed here: its trampoline's rule says what it is, and marks.c cuts there.
 */
#include "complete_parts.h"

#include <string.h>

#include "arch.h"
#include "spaces.h"

#define LOWEST_CODE 65536ULL /* as bpf/native.bpf.h */

struct walk {
	struct complete_memory *memory;
	const struct space *space;
	__u64 at;		/* the frame's link, */
	__u64 low;		/* above its callee's lowest address */
	__u64 end;		/* of the stack */
	__u64 flags;		/* of every frame */
};

static void bound_stack(struct walk *w)
{
	const struct rprof_mapping *m = w->space ? space_mapping(w->space, w->at) : NULL;

	w->end = ~0ULL;
	if (!w->space)
		w->flags = RPROF_NATIVE_UNCHECKED;
	else if (!m || !(m->flags & RPROF_MAPPING_STACK))
		w->flags = RPROF_NATIVE_UNBOUND;
	else
		w->end = m->end;
}

/* May a frame be at w->at? END: it may, or the chain ends there properly. */
static unsigned int check_place(const struct walk *w)
{
	if (w->at & 7)
		return RPROF_STOP_UNALIGNED;
	if (w->at < w->low + ARCH_CHAIN_LEAST)
		return RPROF_STOP_DOWN;
	if (w->at > w->end - (ARCH_CHAIN_RA + 8))
		return RPROF_STOP_BOUNDS;
	return RPROF_STOP_END;
}

/* Flags of a frame with this return address. Return: RPROF_STOP_NONE, or why there is no such frame. */
static unsigned int check_code(const struct walk *w, __u64 pc, __u64 *flags)
{
	const struct rprof_mapping *m = w->space ? space_mapping(w->space, pc) : NULL;

	*flags = RPROF_HOW_CHAIN | w->flags;
	if (pc < LOWEST_CODE || (m && !(m->flags & RPROF_MAPPING_EXEC)))
		return RPROF_STOP_NOT_EXEC;
	if (!m)
		*flags |= RPROF_NATIVE_UNCHECKED;
	/* An entry's frame has no link (s390x); the kernel side alone knows the way over it. */
	return m && m->flags & RPROF_MAPPING_VDSO ? RPROF_STOP_FAULT : RPROF_STOP_NONE;
}

static unsigned int step(struct walk *w, struct complete_tail *t)
{
	struct complete_native *f = &t->native[t->n_native];
	__u8 frame[ARCH_CHAIN_RA + 8];
	unsigned int stop;

	if (!w->at)
		return RPROF_STOP_END;
	stop = check_place(w);
	if (stop)
		return stop;
	if (!complete_memory_read(w->memory, w->at, frame, sizeof(frame), 1))
		return RPROF_STOP_FAULT;
	memcpy(&f->pc, frame + ARCH_CHAIN_RA, sizeof(f->pc));
	stop = check_code(w, f->pc, &f->flags);
	if (stop != RPROF_STOP_NONE)
		return stop;
	if (t->n_native == RPROF_MAX_NATIVE - 1)
		return RPROF_STOP_DEPTH;
	f->low = w->low = w->at + ARCH_CHAIN_LOW;
	memcpy(&w->at, frame, sizeof(w->at));
	t->n_native++;
	return RPROF_STOP_NONE;
}

void complete_native(struct complete_memory *m, const struct complete_edge *e,
		     const struct space *space, struct complete_tail *t)
{
	struct walk w = {
		.memory = m,
		.space = space,
		.at = e->native_next,
		.low = e->native_from + ARCH_CHAIN_LOW,
	};

	bound_stack(&w);
	do
		t->stop_native = step(&w, t);
	while (t->stop_native == RPROF_STOP_NONE);
}
