/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Symbols of a hostile file: every size is capped before it is allocated, every offset checked,
 * and no step costs more than n log n. A table is read twice, first to count what it has, so that
 * nothing has to grow.
 */
#include "elf_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "symbol_name.h"
#include "symbol_ranges.h"

#define MAX_SYMTAB (256u << 20)		/* bytes: 11 million symbols; Chrome's debug build has 5 */
#define MAX_STRTAB (1u << 30)
#define MAX_NAME 65535			/* longer ones are cut: seen mangled names have 10,000 */
#define MAX_NAMES_PER_STRTAB 4		/* tails shared between names make them more than .strtab */
#define CHUNK 1024			/* symbols */

struct elf_symbols {
	struct symbol *items;
	size_t n;
	size_t cap;
	char *names;		/* the string tables one after the other; ends with a NUL */
	size_t names_size;
	size_t names_cap;	/* of elf_symbols_add_name() */
	size_t tables_size;	/* of names: what is behind is kept as it is */
};

/* One table while it is read. */
struct reading {
	struct elf_symbols *s;
	const struct elf_file *f;
	__u64 bias;
	const char *strtab;
	size_t strtab_size;
	__u64 name_budget;	/* bytes of names we are ready to scan */
	size_t n;		/* functions counted */
};

struct elf_symbols *elf_symbols_new(void)
{
	return calloc(1, sizeof(struct elf_symbols));
}

void elf_symbols_free(struct elf_symbols *s)
{
	if (!s)
		return;
	free(s->items);
	free(s->names);
	free(s);
}

/* End of the executable section @index, 0 if it is none. */
static __u64 code_section_end(const struct elf_file *f, size_t index)
{
	const Elf64_Shdr *sh;
	__u64 end;

	if (index >= f->n_sections || index >= SHN_LORESERVE)
		return 0;
	sh = &f->sections[index];
	if (!(sh->sh_flags & SHF_EXECINSTR) ||
	    __builtin_add_overflow(sh->sh_addr, sh->sh_size, &end))
		return 0;
	return end;
}

/* SYMBOL_KINDS: not a function. */
static enum symbol_kind kind_of(const struct reading *r, const Elf64_Sym *sym)
{
	if (sym->st_shndx == SHN_UNDEF || sym->st_name >= r->strtab_size)
		return SYMBOL_KINDS;
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return sym->st_size ? SYMBOL_SIZED : SYMBOL_UNSIZED;
	case STT_NOTYPE:
		return code_section_end(r->f, sym->st_shndx) > sym->st_value ? SYMBOL_LABEL :
									       SYMBOL_KINDS;
	default:
		return SYMBOL_KINDS;
	}
}

/* "name@@VERSION" is how .symtab shows versions; a name proper has no '@' but in front. */
static size_t name_length(const char *name)
{
	size_t len = strnlen(name, MAX_NAME);
	const char *at = len > 1 ? memchr(name + 1, '@', len - 1) : NULL;

	return at ? (size_t)(at - name) : len;
}

/* Among aliases, the smallest wins. */
static __u32 rank_of(const Elf64_Sym *sym)
{
	/* Its code is the resolver's, which chooses an implementation, and has a name of its own. */
	if (ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC)
		return 3;
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return 0;
	case STB_WEAK:
		return 1;
	default:
		return 2;
	}
}

static int count_symbol(struct reading *r, const Elf64_Sym *sym)
{
	r->n += kind_of(r, sym) != SYMBOL_KINDS;
	return 0;
}

