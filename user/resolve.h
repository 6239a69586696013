/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names for the frames of a stack, and the marks for what the chain cannot prove (DESIGN 5). Each
 * distinct frame is resolved once, at first sight.
 */
#ifndef RPROF_RESOLVE_H
#define RPROF_RESOLVE_H

#include <stddef.h>

#include "rprof/stop.h"
#include <linux/types.h>
#include "rprof/record.h"

struct space;
struct spaces;
struct ksyms;
struct resolver;

enum frame_kind {
	FRAME_NATIVE,
	FRAME_KERNEL,
	FRAME_MARK,		/* "[caller unknown]", "[truncated: ...]": not a function */
};

struct frame {
	const char *name;	/* interned, owned by the resolver; raw bytes, writers escape */
	enum frame_kind kind;
};

/* Counted per distinct (mark, module), weighted by samples when a profile is reported. */
struct resolve_mark {
	const char *kind;	/* "caller unknown", "no frame pointer", a stop's label */
	const char *module;	/* "" if none */
};

/* @ksyms: borrowed, may be NULL; read again where an address is newer than it */
struct resolver *resolver_new(struct spaces *spaces, struct ksyms *ksyms);
void resolver_free(struct resolver *r);

struct resolved_stack {
	struct frame *frames;	/* leaf first: kernel frames, then user frames, marks between */
	size_t n_frames;
	size_t n_symbolized;	/* frames that got a function name; marks not counted */
	size_t n_named;		/* frames that wanted one */
	const struct resolve_mark *marks[4]; /* borrowed; equal marks, equal pointers */
	size_t n_marks;		/* 0: every edge of the stack is proven */
};

/*
 * resolve_stack() - names and marks for one STACK record.
 * @s: a record that record_check() accepted
 * @kernel, @native: its frames
 * @space: where its user frames lie (processes_space()); NULL: not known
 * @out: out->frames is malloc'd, the caller frees it
 * Return: 0 or -ENOMEM.
 */
int resolve_stack(struct resolver *r, const struct rprof_stack *s, const struct space *space,
		  const __u64 *kernel, const struct rprof_native_frame *native,
		  struct resolved_stack *out);

#endif
