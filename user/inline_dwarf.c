// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A compilation unit is a tree of entries. Functions with code and inlined calls may be anywhere in
 * it (clang and rustc put them into namespaces and types, where dwarf_getscopes() does not look), so
 * all of a unit is walked, once, when it is first asked for; its functions are kept.
 */
#include "inline_dwarf.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <libelf.h>
#include <stdlib.h>

#include "array.h"

#define MAX_DEPTH 512		/* of the tree; recursion of ours */
#define NO_CALLER ((__u32)-1)

/* Code that ld(1) threw away keeps its entries, at address 0 or 1; there is the ELF header. */
#define MIN_ADDRESS 64

struct span {
	__u64 start;
	__u64 end;
	__u32 owner;	/* index of a function, or of a unit */
};

struct spans {
	struct span *items;
	size_t n;
	size_t cap;
};

/* A function, or a call inlined into one. */
struct function {
	Dwarf_Off entry;
	__u32 caller;	/* index, or NO_CALLER: not inlined */
};

struct unit {
	Dwarf_Off entry;
	bool walked;
	int err;
	struct spans spans;
	struct function *functions;
	size_t n_functions;
	size_t cap_functions;
};

struct inline_dwarf {
	Elf *elf;
	Dwarf *dwarf;
	struct spans spans;	/* of units */
	struct unit *units;
	size_t n_units;
	size_t cap_units;
	bool damaged;		/* there are units of which nothing is known */
};

/* Appends where the code of @entry lies. Return: how many spans, or -errno. */
static int add_spans(struct spans *s, Dwarf_Die *entry, __u32 owner)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;
	int n = 0;

	while ((at = dwarf_ranges(entry, at, &base, &start, &end)) > 0) {
		struct span *grown;

		if (start < MIN_ADDRESS || start >= end)
			continue;
		grown = array_grow(s->items, &s->cap, s->n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		s->items = grown;
		s->items[s->n++] = (struct span){ .start = start, .end = end, .owner = owner };
		n++;
	}
	return at < 0 ? -EINVAL : n;
}

static int add_unit(struct inline_dwarf *d, Dwarf_Die *entry)
{
	struct unit *grown = array_grow(d->units, &d->cap_units, d->n_units + 1, sizeof(*grown));
	size_t n_before = d->spans.n;
	int n = -EINVAL;

	if (!grown)
		return -ENOMEM;
	d->units = grown;
	if (dwarf_tag(entry) == DW_TAG_compile_unit)
		n = add_spans(&d->spans, entry, (__u32)d->n_units);
	if (n == -ENOMEM)
		return n;
	if (n > 0)
		d->units[d->n_units++] = (struct unit){ .entry = dwarf_dieoffset(entry) };
	if (n < 0) {
		d->damaged = true;
		d->spans.n = n_before;
	}
	return 0;
}

static int read_units(struct inline_dwarf *d)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die entry;
	int got, err = 0;
	__u8 type;

	while (!err && !(got = dwarf_get_units(d->dwarf, unit, &unit, NULL, &type, &entry, NULL))) {
		if (type == DW_UT_compile)
			err = add_unit(d, &entry);
	}
	if (err)
		return err;
	return got < 0 ? -EINVAL : 0;
}

int inline_dwarf_open(void *image, size_t size, struct inline_dwarf **out)
{
	struct inline_dwarf *d = calloc(1, sizeof(*d));
	int err = -EINVAL;

	if (!d)
		return -ENOMEM;
	elf_version(EV_CURRENT);
	d->elf = elf_memory(image, size);
	if (d->elf)
		d->dwarf = dwarf_begin_elf(d->elf, DWARF_C_READ, NULL);
	if (d->dwarf)
		err = read_units(d);
	if (err) {
		inline_dwarf_free(d);
		return err;
	}
	*out = d;
	return 0;
}

void inline_dwarf_free(struct inline_dwarf *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n_units; i++) {
		free(d->units[i].spans.items);
		free(d->units[i].functions);
	}
	free(d->units);
	free(d->spans.items);
	dwarf_end(d->dwarf);
	elf_end(d->elf);
	free(d);
}

