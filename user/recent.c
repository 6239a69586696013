// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "recent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"

/* items[first % cap ...] in order of arrival; a number says which, and by_id has it. */
struct recent {
	struct rprof_stack **items;
	size_t cap;		/* 0 or a power of two */
	__u32 first, n;		/* number of the oldest; how many */
	size_t max, size;	/* bytes */
	struct idmap by_id;
};

struct recent *recent_new(size_t max)
{
	struct recent *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->max = max;
	idmap_init(&r->by_id);
	return r;
}

static struct rprof_stack **item(struct recent *r, __u32 number)
{
	return &r->items[number & (r->cap - 1)];
}

static void drop_oldest(struct recent *r)
{
	struct rprof_stack *s = *item(r, r->first);
	__u32 number;

	if (idmap_find(&r->by_id, s->stack, 0, &number) && number == r->first)
		idmap_remove(&r->by_id, s->stack, 0);
	r->size -= s->h.len;
	free(s);
	r->first++;
	r->n--;
}

void recent_free(struct recent *r)
{
	if (!r)
		return;
	while (r->n)
		drop_oldest(r);
	idmap_fini(&r->by_id);
	free(r->items);
	free(r);
}

static int grow(struct recent *r)
{
	size_t cap = r->cap ? r->cap * 2 : 256;
	struct rprof_stack **items = calloc(cap, sizeof(struct rprof_stack *));

	if (!items)
		return -ENOMEM;
	for (__u32 i = r->first; i != r->first + r->n; i++)
		items[i & (cap - 1)] = *item(r, i);
	free(r->items);
	r->items = items;
	r->cap = cap;
	return 0;
}

int recent_add(struct recent *r, const struct rprof_stack *s)
{
	struct rprof_stack *copy;

	while (r->n && r->size + s->h.len > r->max)
		drop_oldest(r);
	if (r->n == r->cap && grow(r))
		return -ENOMEM;
	copy = malloc(s->h.len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, s, s->h.len);
	if (idmap_put(&r->by_id, s->stack, 0, r->first + r->n)) {
		free(copy);
		return -ENOMEM;
	}
	*item(r, r->first + r->n) = copy;
	r->n++;
	r->size += s->h.len;
	return 0;
}

struct rprof_stack *recent_find(struct recent *r, __u64 id)
{
	__u32 number;

	return idmap_find(&r->by_id, id, 0, &number) ? *item(r, number) : NULL;
}
