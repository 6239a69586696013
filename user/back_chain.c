// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "back_chain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"

#define MAX_FUNCTION (4u << 20)		/* bytes of code; 600 KiB were seen */
#define MAX_CODE (512ULL << 20)		/* bytes of one file; Chrome has 200 MiB. 2 s at most */
#define MAX_PROGRAMS (512ULL << 20)	/* bytes of table programs run; 1.5 MiB in python3.15 */
#define MAX_ROWS (1u << 16)		/* of one function */
#define MAX_ITEMS (1u << 20)		/* spans, jumps; libnode has 160,000 */
#define MAX_ROUNDS 4			/* a part that inherits from a part that inherits */

/* A jump from a function's frame into another function. */
struct jump {
	__u32 from, to;		/* indices of functions */
	bool at_start;
};

struct back_chain {
	unsigned char *keeping;	/* enum chain_keeping of each function of the table */
	size_t n_functions;
	struct chain_span *spans; /* by start */
	size_t n_spans, cap_spans;
	size_t n_kept, n_lost;
};

/* While the file is read. */
struct loading {
	struct back_chain *b;
	const struct elf_file *f;
	const struct eh_frame *table;
	size_t function;
	struct eh_row *rows;	/* of the function at hand */
	size_t n_rows, cap_rows;
	unsigned char *code;
	size_t cap_code;
	struct jump *jumps;
	size_t n_jumps, cap_jumps;
	__u64 code_left, programs_left;
	bool no_memory;
};

static bool add_row(void *arg, const struct eh_row *row)
{
	struct loading *l = arg;
	struct eh_row *grown = l->rows;

	if (l->n_rows < MAX_ROWS)
		grown = array_grow(l->rows, &l->cap_rows, l->n_rows + 1, sizeof(*grown));
	if (!grown || l->n_rows == MAX_ROWS) {
		l->no_memory |= !grown;
		l->n_rows = 0;
		return false;
	}
	l->rows = grown;
	grown[l->n_rows++] = *row;
	return true;
}

static bool add_span(void *arg, const struct chain_span *span)
{
	struct loading *l = arg;
	struct back_chain *b = l->b;
	struct chain_span *grown;

	if (b->n_spans == MAX_ITEMS)
		return false;
	grown = array_grow(b->spans, &b->cap_spans, b->n_spans + 1, sizeof(*grown));
	if (!grown) {
		l->no_memory = true;
		return false;
	}
	b->spans = grown;
	grown[b->n_spans++] = *span;
	return true;
}

static bool add_jump(void *arg, __u64 target)
{
	struct loading *l = arg;
	struct jump *grown;
	__u64 start, end;
	size_t to;

	if (!eh_frame_index(l->table, target, &to) || to == l->function)
		return true;
	if (l->n_jumps == MAX_ITEMS)
		return false;
	grown = array_grow(l->jumps, &l->cap_jumps, l->n_jumps + 1, sizeof(*grown));
	if (!grown) {
		l->no_memory = true;
		return false;
	}
	l->jumps = grown;
	eh_frame_function(l->table, to, &start, &end);
	grown[l->n_jumps++] = (struct jump){ (__u32)l->function, (__u32)to, target == start };
	return true;
}

/* The code of [start, end) into l->code. */
static bool read_code(struct loading *l, __u64 start, __u64 end)
{
	const __u64 size = end - start;
	unsigned char *grown;

	if (size > MAX_FUNCTION || size > l->code_left)
		return false;
	for (size_t i = 0; i < l->f->n_phdrs; i++) {
		const Elf64_Phdr *ph = &l->f->phdrs[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || start < ph->p_vaddr ||
		    start - ph->p_vaddr >= ph->p_filesz ||
		    size > ph->p_filesz - (start - ph->p_vaddr))
			continue;
		grown = array_grow(l->code, &l->cap_code, size, 1);
		if (!grown) {
			l->no_memory = true;
			return false;
		}
		l->code = grown;
		l->code_left -= size;
		return !elf_file_read(l->f, grown, size, ph->p_offset + (start - ph->p_vaddr));
	}
	return false;
}

static enum chain_keeping scan_function(struct loading *l, __u64 start, __u64 end)
{
	const struct chain_sink sink = { add_span, add_jump, l };
	struct chain_input in = { .vaddr = start, .size = end - start };

	l->n_rows = 0;
	if (!eh_frame_rows(l->table, l->function, add_row, l, &l->programs_left) || !l->n_rows ||
	    !read_code(l, start, end))
		return CHAIN_LOST;
	in.code = l->code;
	in.rows = l->rows;
	in.n_rows = l->n_rows;
	return chain_scan(&in, &sink);
}

