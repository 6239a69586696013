/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "plt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "array.h"

#define MAX_SLOTS (1u << 18)	/* functions that a file imports; Chrome has 3,000 */
#define MAX_CODE (16u << 20)	/* bytes of a section of stubs */
#define MAX_DYNSTR (64u << 20)
#define MAX_SCANNED (1u << 24)	/* relocations looked at, all sections */
#define CHUNK 512		/* relocations */

/* A word that the dynamic linker fills with the address of a function. */
struct slot {
	__u64 vaddr;
	__u64 addend;
	__u32 symbol;		/* index in .dynsym; 0: none, the function is found by the resolver at addend */
};

struct loader {
	const struct elf_file *f;
	const Elf64_Shdr *dynsym;
	char *dynstr;		/* NUL after its last byte */
	size_t dynstr_size;
	struct slot *slots;	/* sorted */
	size_t n_slots;
	size_t cap;
	__u64 scan_budget;	/* relocations */
	__u64 name_budget;	/* bytes */
	struct elf_symbols *out;
};

static int by_vaddr(const void *pa, const void *pb)
{
	const struct slot *a = pa, *b = pb;

	return (a->vaddr > b->vaddr) - (a->vaddr < b->vaddr);
}

static int add_slot(struct loader *l, const Elf64_Rela *rela)
{
	const __u32 type = ELF64_R_TYPE(rela->r_info);
	const bool by_symbol = type == ARCH_R_JUMP_SLOT || type == ARCH_R_GLOB_DAT;
	struct slot *grown;

	if ((!by_symbol && type != ARCH_R_IRELATIVE) || l->n_slots == MAX_SLOTS)
		return 0;
	grown = array_grow(l->slots, &l->cap, l->n_slots + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	l->slots = grown;
	grown[l->n_slots++] = (struct slot){
		.vaddr = rela->r_offset,
		.addend = (__u64)rela->r_addend,
		.symbol = by_symbol ? (__u32)ELF64_R_SYM(rela->r_info) : 0,
	};
	return 0;
}

static int read_relocations(struct loader *l, const Elf64_Shdr *sh)
{
	Elf64_Rela chunk[CHUNK];
	__u64 left = sh->sh_size / sizeof(chunk[0]);

	for (__u64 at = sh->sh_offset; left && l->scan_budget;) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		if (elf_file_read(l->f, chunk, n * sizeof(chunk[0]), at))
			return 0;
		for (size_t i = 0; i < n; i++) {
			if (add_slot(l, &chunk[i]))
				return -ENOMEM;
		}
		at += n * sizeof(chunk[0]);
		left -= n;
		l->scan_budget -= n < l->scan_budget ? n : l->scan_budget;
	}
	return 0;
}

static int read_slots(struct loader *l)
{
	int err = 0;

	for (size_t i = 0; i < l->f->n_sections && !err; i++) {
		const Elf64_Shdr *sh = &l->f->sections[i];

		if (sh->sh_type == SHT_RELA && (sh->sh_flags & SHF_ALLOC) &&
		    sh->sh_entsize == sizeof(Elf64_Rela))
			err = read_relocations(l, sh);
	}
	if (l->n_slots)
		qsort(l->slots, l->n_slots, sizeof(*l->slots), by_vaddr);
	return err;
}

/* Without .dynsym, as in a static program, only slots without a symbol have a name. */
static int read_names(struct loader *l)
{
	const Elf64_Shdr *sh = elf_file_typed(l->f, SHT_DYNSYM);
	void *names;
	int err;

	if (!sh || sh->sh_link >= l->f->n_sections || sh->sh_entsize != sizeof(Elf64_Sym) ||
	    (sh->sh_flags & SHF_COMPRESSED))
		return 0;
	err = elf_file_load(l->f, &l->f->sections[sh->sh_link], MAX_DYNSTR, &names,
			    &l->dynstr_size);
	if (err)
		return err == -ENOMEM ? err : 0;
	l->dynsym = sh;
	l->dynstr = names;
	return 0;
}

static int add_stub(struct loader *l, __u64 start, __u64 size, const struct slot *slot)
{
	char by_resolver[40];
	const char *name = by_resolver;
	Elf64_Sym sym;
	size_t len;

	if (slot->symbol) {
		if (!l->dynsym || slot->symbol >= l->dynsym->sh_size / sizeof(sym) ||
		    elf_file_read(l->f, &sym, sizeof(sym),
				  l->dynsym->sh_offset + slot->symbol * sizeof(sym)) ||
		    sym.st_name >= l->dynstr_size || slot->addend)
			return 0;
		name = l->dynstr + sym.st_name;
	} else {
		/* What binutils call it. */
		snprintf(by_resolver, sizeof(by_resolver), "*ABS*+0x%llx", slot->addend);
	}
	len = strlen(name);
	if (!len || len >= l->name_budget)
		return 0;
	l->name_budget -= len;
	return elf_symbols_add_name(l->out, start, size, name, "@plt");
}

static int read_stubs(struct loader *l, const char *section, __u64 default_size)
{
	const Elf64_Shdr *sh = elf_file_named(l->f, section);
	__u64 step = sh && (sh->sh_entsize == 8 || sh->sh_entsize == 16 || sh->sh_entsize == 32) ?
			     sh->sh_entsize :
			     default_size;
	void *code;
	size_t size;
	int err;

	if (!sh || !(sh->sh_flags & SHF_EXECINSTR))
		return 0;
	err = elf_file_load(l->f, sh, MAX_CODE, &code, &size);
	if (err)
		return err == -ENOMEM ? err : 0;
	for (size_t at = 0; at + step <= size && !err; at += step) {
		struct slot key, *slot;

		if (!arch_plt_slot((unsigned char *)code + at, step, sh->sh_addr + at, &key.vaddr))
			continue;
		slot = bsearch(&key, l->slots, l->n_slots, sizeof(key), by_vaddr);
		if (slot)
			err = add_stub(l, sh->sh_addr + at, step, slot);
	}
	free(code);
	return err == -E2BIG ? 0 : err;
}

int plt_load(const struct elf_file *f, struct elf_symbols **out)
{
	struct loader l = { .f = f, .scan_budget = MAX_SCANNED, .out = elf_symbols_new() };
	int err;

	if (!l.out)
		return -ENOMEM;
	err = read_names(&l);
	/* Names are shared by several slots: .plt and .plt.got, and by what was made to cost memory. */
	l.name_budget = 4 * (__u64)l.dynstr_size + (1u << 20);
	if (!err)
		err = read_slots(&l);
	if (!err && l.n_slots) {
		err = read_stubs(&l, ".plt", ARCH_PLT_SIZE);
		if (!err)
			err = read_stubs(&l, ".plt.sec", ARCH_PLT_SIZE);
		if (!err)
			err = read_stubs(&l, ".plt.got", ARCH_PLT_GOT_SIZE);
		if (!err)
			err = read_stubs(&l, ".iplt", ARCH_PLT_SIZE);
	}
	free(l.slots);
	free(l.dynstr);
	if (err) {
		elf_symbols_free(l.out);
		return err;
	}
	elf_symbols_finish(l.out, false);
	*out = l.out;
	return 0;
}
