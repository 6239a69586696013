/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "symbol_ranges.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NO_SYMBOL (~0u)
#define MAX_COMPARED 256	/* bytes of names; a file could make comparisons costly */
#define MAX_OUTER 4096		/* functions around one another; more were made to cost time */

_Static_assert(sizeof(struct symbol) == 24, "a symbol takes no more than in its file");

/* By start; at one start the weaker claim first, so that the better one is found first. */
static int by_claim(const void *pa, const void *pb, void *names)
{
	const struct symbol *a = pa, *b = pb;
	size_t n;
	int cmp;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind > b->kind ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->name_len != b->name_len)
		return a->name_len > b->name_len ? -1 : 1;
	n = a->name_len < MAX_COMPARED ? a->name_len : MAX_COMPARED;
	cmp = memcmp((char *)names + b->name, (char *)names + a->name, n);
	if (cmp)
		return cmp;
	return (a->name < b->name) - (a->name > b->name);
}

/* First of those that start where the one before @end does. */
static size_t group_begin(const struct symbol *syms, size_t end)
{
	size_t i = end - 1;

	while (i && syms[i - 1].start == syms[end - 1].start)
		i--;
	return i;
}

/* A symbol without a size ends at the latest where the next one of its kind or a better one starts. */
static void end_at_next(struct symbol *syms, size_t n)
{
	__u64 next[SYMBOL_KINDS] = { ~0ULL, ~0ULL, ~0ULL };

	for (size_t end = n, begin; end; end = begin) {
		begin = group_begin(syms, end);
		for (size_t i = begin; i < end; i++) {
			if (syms[i].kind != SYMBOL_SIZED && syms[i].end > next[syms[i].kind])
				syms[i].end = next[syms[i].kind];
		}
		for (size_t i = begin; i < end; i++) {
			for (int kind = syms[i].kind; kind < SYMBOL_KINDS; kind++)
				next[kind] = syms[i].start;
		}
	}
}

/* Without a size, inside a function or beside a better one, it is a label of that function. */
static size_t drop_covered(struct symbol *syms, size_t n)
{
	__u64 covered[SYMBOL_KINDS] = { 0 }; /* up to there is what claims more than this kind */
	size_t kept = 0;

	for (size_t begin = 0, end; begin < n; begin = end) {
		const __u64 start = syms[begin].start;

		for (end = begin + 1; end < n && syms[end].start == start; end++)
			;
		for (size_t i = end; i-- > begin;) {
			struct symbol *s = &syms[i];

			if (s->kind != SYMBOL_SIZED && covered[s->kind] > start)
				s->end = start;
			for (int kind = s->kind + (s->kind == SYMBOL_SIZED); kind < SYMBOL_KINDS;
			     kind++)
				covered[kind] = covered[kind] > s->end ? covered[kind] : s->end;
		}
		for (size_t i = begin; i < end; i++) {
			if (syms[i].end > start)
				syms[kept++] = syms[i];
		}
	}
	return kept;
}

static void link_outer(struct symbol *syms, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		__u32 outer = i ? (__u32)(i - 1) : NO_SYMBOL;

		while (outer != NO_SYMBOL && syms[outer].end <= syms[i].end)
			outer = syms[outer].outer;
		syms[i].outer = outer;
	}
}

size_t symbol_ranges_make(struct symbol *syms, size_t n, const char *names)
{
	if (!n)
		return 0;
	/* glibc merges in as much memory again, which is what it may cost, or sorts in place. */
	qsort_r(syms, n, sizeof(*syms), by_claim, (void *)names);
	end_at_next(syms, n);
	n = drop_covered(syms, n);
	link_outer(syms, n);
	return n;
}

const struct symbol *symbol_ranges_find(const struct symbol *syms, size_t n, __u64 addr)
{
	size_t lo = 0, hi = n;
	__u32 i;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (syms[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	i = lo ? (__u32)(lo - 1) : NO_SYMBOL;
	for (int depth = 0; i != NO_SYMBOL && depth < MAX_OUTER; depth++, i = syms[i].outer) {
		if (addr < syms[i].end)
			return &syms[i];
	}
	return NULL;
}