static int scan_functions(struct loading *l)
{
	const size_t n = eh_frame_count(l->table);
	__u64 start, end, last_end = 0;

	for (size_t i = 0; i < n; i++) {
		eh_frame_function(l->table, i, &start, &end);
		l->function = i;
		/* Functions do not overlap; that bounds our time, too. */
		l->b->keeping[i] = start >= last_end ? scan_function(l, start, end) : CHAIN_LOST;
		if (l->no_memory)
			return -ENOMEM;
		if (end > last_end)
			last_end = end;
	}
	return 0;
}

/* Does all that jumps into @jump->to from a frame keep the chain? Then so does it. */
static bool inherit_once(struct back_chain *b, const struct jump *jumps, size_t n)
{
	bool changed = false;

	for (size_t i = 0; i < n; i++) {
		const enum chain_keeping from = b->keeping[jumps[i].from];
		const enum chain_keeping to = b->keeping[jumps[i].to];

		if (from == to || from == CHAIN_INHERITED || to == CHAIN_LOST ||
		    to == CHAIN_NO_FRAME)
			continue;
		/* Where a function that has its own frame begins, there is none yet. */
		if (jumps[i].at_start && to != CHAIN_INHERITED)
			continue;
		b->keeping[jumps[i].to] = to == CHAIN_INHERITED ? from : CHAIN_LOST;
		changed = true;
	}
	return changed;
}

static void inherit(struct loading *l)
{
	struct back_chain *b = l->b;
	const size_t n = eh_frame_count(l->table);
	bool changed = true;

	for (int i = 0; i < MAX_ROUNDS && changed; i++)
		changed = inherit_once(b, l->jumps, l->n_jumps);
	for (size_t i = 0; i < n; i++) {
		/* Nobody known jumps there; or it goes round and round. */
		if (changed || b->keeping[i] == CHAIN_INHERITED)
			b->keeping[i] = b->keeping[i] == CHAIN_NO_FRAME ? CHAIN_NO_FRAME :
									  CHAIN_LOST;
		b->n_kept += b->keeping[i] == CHAIN_KEPT || b->keeping[i] == CHAIN_KEPT_PACKED;
		b->n_lost += b->keeping[i] == CHAIN_LOST;
	}
}

static int by_start(const void *pa, const void *pb)
{
	const struct chain_span *a = pa, *b = pb;

	return a->start < b->start ? -1 : a->start > b->start;
}

int back_chain_load(const struct elf_file *f, const struct eh_frame *table, struct back_chain **out)
{
	struct back_chain *b = calloc(1, sizeof(*b));
	struct loading l = { .b = b, .f = f, .table = table };
	int err = -ENOMEM;

	l.code_left = MAX_CODE;
	l.programs_left = MAX_PROGRAMS;
	if (b)
		b->keeping = calloc(eh_frame_count(table) + 1, 1);
	if (b && b->keeping) {
		b->n_functions = eh_frame_count(table);
		err = scan_functions(&l);
	}
	if (!err) {
		inherit(&l);
		if (b->n_spans)
			qsort(b->spans, b->n_spans, sizeof(*b->spans), by_start);
		*out = b;
	} else {
		back_chain_free(b);
	}
	free(l.rows);
	free(l.code);
	free(l.jumps);
	return err;
}

void back_chain_free(struct back_chain *b)
{
	if (!b)
		return;
	free(b->keeping);
	free(b->spans);
	free(b);
}

size_t back_chain_size(const struct back_chain *b)
{
	return sizeof(*b) + b->n_functions + b->cap_spans * sizeof(*b->spans);
}

void back_chain_at(const struct back_chain *b, const struct eh_frame *table, __u64 vaddr,
		   struct back_chain_place *out)
{
	size_t i, lo = 0, hi = b->n_spans;

	*out = (struct back_chain_place){ .keeping = CHAIN_LOST };
	if (!eh_frame_index(table, vaddr, &i))
		return;
	out->keeping = b->keeping[i];
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (b->spans[mid].start <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || vaddr >= b->spans[lo - 1].end)
		return;
	out->ahead = b->spans[lo - 1].kind == CHAIN_AHEAD;
	out->freed = b->spans[lo - 1].kind == CHAIN_FREED;
	out->held = b->spans[lo - 1].kind == CHAIN_HELD;
}

bool back_chain_is_kept(const struct back_chain *b)
{
	return b->n_kept && b->n_kept >= b->n_lost;
}
