/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Symbols of a hostile file: every size is capped before it is allocated, every offset checked,
 * and no step costs more than n log n.
 */
#include "elf_symbols.h"

#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "symbol_ranges.h"

#define MAX_SYMTAB (256u << 20)		/* bytes: 11 million symbols; Chrome's debug build has 5 */
#define MAX_STRTAB (1u << 30)
#define MAX_NAME 65535			/* longer ones are cut: seen mangled names have 10,000 */
#define MAX_NAMES_PER_STRTAB 4		/* tails shared between names make them more than .strtab */

struct elf_symbols {
	struct symbol_ranges ranges;
	char *names;
	size_t names_size;	/* allocated */
};

/* While loading. */
struct loader {
	Elf *elf;
	int fd;
	__u64 file_size;
	struct symbol *symbols[SYMBOL_KINDS];
	size_t n[SYMBOL_KINDS];
	size_t cap[SYMBOL_KINDS];
	char *strtab;		/* NUL after its last byte */
	size_t strtab_size;
	__u64 name_budget;	/* bytes of names we are ready to scan and to keep */
};

static int read_at(int fd, void *buf, size_t size, __u64 offset)
{
	char *at = buf;

	while (size) {
		ssize_t n = pread(fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		offset += (__u64)n;
		size -= (size_t)n;
	}
	return 0;
}

static bool in_file(const struct loader *l, const GElf_Shdr *sh)
{
	return sh->sh_offset <= l->file_size && sh->sh_size <= l->file_size - sh->sh_offset;
}

static int read_strtab(struct loader *l, const GElf_Shdr *sh)
{
	if (sh->sh_type != SHT_STRTAB || !in_file(l, sh) || sh->sh_size > MAX_STRTAB)
		return -EINVAL;
	free(l->strtab);
	l->strtab_size = sh->sh_size;
	l->name_budget = MAX_NAMES_PER_STRTAB * sh->sh_size + 4096;
	if (l->name_budget > MAX_STRTAB)
		l->name_budget = MAX_STRTAB;
	l->strtab = malloc(l->strtab_size + 1);
	if (!l->strtab)
		return -ENOMEM;
	l->strtab[l->strtab_size] = '\0';
	return read_at(l->fd, l->strtab, l->strtab_size, sh->sh_offset);
}

/* End of the executable section @index, 0 if it is none. */
static __u64 code_section_end(const struct loader *l, size_t index)
{
	Elf_Scn *scn = elf_getscn(l->elf, index);
	GElf_Shdr sh;
	__u64 end;

	if (!scn || !gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_EXECINSTR) ||
	    __builtin_add_overflow(sh.sh_addr, sh.sh_size, &end))
		return 0;
	return end;
}

/* "name@@VERSION" is how .symtab shows versions; a name proper has no '@' but in front. */
static size_t name_length(const struct loader *l, __u32 name)
{
	size_t len = strnlen(l->strtab + name, MAX_NAME);
	const char *at = len > 1 ? memchr(l->strtab + name + 1, '@', len - 1) : NULL;

	return at ? (size_t)(at - (l->strtab + name)) : len;
}

static int kind_of(const Elf64_Sym *sym, bool in_code)
{
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return sym->st_size ? SYMBOL_SIZED : SYMBOL_UNSIZED;
	case STT_NOTYPE:
		return in_code ? SYMBOL_LABEL : SYMBOL_KINDS;
	default:
		return SYMBOL_KINDS;
	}
}

