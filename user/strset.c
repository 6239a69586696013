/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "strset.h"

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE (64 * 1024)

struct strset_chunk {
	struct strset_chunk *next;
	size_t used;
	size_t size;
	char bytes[];
};

static size_t hash(const char *text)
{
	/* FNV-1a; names come from files, and a long probe costs time, not truth. */
	__u64 h = 0xcbf29ce484222325ULL;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	return (size_t)(h ^ (h >> 32));
}

void strset_init(struct strset *s)
{
	memset(s, 0, sizeof(*s));
}

void strset_fini(struct strset *s)
{
	while (s->chunks) {
		struct strset_chunk *next = s->chunks->next;

		free(s->chunks);
		s->chunks = next;
	}
	free(s->slots);
	strset_init(s);
}

static const char **slot_of(const char **slots, size_t n_slots, const char *text)
{
	for (size_t i = hash(text);; i++) {
		const char **slot = &slots[i & (n_slots - 1)];

		if (!*slot || !strcmp(*slot, text))
			return slot;
	}
}

static int grow(struct strset *s)
{
	size_t n_slots = s->n_slots ? s->n_slots * 2 : 256;
	const char **slots = calloc(n_slots, sizeof(*slots));

	if (!slots)
		return -1;
	for (size_t i = 0; i < s->n_slots; i++) {
		if (s->slots[i])
			*slot_of(slots, n_slots, s->slots[i]) = s->slots[i];
	}
	free(s->slots);
	s->slots = slots;
	s->n_slots = n_slots;
	return 0;
}

static char *copy(struct strset *s, const char *text)
{
	size_t len = strlen(text) + 1;
	struct strset_chunk *c = s->chunks;
	char *bytes;

	if (!c || c->size - c->used < len) {
		size_t size = len > CHUNK_SIZE ? len : CHUNK_SIZE;

		c = malloc(sizeof(*c) + size);
		if (!c)
			return NULL;
		c->next = s->chunks;
		c->used = 0;
		c->size = size;
		s->chunks = c;
	}
	bytes = memcpy(c->bytes + c->used, text, len);
	c->used += len;
	return bytes;
}

const char *strset_add(struct strset *s, const char *text)
{
	const char **slot;

	if (s->n_used >= s->n_slots / 4 * 3 && grow(s))
		return NULL;
	slot = slot_of(s->slots, s->n_slots, text);
	if (!*slot) {
		*slot = copy(s, text);
		if (!*slot)
			return NULL;
		s->n_used++;
	}
	return *slot;
}
