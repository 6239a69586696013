/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Map from a pair of 64-bit numbers to an index: open addressing, grows. */
#ifndef RPROF_IDMAP_H
#define RPROF_IDMAP_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct idmap_slot;

struct idmap {
	struct idmap_slot *slots;	/* NULL while empty */
	size_t n_slots;			/* 0 or a power of two */
	size_t n_used;
};

void idmap_init(struct idmap *m);
void idmap_fini(struct idmap *m);

bool idmap_find(const struct idmap *m, __u64 a, __u64 b, __u32 *value);

/* Sets the value of (@a, @b), new or not. Return: 0 or -ENOMEM. */
int idmap_put(struct idmap *m, __u64 a, __u64 b, __u32 value);

/* Forgets (@a, @b), if it is there. Memory is kept for others. */
void idmap_remove(struct idmap *m, __u64 a, __u64 b);

#endif