static int add_symbol(struct reading *r, const Elf64_Sym *sym)
{
	enum symbol_kind kind = kind_of(r, sym);
	__u64 start = sym->st_value, end, section_end = code_section_end(r->f, sym->st_shndx);
	size_t len;

	/* The file may have changed since it was counted. */
	if (kind == SYMBOL_KINDS || r->s->n >= r->s->cap)
		return 0;
	len = name_length(r->strtab + sym->st_name);
	if (!len)
		return 0;
	if (len >= r->name_budget)
		return -E2BIG;
	r->name_budget -= len + 1;
	if (__builtin_add_overflow(start, sym->st_size, &end))
		end = ~0ULL;
	if (kind == SYMBOL_UNSIZED ||
	    (kind == SYMBOL_LABEL && (!sym->st_size || end > section_end)))
		end = section_end;
	/* In a file that was moved by a constant, both ends wrap or none does. */
	if (end < start || end + r->bias < start + r->bias)
		return 0;
	r->s->items[r->s->n++] = (struct symbol){
		.start = start + r->bias,
		.end = end + r->bias,
		.name = (__u32)(r->strtab - r->s->names + sym->st_name),
		.name_len = (__u32)len,
		.kind = kind,
		.rank = rank_of(sym),
	};
	return 0;
}

/* Calls @fn for the symbols in @table, or, if that is NULL, in the file at @sh. */
static int for_each(struct reading *r, const Elf64_Shdr *sh, const char *table, size_t size,
		    int (*fn)(struct reading *r, const Elf64_Sym *sym))
{
	Elf64_Sym chunk[CHUNK];
	int err = 0;

	for (size_t at = 0; at + sizeof(chunk[0]) <= size && !err;) {
		size_t n = (size - at) / sizeof(chunk[0]);

		n = n < CHUNK ? n : CHUNK;
		if (table)
			memcpy(chunk, table + at, n * sizeof(chunk[0]));
		else
			err = elf_file_read(r->f, chunk, n * sizeof(chunk[0]), sh->sh_offset + at);
		for (size_t i = 0; i < n && !err; i++)
			err = fn(r, &chunk[i]);
		at += n * sizeof(chunk[0]);
	}
	return err;
}

/* Appends the string table to the names. */
static int read_strings(struct reading *r, const Elf64_Shdr *sh)
{
	struct elf_symbols *s = r->s;
	void *strings;
	size_t size;
	char *grown;
	int err;

	if (sh->sh_type != SHT_STRTAB)
		return -EINVAL;
	if (s->names_size > MAX_STRTAB)
		return -E2BIG;
	err = elf_file_load(r->f, sh, MAX_STRTAB, &strings, &size);
	if (err)
		return err;
	if (!s->names) {
		s->names = strings;
	} else {
		grown = realloc(s->names, s->names_size + size + 1);
		if (grown) {
			memcpy(grown + s->names_size, strings, size + 1);
			s->names = grown;
		}
		free(strings);
		if (!grown)
			return -ENOMEM;
	}
	r->strtab = s->names + s->names_size;
	r->strtab_size = size;
	r->name_budget = MAX_NAMES_PER_STRTAB * (__u64)size + 4096;
	s->names_size += size + 1;
	s->names_cap = s->tables_size = s->names_size;
	return 0;
}

