/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread that reads large symbol tables, compressed ones and those of other machines, so that
 * sampling need not wait for them. One job at a time, in order.
 */
#ifndef RPROF_LOADER_H
#define RPROF_LOADER_H

#include <linux/types.h>
#include <stdbool.h>

#include "module.h"

struct loader;

/* From malloc; its owner's until it is given, and again when loader_take() returns it. */
struct loader_job {
	struct module *module;
	struct module_search where;
	__u64 *budget;		/* of all files, bytes; others may add to it meanwhile */
	__u64 taken;		/* off the budget, when it is done */
	int result;		/* of module_load_within() */
	void *owner;
	struct loader_job *next;
};

/* The thread starts with the first job. Return: NULL: no memory or descriptors. */
struct loader *loader_new(void);
/* Ends the thread after the job at hand; frees the jobs that were not taken. */
void loader_free(struct loader *l);

/* Return: 0, or -errno: no thread could be started; the job is still the caller's. */
int loader_give(struct loader *l, struct loader_job *job);
/* A job that is done, or NULL. */
struct loader_job *loader_take(struct loader *l);
bool loader_is_idle(struct loader *l);	/* nothing given that was not taken back */

/* Becomes true when the thread is to end: for module_search.stop. */
const bool *loader_stop(const struct loader *l);

/* Readable when there is something to take. */
int loader_fd(const struct loader *l);

#endif
