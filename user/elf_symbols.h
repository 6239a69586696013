/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The functions of an ELF file, from one or more symbol tables: every address has one name or none.
 * A table costs what it has in its file, symbols and strings, and once as much while it is sorted.
 */
#ifndef RPROF_ELF_SYMBOLS_H
#define RPROF_ELF_SYMBOLS_H

#include <linux/types.h>
#include <stdbool.h>

#include "elf_file.h"

struct elf_symbols;

struct elf_symbols *elf_symbols_new(void); /* NULL: no memory */
void elf_symbols_free(struct elf_symbols *s);

/*
 * elf_symbols_add() - the functions of the first table of a type.
 * @f: its sections were read
 * @type: SHT_SYMTAB or SHT_DYNSYM
 * @bias: added to every address
 *
 * Symbols that make no sense are left out; from a table that breaks off, what came before stands.
 * Return: 0, -ENOENT (no such table, or no function in it) or -errno.
 */
int elf_symbols_add(struct elf_symbols *s, const struct elf_file *f, Elf64_Word type, __u64 bias);

/* Bytes that elf_symbols_add() will read, from the headers. 0: there is no such table. */
__u64 elf_symbols_table_size(const struct elf_file *f, Elf64_Word type);

/* One more, [@start, @start + @size), with a name that is kept as it is: @stem and @suffix. */
int elf_symbols_add_name(struct elf_symbols *s, __u64 start, __u64 size, const char *stem,
			 const char *suffix);

/*
 * elf_symbols_finish() - after the last addition, before the first question.
 * @suffixes: names lose what compilers append, symbol_base_length(); they lose versions anyhow
 */
void elf_symbols_finish(struct elf_symbols *s, bool suffixes);

size_t elf_symbols_count(const struct elf_symbols *s);
/* Bytes that it takes in memory. */
__u64 elf_symbols_size(const struct elf_symbols *s);

/* Name of the function that holds @vaddr, and where it starts; NULL if none is known to. */
const char *elf_symbols_find(const struct elf_symbols *s, __u64 vaddr, __u64 *start);

#endif
