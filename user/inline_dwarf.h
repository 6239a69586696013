/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls that a compiler inlined, from the debug information of one file, by libdw. libdw trusts
 * what it reads more than we do: a bad file may crash it, or cost any time and memory. So this runs
 * in the worker process alone (inline_worker.c), never in the profiler.
 */
#ifndef RPROF_INLINE_DWARF_H
#define RPROF_INLINE_DWARF_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct inline_dwarf;

/*
 * inline_dwarf_open() - read the list of compilation units.
 * @image: the ELF file in memory, from mmap(); borrowed until inline_dwarf_free(). Other files that
 *         it names (split and alternate debug files) are not opened.
 * Return: 0, -EINVAL: no debug information that libdw can read, or -ENOMEM.
 */
int inline_dwarf_open(void *image, size_t size, struct inline_dwarf **out);
void inline_dwarf_free(struct inline_dwarf *d);

/*
 * inline_dwarf_find() - the calls inlined at @vaddr, innermost first.
 * @vaddr: address in the file's own address space
 * @names: room for @max names, each the linkage name, or DW_AT_name where there is none; owned by
 *         @d, valid until it is freed
 *
 * The function whose code it is, is not among them. All of the calls or none: where one has no
 * name, or there are more than @max, the answer is 0, for the others would look as if they called
 * each other.
 * Return: how many, 0: none, or -EINVAL: the debug information of that code is damaged, -ENOMEM.
 */
int inline_dwarf_find(struct inline_dwarf *d, __u64 vaddr, const char *names[], size_t max);

#endif
