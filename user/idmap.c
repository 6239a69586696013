/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "idmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct idmap_slot {
	__u64 a;
	__u64 b;
	__u32 value;
	__u32 used;
};

/* Keys are the target's addresses and inodes: a key per run, so that it cannot aim at one slot. */
static __u64 hash_key(void)
{
	static __u64 key;

	if (!key) {
		if (getrandom(&key, sizeof(key), GRND_NONBLOCK) != sizeof(key))
			key = (__u64)(size_t)&key;
		key |= 1;
	}
	return key;
}

static __u64 mix(__u64 x)
{
	/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static size_t home_of(__u64 a, __u64 b)
{
	return (size_t)mix(mix(a ^ hash_key()) + b);
}

/* The slot of the key, or the free one where it belongs. There is always a free one. */
static struct idmap_slot *slot_of(const struct idmap *m, __u64 a, __u64 b)
{
	for (size_t i = home_of(a, b);; i++) {
		struct idmap_slot *s = &m->slots[i & (m->n_slots - 1)];

		if (!s->used || (s->a == a && s->b == b))
			return s;
	}
}

void idmap_init(struct idmap *m)
{
	memset(m, 0, sizeof(*m));
}

void idmap_fini(struct idmap *m)
{
	free(m->slots);
	idmap_init(m);
}

bool idmap_find(const struct idmap *m, __u64 a, __u64 b, __u32 *value)
{
	const struct idmap_slot *s;

	if (!m->slots)
		return false;
	s = slot_of(m, a, b);
	if (!s->used)
		return false;
	*value = s->value;
	return true;
}

static int grow(struct idmap *m)
{
	struct idmap bigger = { .n_slots = m->n_slots ? m->n_slots * 2 : 64 };

	bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i < m->n_slots; i++) {
		if (m->slots[i].used)
			*slot_of(&bigger, m->slots[i].a, m->slots[i].b) = m->slots[i];
	}
	free(m->slots);
	m->slots = bigger.slots;
	m->n_slots = bigger.n_slots;
	return 0;
}

int idmap_put(struct idmap *m, __u64 a, __u64 b, __u32 value)
{
	struct idmap_slot *s;

	/* At most three quarters full. */
	if (m->n_used >= m->n_slots / 4 * 3) {
		int err = grow(m);

		if (err)
			return err;
	}
	s = slot_of(m, a, b);
	if (!s->used)
		m->n_used++;
	*s = (struct idmap_slot){ .a = a, .b = b, .value = value, .used = 1 };
	return 0;
}

/*
 * Knuth, The Art of Computer Programming 3, 6.4, algorithm R: what stands behind the gap and could
 * not be found any more moves into it, until the next free slot.
 */
void idmap_remove(struct idmap *m, __u64 a, __u64 b)
{
	const size_t mask = m->n_slots - 1;
	struct idmap_slot *s;
	size_t gap;

	if (!m->slots)
		return;
	s = slot_of(m, a, b);
	if (!s->used)
		return;
	gap = (size_t)(s - m->slots);
	for (size_t i = (gap + 1) & mask; m->slots[i].used; i = (i + 1) & mask) {
		size_t home = home_of(m->slots[i].a, m->slots[i].b) & mask;

		/* Its home is not between the gap and itself. */
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			m->slots[gap] = m->slots[i];
			gap = i;
		}
	}
	m->slots[gap].used = 0;
	m->n_used--;
}