/*
 * Remember @entry if it is code.
 * @caller: the function around it, or NO_CALLER; then @entry, if what is in it is called by it
 */
static int add_function(struct unit *u, Dwarf_Die *entry, __u32 *caller)
{
	int tag = dwarf_tag(entry);
	__u32 number = (__u32)u->n_functions;
	struct function *grown;
	int n;

	if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
		return 0;
	n = add_spans(&u->spans, entry, number);
	if (n < 0)
		return n;
	grown = array_grow(u->functions, &u->cap_functions, number + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	u->functions = grown;
	u->functions[u->n_functions++] = (struct function){
		.entry = dwarf_dieoffset(entry),
		.caller = tag == DW_TAG_inlined_subroutine ? *caller : NO_CALLER,
	};
	*caller = number;
	return 0;
}

static int walk(struct unit *u, Dwarf_Die *parent, __u32 around, unsigned int depth)
{
	Dwarf_Die entry;
	int got, err;

	if (depth > MAX_DEPTH)
		return -EINVAL;
	for (got = dwarf_child(parent, &entry); !got; got = dwarf_siblingof(&entry, &entry)) {
		__u32 caller = around;

		err = add_function(u, &entry, &caller);
		if (!err && dwarf_haschildren(&entry) > 0)
			err = walk(u, &entry, caller, depth + 1);
		if (err)
			return err;
	}
	return got < 0 ? -EINVAL : 0;
}

static int walk_once(struct inline_dwarf *d, struct unit *u)
{
	Dwarf_Die entry;

	if (u->walked)
		return u->err;
	u->walked = true;
	u->err = dwarf_offdie(d->dwarf, u->entry, &entry) ? walk(u, &entry, NO_CALLER, 0) : -EINVAL;
	return u->err;
}

/* The smallest span with @vaddr, of equals the last: what is within another comes after it. */
static const struct span *narrowest(const struct spans *s, __u64 vaddr)
{
	const struct span *best = NULL;

	for (size_t i = 0; i < s->n; i++) {
		const struct span *a = &s->items[i];

		if (vaddr >= a->start && vaddr < a->end &&
		    (!best || a->end - a->start <= best->end - best->start))
			best = a;
	}
	return best;
}

static const char *function_name(Dwarf *dwarf, Dwarf_Off offset)
{
	static const unsigned int where[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
					      DW_AT_name };
	Dwarf_Die entry;

	if (!dwarf_offdie(dwarf, offset, &entry))
		return NULL;
	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		Dwarf_Attribute attr;
		const char *name = dwarf_formstring(dwarf_attr_integrate(&entry, where[i], &attr));

		if (name && *name)
			return name;
	}
	return NULL;
}

static int name_calls(const struct inline_dwarf *d, const struct unit *u, __u32 innermost,
		      const char *names[], size_t max)
{
	size_t n = 0;

	/* A caller comes before what it calls: this ends. */
	for (__u32 i = innermost; u->functions[i].caller != NO_CALLER; i = u->functions[i].caller) {
		if (n == max)
			return 0;
		names[n] = function_name(d->dwarf, u->functions[i].entry);
		if (!names[n++])
			return 0;
	}
	return (int)n;
}

int inline_dwarf_find(struct inline_dwarf *d, __u64 vaddr, const char *names[], size_t max)
{
	const struct span *best = NULL;
	const struct unit *of = NULL;
	bool claimed = false;

	/* Units may claim each other's code. */
	for (size_t i = 0; i < d->spans.n; i++) {
		const struct span *s = &d->spans.items[i], *found;
		struct unit *u = &d->units[s->owner];
		int err;

		if (vaddr < s->start || vaddr >= s->end)
			continue;
		claimed = true;
		err = walk_once(d, u);
		if (err)
			return err;
		found = narrowest(&u->spans, vaddr);
		if (found && (!best || found->end - found->start < best->end - best->start)) {
			best = found;
			of = u;
		}
	}
	if (best)
		return name_calls(d, of, best->owner, names, max);
	return !claimed && d->damaged ? -EINVAL : 0;
}
