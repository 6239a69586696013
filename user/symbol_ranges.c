/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "symbol_ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

/*
 * Order for the sweep: by start; at one start the weaker claim first, so that the better one lies
 * on top of it: local before weak before global, then the longer name, then the later in the
 * alphabet (of 256 bytes: a file could make comparisons costly), and so never by chance.
 */
static int by_claim(const void *pa, const void *pb, void *strtab)
{
	const struct symbol *a = pa, *b = pb;
	int cmp;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->name_len != b->name_len)
		return a->name_len > b->name_len ? -1 : 1;
	cmp = memcmp((char *)strtab + b->name, (char *)strtab + a->name,
		     a->name_len < 256 ? a->name_len : 256);
	if (cmp)
		return cmp;
	return (a->name < b->name) - (a->name > b->name);
}

static int add_range(struct symbol_ranges *r, __u64 start, __u64 end, const struct symbol *sym)
{
	struct symbol_range *grown;

	if (start >= end)
		return 0;
	grown = array_grow(r->items, &r->cap, r->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->items = grown;
	r->items[r->n++] = (struct symbol_range){ start, end, sym->start, sym->name };
	return 0;
}

/*
 * Sized functions to ranges: an address belongs to the symbol that starts last among those that
 * hold it (an inner entry point, a cold part inside). A stack of open symbols, one pass.
 */
static int sweep(const struct symbol *syms, size_t n, struct symbol_ranges *out)
{
	const struct symbol **open = malloc((n + 1) * sizeof(*open));
	size_t n_open = 0;
	__u64 at = 0;
	int err = open ? 0 : -ENOMEM;

	for (size_t i = 0; i <= n && !err; i++) {
		__u64 until = i < n ? syms[i].start : ~0ULL;

		while (n_open && open[n_open - 1]->end <= until && !err) {
			const struct symbol *top = open[--n_open];

			err = add_range(out, at, top->end, top);
			if (top->end > at)
				at = top->end;
		}
		if (n_open && !err)
			err = add_range(out, at, until, open[n_open - 1]);
		at = until;
		if (i < n)
			open[n_open++] = &syms[i];
	}
	free(open);
	return err;
}

/* Where the symbol @i, which has no size of its own, ends: at the next one's start or sooner. */
static __u64 label_end(const struct symbol *syms, size_t n, size_t i)
{
	const struct symbol *s = &syms[i];
	__u64 end = i + 1 < n ? syms[i + 1].start : s->section_end;

	if (s->end > s->start && s->end < end)
		end = s->end;
	return s->section_end < end ? s->section_end : end;
}

/* Lays symbols that claim less into the gaps that @under leaves. */
static int fill_gaps(struct symbol_ranges *under, const struct symbol *syms, size_t n)
{
	struct symbol_ranges out = { 0 };
	size_t u = 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		__u64 end;

		/* The best claim on an address comes last. */
		if (i + 1 < n && syms[i + 1].start == syms[i].start)
			continue;
		for (; u < under->n && under->items[u].end <= syms[i].start && !err; u++) {
			const struct symbol_range *r = &under->items[u];
			const struct symbol s = { .start = r->symbol_start, .name = r->name };

			err = add_range(&out, r->start, r->end, &s);
		}
		/* Inside a function it is a label of that function. */
		if (u < under->n && under->items[u].start <= syms[i].start)
			continue;
		end = label_end(syms, n, i);
		if (u < under->n && under->items[u].start < end)
			end = under->items[u].start;
		if (!err)
			err = add_range(&out, syms[i].start, end, &syms[i]);
	}
	for (; u < under->n && !err; u++) {
		const struct symbol_range *r = &under->items[u];
		const struct symbol s = { .start = r->symbol_start, .name = r->name };

		err = add_range(&out, r->start, r->end, &s);
	}
	free(under->items);
	*under = out;
	return err;
}

int symbol_ranges_make(struct symbol_ranges *r, struct symbol *symbols[SYMBOL_KINDS],
		       const size_t n[SYMBOL_KINDS], const char *strtab)
{
	int err;

	for (int kind = 0; kind < SYMBOL_KINDS; kind++) {
		if (n[kind])
			qsort_r(symbols[kind], n[kind], sizeof(struct symbol), by_claim,
				(void *)strtab);
	}
	err = sweep(symbols[SYMBOL_SIZED], n[SYMBOL_SIZED], r);
	for (int kind = SYMBOL_UNSIZED; kind < SYMBOL_KINDS && !err; kind++)
		err = fill_gaps(r, symbols[kind], n[kind]);
	return err;
}

void symbol_ranges_fini(struct symbol_ranges *r)
{
	free(r->items);
	memset(r, 0, sizeof(*r));
}

const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *r, __u64 addr)
{
	size_t lo = 0, hi = r->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->items[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && addr < r->items[lo - 1].end ? &r->items[lo - 1] : NULL;
}
