/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What an ELF file exports, asked by name: through its hash table, so that it costs some small reads
 * however many symbols there are; by PT_DYNAMIC, so that no section headers are needed. From the file,
 * or from the memory of a process that has mapped it. All of it is the target's word.
 */
#ifndef RPROF_ELF_DYNAMIC_H
#define RPROF_ELF_DYNAMIC_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct elf_file;
struct python_memory;

#define ELF_IMAGE_SEGMENTS 64		/* files have some five */

struct elf_image {
	const struct elf_file *file;	/* borrowed; its program headers count in both cases */
	const struct python_memory *memory; /* borrowed; NULL: contents are the file's */
	__u64 bias;			/* of memory: address less the file's own */
	struct elf_segment {
		__u64 vaddr, size, offset;
	} segments[ELF_IMAGE_SEGMENTS];	/* that are mapped */
	size_t n_segments;
};

/* elf_image_init() - @memory, @bias: NULL and 0 for the file's contents. Nothing to undo. */
void elf_image_init(struct elf_image *i, const struct elf_file *file,
		    const struct python_memory *memory, __u64 bias);

/* @size bytes at the file's own address @vaddr, within a segment; false: not there. */
bool elf_image_read(const struct elf_image *i, __u64 vaddr, void *to, size_t size);

struct elf_dynamic {
	const struct elf_image *image;	/* borrowed */
	unsigned int reads;		/* that may still be done, in all */
	__u64 symbols, strings, strings_size;
	__u64 buckets, chains;		/* addresses, too */
	__u32 n_buckets, first;		/* the first symbol that is hashed */
};

/*
 * elf_dynamic_open() - nothing to close. A file that makes it read too often has no more names.
 * Return: 0, or -ENOENT: no dynamic symbols, or no DT_GNU_HASH (linkers write it since 2006).
 */
int elf_dynamic_open(struct elf_dynamic *d, const struct elf_image *image);

/* elf_dynamic_find() - the definition of @name. Symbols that are only referred to are not found. */
bool elf_dynamic_find(struct elf_dynamic *d, const char *name, Elf64_Sym *out);

#endif
