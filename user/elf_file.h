/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An ELF file of this machine: its headers, checked, and its sections' contents. All of it is the
 * target's word; nothing is mapped, and nothing is allocated that the file is not large enough for.
 */
#ifndef RPROF_ELF_FILE_H
#define RPROF_ELF_FILE_H

#include <elf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

#define ELF_FILE_MAX_SECTIONS 16384	/* linked files have some dozens */

struct elf_file {
	int fd;				/* borrowed; -1: bytes */
	const unsigned char *bytes;	/* borrowed */
	__u64 size;
	Elf64_Phdr *phdrs;
	size_t n_phdrs;
	Elf64_Shdr *sections;		/* from elf_file_read_sections() on */
	size_t n_sections;
	char *names;			/* of sections; ends with a NUL */
	size_t names_size;
};

/*
 * elf_file_open() - read the file header and the program headers (there may be none).
 * @fd: regular file of @size bytes, and open until elf_file_fini(), which does not close it
 * Return: 0, or -errno (-EINVAL: not a 64-bit program or library of this machine); then there is
 * nothing to undo.
 */
int elf_file_open(struct elf_file *f, int fd, __u64 size);
int elf_file_open_bytes(struct elf_file *f, const void *bytes,
			size_t size); /* the same in memory */
void elf_file_fini(struct elf_file *f);

/* Section headers and names. Return: 0, also when the file has none, or -errno. */
int elf_file_read_sections(struct elf_file *f);

/* Exactly @size bytes at @offset. Return: 0 or -errno (-EIO: the file is shorter). */
int elf_file_read(const struct elf_file *f, void *buf, size_t size, __u64 offset);

/* The first section of that name, or type, that has contents in the file, or NULL. */
const Elf64_Shdr *elf_file_named(const struct elf_file *f, const char *name);
const Elf64_Shdr *elf_file_typed(const struct elf_file *f, Elf64_Word type);
/* "" if it has none. */
const char *elf_file_section_name(const struct elf_file *f, const Elf64_Shdr *sh);

/* Bytes of a section's contents, uncompressed, as its header says; ~0: not within the file. */
__u64 elf_file_section_size(const struct elf_file *f, const Elf64_Shdr *sh);

/*
 * elf_file_load() - contents of a section, uncompressed (zlib and zstd).
 * @max: bytes; more is refused before anything is allocated
 * @data: to be freed by the caller; a NUL follows the last byte
 * Return: 0, or -errno (-EINVAL, -E2BIG, -ENOTSUP: compressed in another way).
 */
int elf_file_load(const struct elf_file *f, const Elf64_Shdr *sh, __u64 max, void **data,
		  size_t *size);

/*
 * elf_file_bias() - are these two of one link, as far as addresses say? Prelink, or another tool, may
 * have moved one of them since: as a whole, by @bias, or it is not the same any more.
 * @own, @debug: their sections were read
 * @bias: to be added to addresses of @debug
 */
bool elf_file_bias(const struct elf_file *own, const struct elf_file *debug, __u64 *bias);

#endif
