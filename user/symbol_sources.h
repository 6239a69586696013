/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the names of a mapped file come from: its own tables, what it embeds, and its debug file. */
#ifndef RPROF_SYMBOL_SOURCES_H
#define RPROF_SYMBOL_SOURCES_H

#include <linux/types.h>

#include "elf_file.h"
#include "elf_note.h"
#include "elf_symbols.h"
#include "module.h"

#define SYMBOL_SOURCES_MAX 4

struct symbol_sources {
	struct elf_symbols *symbols;	/* NULL: no memory */
	struct elf_symbols *stubs;	/* of the PLT; NULL: none */
	enum symbol_source used[SYMBOL_SOURCES_MAX];
	unsigned int n_used;
	const char *why_none;		/* static; NULL if there are symbols */
	int dwarf_fd;			/* of the file with .debug_info, if wanted; -1: none */
};

/*
 * symbol_sources_load() - read the best that there is: .symtab; else the .symtab of a debug file; else
 * .dynsym together with .gnu_debugdata, which has what .dynsym lacks.
 * @f: its sections were read
 * @where: where to look for a debug file; NULL: nowhere
 * @budget: bytes that may be read or kept beyond the file's own tables, which the caller has taken off;
 * what was is taken off
 * @out: symbol_sources_fini()
 */
void symbol_sources_load(const struct elf_file *f, const struct build_id *id,
			 const struct module_search *where, __u64 *budget,
			 struct symbol_sources *out);
void symbol_sources_fini(struct symbol_sources *s);

/* Bytes of the file's own tables, or more. */
__u64 symbol_sources_table_size(const struct elf_file *f);

#endif
