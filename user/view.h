/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A list of mappings, sorted and not overlapping, each with its place in its file. */
#ifndef RPROF_VIEW_H
#define RPROF_VIEW_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/config.h"

struct view {
	struct rprof_mapping *mappings;
	__u64 *offsets;		/* of mappings[i].start in its file */
	size_t n;
	size_t cap;		/* of offsets; that of mappings is not less */
};

void view_fini(struct view *v);

/* Room for @n mappings. Return: 0 or -ENOMEM. */
int view_reserve(struct view *v, size_t n);
int view_copy(struct view *to, const struct view *from);	/* 0 or -ENOMEM */
bool view_equal(const struct view *a, const struct view *b);

/* Index of the first mapping that ends above @addr; v->n if none does. */
size_t view_search(const struct view *v, __u64 addr);

/*
 * view_cut() - take [@start, @end) out; a mapping that reaches over it keeps its ends.
 * Return: 0 or -ENOMEM.
 */
int view_cut(struct view *v, __u64 start, __u64 end);

/* Put in a mapping that overlaps none. Return: 0 or -ENOMEM. */
int view_insert(struct view *v, const struct rprof_mapping *m, __u64 offset);

#endif
