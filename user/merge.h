/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The native and the Python frames of a stack in one order. The interpreter's entry frames lie on
 * the C stack, so that the kernel side says in which native frame each run of Python frames was
 * entered (record.h); 3.9 and 3.10 have none, there activations are counted. Decides only: names
 * and words are resolve.c's.
 */
#ifndef RPROF_MERGE_H
#define RPROF_MERGE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "marks.h"
#include "rprof/stop.h"
#include "rprof/record.h"

/* A native frame, with what marks.c says of it. */
struct merge_native {
	bool shown;
	enum mark above;
	bool up;		/* its rule says that its frame is up: what lies in it is its own */
	bool word;		/* a word of the stack, not a link of the chain */
	bool interpreter;	/* of the file that holds the interpreter: */
	bool evaluator;		/* a part of the function that runs Python frames */
	bool collector;		/* of the garbage collection's entry, */
	bool root;		/* a program or a thread begins in it: nothing of Python is above */
};

struct merge_input {
	const struct merge_native *native; /* leaf first, as in the record */
	size_t n_native;		/* 0: none are wanted, or there are none */
	const struct rprof_python_frame *python;
	size_t n_python;
	unsigned int stop_python;
	bool all;		/* the interpreter's own frames, too */
};

enum merge_kind {
	MERGE_NATIVE,		/* native[.at] */
	MERGE_MARK,		/* what marks.c says above native[.at] */
	MERGE_PYTHON,		/* python[.at] */
	MERGE_COLLECTION,	/* a garbage collection */
	MERGE_MISMATCH,		/* the native frames do not fit: what is between is not known */
	MERGE_STOP,		/* the Python walk ended early: what is above is not known */
};

struct merge_item {
	enum merge_kind kind;
	__u32 at;
};

/* What merge_stacks() fills at most. */
size_t merge_room(size_t n_native, size_t n_python);

/*
 * merge_stacks() - leaf first.
 * @out: merge_room() items
 *
 * Between two Python frames an interpreter's own frames are left out, but not their marks; an
 * activation of the evaluator always is, as its Python frames stand for it. Where the native chain
 * is cut, or the two do not fit, Python frames stay whole: those native frames that were called by
 * the first of them stand on it, behind a mark unless they are known to be all. Two Python frames
 * without a native one between them are an edge of the interpreter's chain, whatever else there was.
 * Return: number of items.
 */
size_t merge_stacks(const struct merge_input *in, struct merge_item *out);

/* What the symbol @name, of the file that holds the interpreter, stands for. */
bool merge_is_evaluator(const char *name);
bool merge_is_collector(const char *name);
bool merge_is_root(const char *name);

#endif
