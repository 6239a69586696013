/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of code that a process makes and replaces as it runs: of all ranges that hold an address,
 * the newest counts. What is added comes from the process and may overlap in any way.
 */
#ifndef RPROF_CODE_RANGES_H
#define RPROF_CODE_RANGES_H

#include <linux/types.h>
#include <stddef.h>

#define CODE_RANGES_MAX (1u << 20)
#define CODE_RANGES_MAX_NAMES (64u << 20)	/* bytes */
#define CODE_RANGES_MAX_NAME 65535

struct code_ranges {
	struct code_range *items;	/* the first n_sorted by address, the rest as they came */
	size_t n;
	size_t n_sorted;
	size_t cap;
	char *names;
	size_t names_len;
	size_t names_cap;
};

void code_ranges_fini(struct code_ranges *r);

/*
 * code_ranges_add() - the code at [@start, @start + @size) is @name from now on.
 * @order: when; ranges of one order are newer the later they are added
 * @name: @name_len bytes, without NUL; of length 0: has no name from now on
 * Return: 0, -EINVAL (empty, beyond the end of memory, or too long a name), -E2BIG (full), -ENOMEM.
 */
int code_ranges_add(struct code_ranges *r, __u64 start, __u64 size, __u64 order, const char *name,
		    size_t name_len);

/*
 * code_ranges_find() - what is at @addr, of what was added up to @order.
 * Return: the name, valid until something is added; NULL if none is known, or if so many ranges
 * overlap there that the search would take too long.
 */
const char *code_ranges_find(struct code_ranges *r, __u64 addr, __u64 order);

/* Bytes of memory. */
size_t code_ranges_size(const struct code_ranges *r);

#endif
