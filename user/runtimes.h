/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which language runtime an ELF file is or holds, by what is in it and never by its name; Python has
 * python_find.h. Sections
 * and symbols are the target's word: bounded reads, parsers that take (pointer, size).
 */
#ifndef RPROF_RUNTIMES_H
#define RPROF_RUNTIMES_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct runtimes {
	bool go;		/* .gopclntab or .go.buildinfo */
	bool ocaml;		/* caml_frametable is defined: native code */
	bool node;		/* node_module_register is defined */
};

/* runtimes_read() - of the open file @fd. What cannot be read or makes no sense adds nothing. */
void runtimes_read(int fd, struct runtimes *found);

/* The parts of it, pure. @names, @strings: a string table, which need not end with a NUL. */
void runtimes_sections(const Elf64_Shdr *sections, size_t n, const char *names, size_t size,
		       struct runtimes *found);
void runtimes_symbols(const Elf64_Sym *symbols, size_t n, const char *strings, size_t size,
		      struct runtimes *found);

#endif