static int add_symbol(struct loader *l, const Elf64_Sym *sym)
{
	static const __u8 ranks[16] = { [STB_LOCAL] = 2, [STB_GLOBAL] = 0,     [STB_WEAK] = 1,
					[3 ... 9] = 2,	 [STB_GNU_UNIQUE] = 0, [11 ... 15] = 2 };
	__u64 section_end = 0;
	struct symbol *grown;
	size_t len;
	int kind;

	if (sym->st_shndx == SHN_UNDEF || sym->st_name >= l->strtab_size)
		return 0;
	if (ELF64_ST_TYPE(sym->st_info) > STT_FUNC && ELF64_ST_TYPE(sym->st_info) != STT_GNU_IFUNC)
		return 0;
	if (sym->st_shndx < SHN_LORESERVE)
		section_end = code_section_end(l, sym->st_shndx);
	kind = kind_of(sym, section_end > sym->st_value);
	if (kind == SYMBOL_KINDS)
		return 0;
	len = name_length(l, sym->st_name);
	if (!len)
		return 0;
	if (len >= l->name_budget)
		return -E2BIG;
	l->name_budget -= len + 1;
	grown = array_grow(l->symbols[kind], &l->cap[kind], l->n[kind] + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->symbols[kind] = grown;
	grown += l->n[kind]++;
	*grown = (struct symbol){
		.start = sym->st_value,
		.section_end = section_end,
		.name = sym->st_name,
		.name_len = (__u16)len,
		.kind = (__u8)kind,
		.rank = ranks[ELF64_ST_BIND(sym->st_info)],
	};
	if (__builtin_add_overflow(sym->st_value, sym->st_size, &grown->end))
		grown->end = ~0ULL;
	return 0;
}

static int read_symtab(struct loader *l, const GElf_Shdr *sh)
{
	Elf64_Sym chunk[1024];
	GElf_Shdr str;
	int err;

	if (!in_file(l, sh) || sh->sh_size > MAX_SYMTAB || sh->sh_entsize != sizeof(chunk[0]))
		return -EINVAL;
	if (!gelf_getshdr(elf_getscn(l->elf, sh->sh_link), &str))
		return -EINVAL;
	err = read_strtab(l, &str);
	for (__u64 at = 0, left = sh->sh_size / sizeof(chunk[0]); left && !err;) {
		size_t n = left < 1024 ? (size_t)left : 1024;

		err = read_at(l->fd, chunk, n * sizeof(chunk[0]), sh->sh_offset + at);
		for (size_t i = 0; i < n && !err; i++)
			err = add_symbol(l, &chunk[i]);
		at += n * sizeof(chunk[0]);
		left -= n;
	}
	/* Too much text for its string table: made to cost time. What was read stands. */
	return err == -E2BIG ? 0 : err;
}

static size_t n_symbols(const struct loader *l)
{
	return l->n[SYMBOL_SIZED] + l->n[SYMBOL_UNSIZED] + l->n[SYMBOL_LABEL];
}

static int read_first_table(struct loader *l, GElf_Word type)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(l->elf, scn))) {
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) && sh.sh_type == type)
			return read_symtab(l, &sh);
	}
	return 0;
}

/* One copy of each name that a range uses. Their sum is within the budget. */
static int keep_names(const struct loader *l, struct elf_symbols *s)
{
	struct idmap moved;
	size_t cap = 0, used = 0;
	int err = 0;

	idmap_init(&moved);
	for (size_t i = 0; i < s->ranges.n && !err; i++) {
		struct symbol_range *r = &s->ranges.items[i];
		size_t len = name_length(l, r->name);
		char *grown;

		if (idmap_find(&moved, r->name, 0, &r->name))
			continue;
		grown = array_grow(s->names, &cap, used + len + 1, 1);
		if (!grown) {
			err = -ENOMEM;
			break;
		}
		s->names = grown;
		memcpy(s->names + used, l->strtab + r->name, len);
		s->names[used + len] = '\0';
		err = idmap_put(&moved, r->name, 0, (__u32)used);
		r->name = (__u32)used;
		used += len + 1;
	}
	idmap_fini(&moved);
	s->names_size = cap;
	return err;
}

int elf_symbols_load(Elf *elf, int fd, __u64 file_size, struct elf_symbols **out)
{
	struct loader l = { .elf = elf, .fd = fd, .file_size = file_size };
	struct elf_symbols *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	/* A .symtab that is broken, or has no function, leaves .dynsym to be tried. */
	err = read_first_table(&l, SHT_SYMTAB);
	if (err != -ENOMEM && !n_symbols(&l))
		err = read_first_table(&l, SHT_DYNSYM);
	if (err != -ENOMEM && n_symbols(&l))
		err = symbol_ranges_make(&s->ranges, l.symbols, l.n, l.strtab);
	if (!err && n_symbols(&l))
		err = keep_names(&l, s);
	for (int kind = 0; kind < SYMBOL_KINDS; kind++)
		free(l.symbols[kind]);
	free(l.strtab);
	if (err) {
		elf_symbols_free(s);
		return err;
	}
	*out = s;
	return 0;
}

__u64 elf_symbols_size(const struct elf_symbols *s)
{
	return s->names_size + s->ranges.cap * sizeof(*s->ranges.items);
}

void elf_symbols_free(struct elf_symbols *s)
{
	if (!s)
		return;
	symbol_ranges_fini(&s->ranges);
	free(s->names);
	free(s);
}

const char *elf_symbols_find(const struct elf_symbols *s, __u64 vaddr, __u64 *start)
{
	const struct symbol_range *r = symbol_ranges_find(&s->ranges, vaddr);

	if (!r)
		return NULL;
	*start = r->symbol_start;
	return s->names + r->name;
}
