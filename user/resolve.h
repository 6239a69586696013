/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names for the frames of a stack, and the marks for what the chain cannot prove (DESIGN 5). Each
 * distinct frame is resolved once, at first sight.
 */
#ifndef RPROF_RESOLVE_H
#define RPROF_RESOLVE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "codes.h"

struct ksyms;
struct located;
struct modules;
struct resolver;
struct strset;

enum frame_kind {
	FRAME_NATIVE,
	FRAME_INLINED,		/* no frame of its own: inlined into the next one */
	FRAME_KERNEL,
	FRAME_PYTHON,
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

struct resolver_config {
	struct modules *modules;	/* borrowed */
	struct ksyms *ksyms;		/* borrowed, may be NULL */
	bool demangle, inlines;
	bool no_native;			/* of user frames: Python's alone */
	bool native_all;		/* the interpreter's own between Python frames, too */
};

struct resolver *resolver_new(const struct resolver_config *config);
void resolver_free(struct resolver *r);
const struct codes *resolver_codes(const struct resolver *r);
/* Where names go that are in no file (located.h). */
struct strset *resolver_strings(struct resolver *r);

struct resolved_stack {
	struct frame *frames;	/* leaf first: kernel, then native and Python frames, marks between */
	size_t n_frames;
	size_t n_symbolized;	/* frames that got a function name; marks not counted */
	size_t n_named;		/* frames that wanted one */
	const struct resolve_mark *marks[4]; /* borrowed; equal marks, equal pointers */
	size_t n_marks;		/* 0: every edge of the stack is proven */
};

/*
 * resolve_stack() - names and marks for one stack.
 * @force: what is still being read counts as without names
 * @out: out->frames is malloc'd, the caller frees it
 * Return: 0, -ENOMEM, or -EAGAIN: a file is being read (modules_fd()).
 */
int resolve_stack(struct resolver *r, const struct located *l, bool force,
		  struct resolved_stack *out);

/* A stack of one mark alone. Return: 0 or -ENOMEM. */
int resolve_mark_alone(struct resolver *r, const char *kind, struct resolved_stack *out);

#endif
