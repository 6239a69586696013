/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The tables that the kernel side reads, written through shared memory: rprof_tables, rprof_mappings
 * and rprof_pythons of include/rprof/config.h.
 */
#ifndef RPROF_TABLES_H
#define RPROF_TABLES_H

#include <linux/types.h>
#include <stddef.h>

#include "rprof/config.h"

struct tables;

/* Maps the three arrays, the last of as many elements as the first; the descriptors stay the caller's. Return: 0 or -errno. */
int tables_new(int tables_fd, __u32 n_tables, int mappings_fd, __u32 n_mappings, int pythons_fd,
	       struct tables **out);
/* The same over plain memory, for tests. */
int tables_over(struct rprof_table *tables, __u32 n_tables, struct rprof_mapping *mappings,
		__u32 n_mappings, struct rprof_python *pythons, struct tables **out);
void tables_free(struct tables *t);

/* A free table for one process. Return: 0 or -E2BIG. */
int tables_take(struct tables *t, __u32 *index);
void tables_give_back(struct tables *t, __u32 index);

/*
 * tables_publish() - replace the mappings of table @index.
 *
 * The new ones are written to a free run before the table points there; the old run is reused only
 * after TABLES_GRACE_NS, since a program that read the table just before may still be searching it.
 * Return: 0, or -ENOSPC: the table is then empty, and the process unchecked.
 */
int tables_publish(struct tables *t, __u32 index, __u32 space, __u32 execs,
		   const struct rprof_mapping *mappings, size_t n);

/* How the interpreter of the process of @index is read; NULL: none. @execs: its image. */
void tables_set_python(struct tables *t, __u32 index, const struct rprof_python *p, __u32 execs);

#define TABLES_GRACE_NS 100000000ULL /* a sample takes some microseconds */

#endif
