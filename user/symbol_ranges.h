/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which symbol an address belongs to, decided once for a whole table, in place: debug builds have
 * millions of symbols, so each costs no more here than in its file.
 */
#ifndef RPROF_SYMBOL_RANGES_H
#define RPROF_SYMBOL_RANGES_H

#include <linux/types.h>
#include <stddef.h>

/* In the order of their claims on an address. */
enum symbol_kind {
	SYMBOL_SIZED,	/* function with a size: reaches exactly that far */
	SYMBOL_UNSIZED,	/* function of size 0: assembly; reaches to the next symbol */
	SYMBOL_LABEL,	/* no type, in an executable section: only where nothing else is */
	SYMBOL_KINDS
};

#define SYMBOL_NAME_LEN_MAX ((1u << 28) - 1)

struct symbol {
	__u64 start;
	__u64 end;	/* before symbol_ranges_make(): of its section, unless it has a size */
	__u32 name;	/* offset among the names */
	union {
		/* Which of several wins, until symbol_ranges_make(). */
		struct {
			__u32 kind : 2;		/* enum symbol_kind */
			__u32 rank : 2;		/* 0 global, 1 weak, 2 local and the rest, 3 IFUNC */
			__u32 name_len : 28;
		};
		/* From then on: the last one before it that reaches beyond it. */
		__u32 outer;
	};
};

/*
 * symbol_ranges_make() - sort, give an end to what has none, and drop what claims nothing.
 *
 * An address belongs to the symbol that starts last among those that hold it (an inner entry point,
 * a cold part inside). Of several at one start: the global before the weak before the local one
 * before an IFUNC, then the shorter name, then the earlier in the alphabet, and so never by chance.
 * @names: what symbol.name points into
 * Return: how many are left, from @syms[0] on.
 */
size_t symbol_ranges_make(struct symbol *syms, size_t n, const char *names);

/* The one that @addr belongs to, or NULL. */
const struct symbol *symbol_ranges_find(const struct symbol *syms, size_t n, __u64 addr);

#endif
