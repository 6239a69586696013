/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The distinct marks of a profile, for its account. */
#ifndef RPROF_MARK_TABLE_H
#define RPROF_MARK_TABLE_H

#include <stddef.h>

#include "idmap.h"
#include "resolve.h"

struct strset;

struct mark_table {
	struct strset *strings;		/* borrowed: where the words go */
	struct idmap by_mark;		/* (kind, module), interned, to an index of marks */
	struct resolve_mark **marks;	/* each its own allocation: stacks keep pointers */
	size_t n, cap;
};

void mark_table_init(struct mark_table *t, struct strset *strings);
void mark_table_fini(struct mark_table *t);

/*
 * mark_table_note() - a mark is in @stack: its .marks are a set. When it is full the last place is
 * the latest mark's, the deciding one.
 * Return: 0 or -ENOMEM.
 */
int mark_table_note(struct mark_table *t, struct resolved_stack *stack, const char *kind,
		    const char *module);

#endif
