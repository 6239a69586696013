// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

void view_fini(struct view *v)
{
	free(v->mappings);
	free(v->offsets);
	memset(v, 0, sizeof(*v));
}

int view_reserve(struct view *v, size_t n)
{
	size_t cap = v->cap;
	struct rprof_mapping *mappings = array_grow(v->mappings, &cap, n, sizeof(*mappings));
	__u64 *offsets;

	if (!mappings)
		return -ENOMEM;
	v->mappings = mappings;
	offsets = array_grow(v->offsets, &v->cap, n, sizeof(*offsets));
	if (!offsets)
		return -ENOMEM;
	v->offsets = offsets;
	return 0;
}

int view_copy(struct view *to, const struct view *from)
{
	if (view_reserve(to, from->n))
		return -ENOMEM;
	to->n = from->n;
	if (!from->n)
		return 0;
	memcpy(to->mappings, from->mappings, from->n * sizeof(*from->mappings));
	memcpy(to->offsets, from->offsets, from->n * sizeof(*from->offsets));
	return 0;
}

bool view_equal(const struct view *a, const struct view *b)
{
	return a->n == b->n &&
	       (!a->n || (!memcmp(a->mappings, b->mappings, a->n * sizeof(*a->mappings)) &&
			  !memcmp(a->offsets, b->offsets, a->n * sizeof(*a->offsets))));
}

size_t view_search(const struct view *v, __u64 addr)
{
	size_t lo = 0, hi = v->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v->mappings[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Move what stands from @from on to @to. */
static void shift(struct view *v, size_t from, size_t to)
{
	size_t n = v->n - from;

	memmove(v->mappings + to, v->mappings + from, n * sizeof(*v->mappings));
	memmove(v->offsets + to, v->offsets + from, n * sizeof(*v->offsets));
	v->n = to + n;
}

int view_insert(struct view *v, const struct rprof_mapping *m, __u64 offset)
{
	size_t i = view_search(v, m->start);

	if (view_reserve(v, v->n + 1))
		return -ENOMEM;
	shift(v, i, i + 1);
	v->mappings[i] = *m;
	v->offsets[i] = offset;
	return 0;
}

int view_cut(struct view *v, __u64 start, __u64 end)
{
	size_t first = view_search(v, start), last = first;

	if (first == v->n || v->mappings[first].start >= end)
		return 0;
	if (v->mappings[first].start < start) {
		struct rprof_mapping rest = v->mappings[first];
		__u64 offset = v->offsets[first] + (start - rest.start);

		v->mappings[first].end = start;
		rest.start = start;
		if (view_insert(v, &rest, offset))
			return -ENOMEM;
		last = ++first;
	}
	while (last < v->n && v->mappings[last].end <= end)
		last++;
	if (last < v->n && v->mappings[last].start < end) {
		v->offsets[last] += end - v->mappings[last].start;
		v->mappings[last].start = end;
	}
	shift(v, last, first);
	return 0;
}
