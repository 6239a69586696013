/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which symbol an address belongs to, decided once for a whole table: the address space is cut into
 * ranges that have one name each, and a look-up is one binary search.
 */
#ifndef RPROF_SYMBOL_RANGES_H
#define RPROF_SYMBOL_RANGES_H

#include <linux/types.h>
#include <stddef.h>

/* A candidate. Which of several for one address wins: by kind first, then what the table says. */
struct symbol {
	__u64 start;
	__u64 end;	/* start if the size is 0 */
	__u64 section_end;
	__u32 name;	/* offset in .strtab */
	__u16 name_len;
	__u8 kind;	/* enum symbol_kind */
	__u8 rank;	/* binding: 0 global, 1 weak, 2 local and the rest */
};

enum symbol_kind {
	SYMBOL_SIZED,	/* function with a size: reaches exactly that far */
	SYMBOL_UNSIZED,	/* function of size 0: assembly; reaches to the next symbol */
	SYMBOL_LABEL,	/* no type, in an executable section: only where nothing else is */
	SYMBOL_KINDS
};

struct symbol_range {
	__u64 start;
	__u64 end;
	__u64 symbol_start;	/* differs from start where an inner symbol cut the range */
	__u32 name;	/* offset in .strtab, until the owner moves it */
};

struct symbol_ranges {
	struct symbol_range *items;	/* sorted, not overlapping */
	size_t n;
	size_t cap;
};

/*
 * symbol_ranges_make() - cut the address space.
 * @symbols: @n of them by kind; sorted in place
 * @strtab: where their names are
 * Return: 0 or -ENOMEM; symbol_ranges_fini() in any case.
 */
int symbol_ranges_make(struct symbol_ranges *r, struct symbol *symbols[SYMBOL_KINDS],
		       const size_t n[SYMBOL_KINDS], const char *strtab);
void symbol_ranges_fini(struct symbol_ranges *r);

const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *r, __u64 addr);

#endif
