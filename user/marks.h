/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which frames of a walked stack stand, and what must be said between them (DESIGN 5). Decides
 * only; resolve.c finds the rules and the words.
 */
#ifndef RPROF_MARKS_H
#define RPROF_MARKS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "module.h"

/* A frame as the kernel side sent it, with what the files say of it. */
struct marks_frame {
	unsigned int how;		/* enum rprof_how */
	bool executable;		/* its pc is in executable memory */
	struct cfi_rule rule;		/* at its pc, or just before it for a return address */
};

enum mark {
	MARK_NONE,
	MARK_CALLER_UNKNOWN,		/* a frame or more is missing here; those above stand */
	MARK_NO_FRAME_POINTER,		/* code that does not link frames: nothing above */
	MARK_NOT_LINKED,		/* interrupted between allocating a frame and linking it: the same */
	MARK_NO_RULE,			/* the file says nothing of this code: nothing above */
	MARK_SIGNAL_FRAME,		/* above is what a signal interrupted: not followed, or not proven */
	MARK_STOP,			/* the walk ended here for a reason: nothing above */
};

struct marks_verdict {
	bool shown;
	enum mark above;		/* between this frame and its caller's side */
	unsigned int stop;		/* MARK_STOP: enum rprof_stop */
	size_t blame;			/* frame whose code is the reason */
	bool stands_in;			/* not shown: a stale word in the place of the caller, which is a word */
};

/* Was a frame found so interrupted, by the sample or by a signal? Its rule is the one at its pc. */
bool marks_is_interrupted(unsigned int how);
/* Is it a word of the stack beside such a frame, which may be its caller? */
bool marks_is_word(unsigned int how);

/*
 * marks_judge() - one verdict for each of @n frames, leaf first, at least one.
 * @frames: the interrupted one, the words from its stack, the chain (record.h, enum rprof_how); and
 * the same again for each one that a signal interrupted, after the trampoline
 * @stop: why the walk ended
 */
void marks_judge(const struct marks_frame *frames, size_t n, unsigned int stop,
		 struct marks_verdict *verdicts);

#endif