static int make_room(struct elf_symbols *s, size_t n)
{
	struct symbol *grown;

	if (!n)
		return -ENOENT;
	grown = realloc(s->items, (s->n + n) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->items = grown;
	s->cap = s->n + n;
	return 0;
}

static const Elf64_Shdr *find_table(const struct elf_file *f, Elf64_Word type,
				    const Elf64_Shdr **strings)
{
	const Elf64_Shdr *sh = elf_file_typed(f, type);

	if (!sh || sh->sh_link >= f->n_sections)
		return NULL;
	*strings = &f->sections[sh->sh_link];
	return sh;
}

int elf_symbols_add(struct elf_symbols *s, const struct elf_file *f, Elf64_Word type, __u64 bias)
{
	struct reading r = { .s = s, .f = f, .bias = bias };
	const Elf64_Shdr *strings, *sh = find_table(f, type, &strings);
	const size_t n_before = s->n;
	size_t size = sh ? sh->sh_size : 0;
	void *table = NULL;
	int err;

	if (!sh)
		return -ENOENT;
	if (sh->sh_entsize != sizeof(Elf64_Sym) || size > MAX_SYMTAB)
		return -EINVAL;
	err = sh->sh_flags & SHF_COMPRESSED ? elf_file_load(f, sh, MAX_SYMTAB, &table, &size) : 0;
	if (!err)
		err = read_strings(&r, strings);
	if (!err)
		err = for_each(&r, sh, table, size, count_symbol);
	if (!err)
		err = make_room(s, r.n);
	/* Too much text for its string table, or cut short: what was read stands. */
	if (!err && for_each(&r, sh, table, size, add_symbol) && s->n == n_before)
		err = -EINVAL;
	free(table);
	if (!err && s->n == n_before)
		err = -ENOENT;
	return err;
}

__u64 elf_symbols_table_size(const struct elf_file *f, Elf64_Word type)
{
	const Elf64_Shdr *strings, *sh = find_table(f, type, &strings);
	__u64 size, n;

	if (!sh)
		return 0;
	size = elf_file_section_size(f, sh);
	n = elf_file_section_size(f, strings);
	return n == ~0ULL || __builtin_add_overflow(size, n, &size) ? ~0ULL : size;
}

int elf_symbols_add_name(struct elf_symbols *s, __u64 start, __u64 size, const char *stem,
			 const char *suffix)
{
	size_t stem_len = strnlen(stem, MAX_NAME), suffix_len = strlen(suffix);
	size_t len = stem_len + suffix_len;
	struct symbol *items;
	char *names;

	if (s->names_size > MAX_STRTAB)
		return -E2BIG;
	items = array_grow(s->items, &s->cap, s->n + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	s->items = items;
	names = array_grow(s->names, &s->names_cap, s->names_size + len + 1, 1);
	if (!names)
		return -ENOMEM;
	s->names = names;
	memcpy(names + s->names_size, stem, stem_len);
	memcpy(names + s->names_size + stem_len, suffix, suffix_len + 1);
	items[s->n++] = (struct symbol){
		.start = start,
		.end = start + size,
		.name = (__u32)s->names_size,
		.name_len = (__u32)len,
		.kind = SYMBOL_SIZED,
	};
	s->names_size += len + 1;
	return 0;
}

/*
 * Names are cut where they lie. Those that share a tail are cut at the same byte, and so rightly;
 * one that begins at that byte is gone, and what it named has no name.
 */
static void cut_names(struct elf_symbols *s, bool suffixes)
{
	for (size_t i = 0; i < s->n; i++) {
		char *name = s->names + s->items[i].name;
		size_t len;

		if (s->items[i].name >= s->tables_size)
			continue;
		len = name_length(name);
		if (suffixes)
			len = symbol_base_length(name, len);
		/* Do not touch what is right: pages stay clean. */
		if (name[len])
			name[len] = '\0';
	}
}

void elf_symbols_finish(struct elf_symbols *s, bool suffixes)
{
	struct symbol *items;

	s->n = symbol_ranges_make(s->items, s->n, s->names);
	cut_names(s, suffixes);
	/* Not for a few: in the worst case it is copied. */
	items = s->n && s->n < s->cap - s->cap / 4 ? realloc(s->items, s->n * sizeof(*items)) :
						     NULL;
	if (items) {
		s->items = items;
		s->cap = s->n;
	}
}

size_t elf_symbols_count(const struct elf_symbols *s)
{
	return s->n;
}

__u64 elf_symbols_size(const struct elf_symbols *s)
{
	__u64 names = s->names_cap > s->names_size ? s->names_cap : s->names_size;

	return names + s->cap * sizeof(*s->items);
}

const char *elf_symbols_find(const struct elf_symbols *s, __u64 vaddr, __u64 *start)
{
	const struct symbol *sym = symbol_ranges_find(s->items, s->n, vaddr);

	if (!sym || !s->names[sym->name])
		return NULL;
	*start = sym->start;
	return s->names + sym->name;
}
