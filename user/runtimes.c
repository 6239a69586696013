// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "runtimes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch.h"

#define MAX_SECTIONS 16384
#define MAX_NAMES (1u << 20)	/* bytes of section names */
#define MAX_STRINGS (64u << 20)	/* bytes of symbol names; Chrome has 40 MiB */
#define MAX_SYMBOLS (4u << 20)
#define CHUNK 4096		/* symbols */

/* Does the string at @at equal @want? */
static bool is_name(const char *strings, size_t size, __u32 at, const char *want)
{
	size_t len = strlen(want) + 1;

	return at < size && len <= size - at && !memcmp(strings + at, want, len);
}

void runtimes_sections(const Elf64_Shdr *sections, size_t n, const char *names, size_t size,
		       struct runtimes *found)
{
	for (size_t i = 1; i < n; i++) {
		__u32 name = sections[i].sh_name;

		if (is_name(names, size, name, ".gopclntab") ||
		    is_name(names, size, name, ".go.buildinfo"))
			found->go = true;
	}
}

void runtimes_symbols(const Elf64_Sym *symbols, size_t n, const char *strings, size_t size,
		      struct runtimes *found)
{
	for (size_t i = 0; i < n; i++) {
		const Elf64_Sym *s = &symbols[i];

		/* A library of the runtime only refers to it. */
		if (s->st_shndx == SHN_UNDEF)
			continue;
		found->ocaml |= is_name(strings, size, s->st_name, "caml_frametable");
		found->node |= is_name(strings, size, s->st_name, "node_module_register");
	}
}

/* @size bytes of the file at @offset, malloc'd; NULL. */
static void *read_part(int fd, __u64 offset, size_t size)
{
	void *data = size ? malloc(size) : NULL;

	if (data && pread(fd, data, size, (off_t)offset) != (ssize_t)size) {
		free(data);
		data = NULL;
	}
	return data;
}

static void read_symbols(int fd, const Elf64_Shdr *table, const Elf64_Shdr *strtab,
			 struct runtimes *found)
{
	__u64 n = table->sh_size / sizeof(Elf64_Sym);
	char *strings = NULL;
	Elf64_Sym *symbols;

	if (n > MAX_SYMBOLS || strtab->sh_type != SHT_STRTAB || strtab->sh_size > MAX_STRINGS)
		return;
	symbols = malloc(CHUNK * sizeof(*symbols));
	if (symbols)
		strings = read_part(fd, strtab->sh_offset, strtab->sh_size);
	for (__u64 at = 0; strings && at < n; at += CHUNK) {
		size_t want = n - at < CHUNK ? n - at : CHUNK;
		ssize_t got = pread(fd, symbols, want * sizeof(*symbols),
				    (off_t)(table->sh_offset + at * sizeof(*symbols)));

		if (got != (ssize_t)(want * sizeof(*symbols)))
			break;
		runtimes_symbols(symbols, want, strings, strtab->sh_size, found);
	}
	free(strings);
	free(symbols);
}

static void read_tables(int fd, const Elf64_Shdr *sections, size_t n, const char *names,
			size_t names_size, struct runtimes *found)
{
	unsigned int tables = 0;

	runtimes_sections(sections, n, names, names_size, found);
	/* Files have one of each. */
	for (size_t i = 1; i < n && tables < 2; i++) {
		if (sections[i].sh_type != SHT_SYMTAB && sections[i].sh_type != SHT_DYNSYM)
			continue;
		tables++;
		if (sections[i].sh_link < n)
			read_symbols(fd, &sections[i], &sections[sections[i].sh_link], found);
	}
}

void runtimes_read(int fd, struct runtimes *found)
{
	Elf64_Shdr *sections;
	char *names = NULL;
	Elf64_Ehdr eh;

	memset(found, 0, sizeof(*found));
	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_ident[EI_DATA] != ARCH_ELF_DATA ||
	    eh.e_shentsize != sizeof(*sections) || eh.e_shnum > MAX_SECTIONS ||
	    eh.e_shstrndx >= eh.e_shnum)
		return;
	sections = read_part(fd, eh.e_shoff, eh.e_shnum * sizeof(*sections));
	if (sections && sections[eh.e_shstrndx].sh_size <= MAX_NAMES)
		names = read_part(fd, sections[eh.e_shstrndx].sh_offset,
				  sections[eh.e_shstrndx].sh_size);
	if (names)
		read_tables(fd, sections, eh.e_shnum, names, sections[eh.e_shstrndx].sh_size,
			    found);
	free(names);
	free(sections);
}
