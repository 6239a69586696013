/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of one file that keep the back chain, and where in them it is not stored. Needed
 * where frames are linked by a word that unwind rules do not mention (!ARCH_HAS_FP_CHAIN).
 */
#ifndef RPROF_BACK_CHAIN_H
#define RPROF_BACK_CHAIN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "chain_scan.h"
#include "eh_frame.h"
#include "elf_file.h"

struct back_chain;

/*
 * back_chain_load() - read all code that @table knows. Its file may be closed then.
 * @f: its program headers say where code is; borrowed for the call, as is @table
 * Return: 0 or -ENOMEM. What cannot be read, or is more than we read of any file, counts as LOST.
 */
int back_chain_load(const struct elf_file *f, const struct eh_frame *table,
		    struct back_chain **out);
void back_chain_free(struct back_chain *b);
size_t back_chain_size(const struct back_chain *b);	/* bytes of memory */

/* At an instruction, or inside of one. */
struct back_chain_place {
	enum chain_keeping keeping;	/* of the function; never INHERITED */
	bool ahead;			/* in a CHAIN_AHEAD span */
	bool freed;			/* in a CHAIN_FREED span */
	bool held;			/* in a CHAIN_HELD span */
};

void back_chain_at(const struct back_chain *b, const struct eh_frame *table, __u64 vaddr,
		   struct back_chain_place *out);

/* Do at least half of the functions that allocate a frame keep the chain? */
bool back_chain_is_kept(const struct back_chain *b);

#endif
