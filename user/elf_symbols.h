/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The functions of an ELF file as a flat, sorted table: every address has one name or none. */
#ifndef RPROF_ELF_SYMBOLS_H
#define RPROF_ELF_SYMBOLS_H

#include <libelf.h>
#include <linux/types.h>

struct elf_symbols;

/*
 * elf_symbols_load() - read .symtab, else .dynsym.
 * @elf: 64-bit ELF file; only its headers are taken through libelf
 * @fd: the same file; tables are read by pread, never mapped
 * @file_size: its size; a section beyond it is refused
 *
 * Return: 0 (an empty table if there are no symbols), or -errno.
 */
int elf_symbols_load(Elf *elf, int fd, __u64 file_size, struct elf_symbols **out);
/* Bytes that it takes in memory. */
__u64 elf_symbols_size(const struct elf_symbols *s);
void elf_symbols_free(struct elf_symbols *s);

/* Name of the function that holds @vaddr, and where it starts; NULL if none is known to. */
const char *elf_symbols_find(const struct elf_symbols *s, __u64 vaddr, __u64 *start);

#endif
