/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads of a process's memory: never written to, never stopped. An interface, so that parsers can be
 * tested over an image.
 */
#ifndef RPROF_PYTHON_MEMORY_H
#define RPROF_PYTHON_MEMORY_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct python_range {
	__u64 addr;
	void *to;
	size_t len;
};

struct python_memory {
	void *ctx;
	/*
	 * All ranges at once, predicted ones last. Return: how many of them, from the first on, were
	 * read whole: a short read keeps its completed prefix.
	 */
	size_t (*read)(void *ctx, const struct python_range *ranges, size_t n);
};

static inline bool python_read(const struct python_memory *m, __u64 addr, void *to, size_t len)
{
	const struct python_range range = { addr, to, len };

	return m->read(m->ctx, &range, 1) == 1;
}

/* The memory of process @tgid (a number of our pid namespace), by process_vm_readv(2). */
struct python_memory python_memory_of(__u32 tgid);

#endif
