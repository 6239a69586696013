/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the code of one function does about the back chain word, which no unwind rule mentions.
 * Reads hostile bytes: no I/O, no allocation, time by their number. Machine code of one machine; on
 * others nobody asks.
 */
#ifndef RPROF_CHAIN_SCAN_H
#define RPROF_CHAIN_SCAN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "eh_frame.h"

enum chain_keeping {
	CHAIN_NO_FRAME,		/* never allocates a frame */
	CHAIN_KEPT,		/* stores the chain wherever it allocates, before anything else */
	CHAIN_KEPT_PACKED,	/* the same at [sp + 152]: -mpacked-stack */
	CHAIN_WRAPPER,		/* stores none; its return address is at [sp + 160]: the vDSO's */
	CHAIN_INHERITED,	/* runs in a frame that another function allocated: a .cold part */
	CHAIN_LOST,		/* does not, or not provably */
};

/* Where the function's rows are not the whole truth. */
enum chain_span_kind {
	CHAIN_AHEAD,		/* the frame is allocated, or being so: its link is stored at the end */
	CHAIN_FREED,		/* it was freed: sp and return address register are the caller's */
	CHAIN_HELD,		/* it was not, though the rows say so */
};

struct chain_span {
	__u64 start, end;	/* addresses of instructions: [start, end) */
	enum chain_span_kind kind;
};

struct chain_input {
	const unsigned char *code;
	size_t size;
	__u64 vaddr;			/* of code */
	const struct eh_row *rows;	/* of the whole function, in order */
	size_t n_rows;
};

/* Both are told only what is in the function itself. False: that is enough, it counts as LOST. */
struct chain_sink {
	bool (*span)(void *arg, const struct chain_span *span);
	/* Of a jump from inside a frame to what may be in another function. */
	bool (*leaves)(void *arg, __u64 target);
	void *arg;
};

enum chain_keeping chain_scan(const struct chain_input *in, const struct chain_sink *sink);

/* CFA = register + 160: the frame is not allocated. */
bool chain_is_allocated(const struct eh_row *row);

#endif
