/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An interval tree in a sorted array: the root of a part is its middle, and knows the highest end
 * in its part. What came since the last sorting is searched one by one, so it stays a small share.
 */
#include "code_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define MAX_VISITS 65536	/* of one search: less than a millisecond */

struct code_range {
	__u64 start;
	__u64 end;
	__u64 order;
	__u64 max_end;	/* of the part whose middle this is */
	__u32 number;	/* how many were added before */
	__u32 name;	/* offset in names, 0: none */
};

struct search {
	__u64 addr;
	__u64 order;
	const struct code_range *best;
	size_t visits_left;
};

void code_ranges_fini(struct code_ranges *r)
{
	free(r->items);
	free(r->names);
	*r = (struct code_ranges){ 0 };
}

size_t code_ranges_size(const struct code_ranges *r)
{
	return r->cap * sizeof(*r->items) + r->names_cap;
}

static int keep_name(struct code_ranges *r, const char *name, size_t len, __u32 *offset)
{
	size_t at = r->names_len ? r->names_len : 1;	/* 0 is no name */
	char *grown;

	if (!len) {
		*offset = 0;
		return 0;
	}
	if (at + len + 1 > CODE_RANGES_MAX_NAMES)
		return -E2BIG;
	grown = array_grow(r->names, &r->names_cap, at + len + 1, 1);
	if (!grown)
		return -ENOMEM;
	r->names = grown;
	memcpy(grown + at, name, len);
	grown[at + len] = '\0';
	r->names_len = at + len + 1;
	*offset = (__u32)at;
	return 0;
}

int code_ranges_add(struct code_ranges *r, __u64 start, __u64 size, __u64 order, const char *name,
		    size_t name_len)
{
	struct code_range *grown;
	__u32 offset;
	__u64 end;
	int err;

	if (!size || __builtin_add_overflow(start, size, &end) || name_len > CODE_RANGES_MAX_NAME)
		return -EINVAL;
	if (r->n >= CODE_RANGES_MAX)
		return -E2BIG;
	grown = array_grow(r->items, &r->cap, r->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->items = grown;
	err = keep_name(r, name, name_len, &offset);
	if (err)
		return err;
	r->items[r->n] = (struct code_range){
		.start = start,
		.end = end,
		.order = order,
		.number = (__u32)r->n,
		.name = offset,
	};
	r->n++;
	return 0;
}

static int compare_starts(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* As deep as the logarithm of their number. */
static __u64 set_max_ends(struct code_range *items, size_t n)
{
	size_t mid = n / 2;
	__u64 max, part;

	if (!n)
		return 0;
	max = items[mid].end;
	part = set_max_ends(items, mid);
	if (part > max)
		max = part;
	part = set_max_ends(items + mid + 1, n - mid - 1);
	if (part > max)
		max = part;
	items[mid].max_end = max;
	return max;
}

static void sort_if_due(struct code_ranges *r)
{
	if (r->n - r->n_sorted <= 64 + r->n_sorted / 16)
		return;
	qsort(r->items, r->n, sizeof(*r->items), compare_starts);
	set_max_ends(r->items, r->n);
	r->n_sorted = r->n;
}

static void look_at(struct search *s, const struct code_range *c)
{
	const struct code_range *best = s->best;

	if (s->addr < c->start || s->addr >= c->end || c->order > s->order)
		return;
	if (!best || c->order > best->order ||
	    (c->order == best->order && c->number > best->number))
		s->best = c;
}

static void search_part(struct search *s, const struct code_range *items, size_t n)
{
	size_t mid = n / 2;

	if (!n || !s->visits_left || items[mid].max_end <= s->addr)
		return;
	s->visits_left--;
	search_part(s, items, mid);
	if (items[mid].start > s->addr)
		return;
	look_at(s, &items[mid]);
	search_part(s, items + mid + 1, n - mid - 1);
}

const char *code_ranges_find(struct code_ranges *r, __u64 addr, __u64 order)
{
	struct search s = { .addr = addr, .order = order, .visits_left = MAX_VISITS };

	sort_if_due(r);
	search_part(&s, r->items, r->n_sorted);
	for (size_t i = r->n_sorted; i < r->n; i++)
		look_at(&s, &r->items[i]);
	if (!s.visits_left || !s.best || !s.best->name)
		return NULL;
	return r->names + s.best->name;
}
