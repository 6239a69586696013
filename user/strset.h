/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interned strings: equal text, equal pointer. Nothing is removed until the end. */
#ifndef RPROF_STRSET_H
#define RPROF_STRSET_H

#include <stddef.h>

struct strset_chunk;

struct strset {
	const char **slots;		/* NULL while empty */
	size_t n_slots;			/* 0 or a power of two */
	size_t n_used;
	struct strset_chunk *chunks;
};

void strset_init(struct strset *s);
void strset_fini(struct strset *s);

/* The one copy of @text, valid until strset_fini(); NULL: no memory. */
const char *strset_add(struct strset *s, const char *text);

#endif
