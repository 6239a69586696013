// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_known.h"

#include <errno.h>
#include <stdlib.h>

#include "array.h"
#include "idmap.h"

#define ITEM_BYTES 192u	/* of one without its texts, its place in the maps included */
#define NONE (~0u)

struct process {
	__u32 tgid;
	__u32 first;			/* index of items; NONE */
	size_t bytes;
};

struct python_known_table {
	struct idmap by_key;		/* (code, tgid and fingerprint) to an index of items */
	struct python_known *items;
	size_t n, cap;
	__u32 free;			/* list of items that are not used */
	struct idmap by_tgid;		/* (tgid, 0) to an index of processes */
	struct process *processes;
	size_t n_processes, cap_processes;
	size_t bytes;
	size_t n_known;
};

struct python_known_table *python_known_new(void)
{
	struct python_known_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->free = NONE;
	idmap_init(&t->by_key);
	idmap_init(&t->by_tgid);
	return t;
}

void python_known_free(struct python_known_table *t)
{
	if (!t)
		return;
	while (t->n_processes)
		python_known_forget(t, t->processes[0].tgid);
	idmap_fini(&t->by_key);
	idmap_fini(&t->by_tgid);
	free(t->items);
	free(t->processes);
	free(t);
}

static __u64 second_key(__u32 tgid, __u32 fingerprint)
{
	return (__u64)tgid << 32 | fingerprint;
}

void python_known_drop(const struct python_known *k)
{
	free(k->name);
	free(k->file);
	free((void *)k->lines.bytes);
	free(k->marks);
}

static size_t cost(const struct python_known *k)
{
	return k->bytes + ITEM_BYTES;
}

void python_known_forget(struct python_known_table *t, __u32 tgid)
{
	struct process *p, *last;
	__u32 at;

	if (!idmap_find(&t->by_tgid, tgid, 0, &at))
		return;
	p = &t->processes[at];
	while (p->first != NONE) {
		__u32 i = p->first;
		struct python_known *k = &t->items[i];

		idmap_remove(&t->by_key, k->code, second_key(k->tgid, k->fingerprint));
		python_known_drop(k);
		t->n_known -= k->is_known;
		p->first = k->next;
		k->next = t->free;
		t->free = i;
	}
	t->bytes -= p->bytes;
	last = &t->processes[--t->n_processes];
	idmap_remove(&t->by_tgid, tgid, 0);
	if (p != last) {
		*p = *last;
		/* It is there: nothing is allocated. */
		idmap_put(&t->by_tgid, p->tgid, 0, at);
	}
}

static void forget_largest(struct python_known_table *t)
{
	const struct process *largest = t->processes;

	for (size_t i = 1; i < t->n_processes; i++) {
		if (t->processes[i].bytes > largest->bytes)
			largest = &t->processes[i];
	}
	python_known_forget(t, largest->tgid);
}

static struct process *process_of(struct python_known_table *t, __u32 tgid)
{
	struct process *grown;
	__u32 at;

	if (idmap_find(&t->by_tgid, tgid, 0, &at))
		return &t->processes[at];
	grown = array_grow(t->processes, &t->cap_processes, t->n_processes + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	t->processes = grown;
	if (idmap_put(&t->by_tgid, tgid, 0, (__u32)t->n_processes))
		return NULL;
	grown[t->n_processes] = (struct process){ .tgid = tgid, .first = NONE };
	return &grown[t->n_processes++];
}

static struct python_known *new_item(struct python_known_table *t, __u32 *at)
{
	struct python_known *grown;

	if (t->free != NONE) {
		*at = t->free;
		t->free = t->items[*at].next;
		return &t->items[*at];
	}
	grown = array_grow(t->items, &t->cap, t->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	t->items = grown;
	*at = (__u32)t->n++;
	return &grown[*at];
}

/* Its place, new or not: with the fields of the key, and .next; NULL: no memory. */
static struct python_known *place_of(struct python_known_table *t, struct process *p,
				     const struct python_known *k)
{
	const __u64 second = second_key(k->tgid, k->fingerprint);
	struct python_known *item;
	__u32 at;

	if (idmap_find(&t->by_key, k->code, second, &at)) {
		item = &t->items[at];
		p->bytes -= cost(item);
		t->bytes -= cost(item);
		t->n_known -= item->is_known;
		python_known_drop(item);
		return item;
	}
	item = new_item(t, &at);
	if (!item)
		return NULL;
	if (idmap_put(&t->by_key, k->code, second, at)) {
		item->next = t->free;
		t->free = at;
		return NULL;
	}
	item->next = p->first;
	p->first = at;
	return item;
}

int python_known_keep(struct python_known_table *t, const struct python_known *k)
{
	struct python_known *item;
	struct process *p;
	__u32 next;

	while (t->n_processes && t->bytes + cost(k) > PYTHON_KNOWN_BYTES)
		forget_largest(t);
	p = process_of(t, k->tgid);
	item = p ? place_of(t, p, k) : NULL;
	if (!item)
		return -ENOMEM;
	next = item->next;
	*item = *k;
	item->next = next;
	p->bytes += cost(k);
	t->bytes += cost(k);
	t->n_known += k->is_known;
	return 0;
}

const struct python_known *python_known_find(const struct python_known_table *t, __u32 tgid,
					     __u64 code, __u32 fingerprint)
{
	__u32 at;

	if (!idmap_find(&t->by_key, code, second_key(tgid, fingerprint), &at))
		return NULL;
	return &t->items[at];
}

size_t python_known_count(const struct python_known_table *t)
{
	return t->n_known;
}
