/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "symbol_sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug_file.h"
#include "debugdata.h"
#include "plt.h"

#define DEBUGDATA ".gnu_debugdata"

struct loader {
	const struct elf_file *f;
	const struct build_id *id;
	const struct module_search *where;
	__u64 *budget;
	struct symbol_sources *out;
	bool over_budget;
};

static void take(__u64 *budget, __u64 bytes)
{
	*budget -= bytes < *budget ? bytes : *budget;
}

/* Of no use is a table that has nothing, is broken, or does not fit into memory. */
static bool add_table(struct loader *l, const struct elf_file *f, Elf64_Word type, __u64 bias,
		      enum symbol_source source)
{
	struct symbol_sources *out = l->out;

	if (elf_symbols_add(out->symbols, f, type, bias))
		return false;
	out->used[out->n_used++] = source;
	return true;
}

/* The symbols of a debug file, and the file itself for its DWARF. */
static bool use_debug_file(struct loader *l, bool want_symbols, bool want_dwarf)
{
	struct debug_file d;
	bool found = false;

	if (debug_file_find(l->f, l->id, l->where, &d))
		return false;
	if (want_symbols) {
		__u64 size = elf_symbols_table_size(&d.elf, SHT_SYMTAB);

		l->over_budget = size > *l->budget;
		found = !l->over_budget && add_table(l, &d.elf, SHT_SYMTAB, d.bias, d.source);
		if (found)
			take(l->budget, size);
	}
	if (want_dwarf && !d.bias && elf_file_named(&d.elf, ".debug_info")) {
		l->out->dwarf_fd = d.fd;
		d.fd = -1;
	}
	debug_file_fini(&d);
	return found;
}

/* One level only: of the file inside, nothing but .symtab is looked at. */
static void use_debugdata(struct loader *l)
{
	const Elf64_Shdr *sh = elf_file_named(l->f, DEBUGDATA);
	__u64 max = *l->budget < DEBUGDATA_MAX ? *l->budget : DEBUGDATA_MAX;
	struct elf_file inner;
	void *packed, *bytes;
	size_t size;
	__u64 bias;

	if (!sh || elf_file_load(l->f, sh, DEBUGDATA_MAX, &packed, &size))
		return;
	if (debugdata_unpack(packed, size, max, &bytes, &size)) {
		free(packed);
		return;
	}
	free(packed);
	if (!elf_file_open_bytes(&inner, bytes, size)) {
		if (!elf_file_read_sections(&inner) && elf_file_bias(l->f, &inner, &bias) &&
		    add_table(l, &inner, SHT_SYMTAB, bias, SYMBOLS_DEBUGDATA))
			take(l->budget, elf_symbols_table_size(&inner, SHT_SYMTAB));
		elf_file_fini(&inner);
	}
	free(bytes);
}

static const char *why_none(const struct loader *l)
{
	if (l->over_budget)
		return "the tables of its debug file are larger than what is left for all files";
	if (!l->where)
		return "no symbol table";
	if (l->where->root_fd < 0)
		return "no symbol table; no debug file (the process's root was not at hand)";
	if (!l->id->len && !elf_file_named(l->f, ".gnu_debuglink"))
		return "no symbol table; no build id or .gnu_debuglink to find a debug file by";
	if (l->where->debuginfod)
		return "no symbol table; no debug file (looked for usr/lib/debug/.build-id, "
		       ".gnu_debuglink, debuginfod)";
	return "no symbol table; no debug file (looked for usr/lib/debug/.build-id, "
	       ".gnu_debuglink)";
}

static void load_symbols(struct loader *l)
{
	const bool want_dwarf = l->where && l->where->want_dwarf;
	const bool own_dwarf = want_dwarf && elf_file_named(l->f, ".debug_info");
	bool whole = add_table(l, l->f, SHT_SYMTAB, 0, SYMBOLS_SYMTAB);

	if (own_dwarf && l->f->fd >= 0)
		l->out->dwarf_fd = fcntl(l->f->fd, F_DUPFD_CLOEXEC, 3);
	if (l->where && (!whole || (want_dwarf && !own_dwarf)))
		whole |= use_debug_file(l, !whole, want_dwarf && !own_dwarf);
	if (whole)
		return;
	add_table(l, l->f, SHT_DYNSYM, 0, SYMBOLS_DYNSYM);
	use_debugdata(l);
}

void symbol_sources_load(const struct elf_file *f, const struct build_id *id,
			 const struct module_search *where, __u64 *budget,
			 struct symbol_sources *out)
{
	struct loader l = { .f = f, .id = id, .where = where, .budget = budget, .out = out };

	*out = (struct symbol_sources){ .dwarf_fd = -1, .why_none = "no memory" };
	/* First, since what it needs for a while is less than what sorting the symbols takes. */
	if (plt_load(f, &out->stubs))
		out->stubs = NULL;
	out->symbols = elf_symbols_new();
	if (!out->symbols)
		return;
	load_symbols(&l);
	/* Functions of Go may be called so: main.cold. */
	elf_symbols_finish(out->symbols, !elf_file_named(f, ".gopclntab"));
	out->why_none = out->n_used ? NULL : why_none(&l);
}

void symbol_sources_fini(struct symbol_sources *s)
{
	elf_symbols_free(s->symbols);
	elf_symbols_free(s->stubs);
	if (s->dwarf_fd >= 0)
		close(s->dwarf_fd);
	*s = (struct symbol_sources){ .dwarf_fd = -1 };
}

static __u64 add(__u64 a, __u64 b)
{
	__u64 sum;

	return __builtin_add_overflow(a, b, &sum) ? ~0ULL : sum;
}

__u64 symbol_sources_table_size(const struct elf_file *f)
{
	const Elf64_Shdr *packed = elf_file_named(f, DEBUGDATA);
	__u64 size = elf_symbols_table_size(f, SHT_SYMTAB);

	size = add(size, elf_symbols_table_size(f, SHT_DYNSYM));
	return packed ? add(size, packed->sh_size) : size;
}
