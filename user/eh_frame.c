/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why not libdw's dwarf_cfi_addrframe(): it sizes tables by register numbers that the file chooses.
 * A function with `DW_CFA_offset reg 67108864` and three DW_CFA_remember_state, 9 bytes, made one
 * look-up take 2 GiB and 18 s (elfutils 0.188); more of them take the machine.
 */
#include "eh_frame.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>

#include "array.h"
#include "eh_entry.h"

#define MAX_AUGMENTATION 16	/* letters; seen are "zPLRS" */
#define NO_CIE (~(size_t)0)

struct function {
	__u64 start;
	__u64 end;
	size_t offset;		/* of its FDE in data */
};

struct eh_frame {
	const unsigned char *data;
	size_t size;
	__u64 vaddr;
	struct function *functions;	/* by start */
	size_t n;
	size_t cap;
};

/* Absolute and pc-relative: what compilers emit for functions. Anything else makes @r bad. */
__u64 eh_read_pointer(struct reader *r, __u8 encoding, __u64 vaddr)
{
	__u64 base = 0;

	if ((encoding & 0x70) == DW_EH_PE_pcrel)
		base = vaddr;
	else if (encoding & 0xf0)
		r->bad = true;
	switch (encoding & 0x0f) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		return base + reader_u64(r);
	case DW_EH_PE_udata4:
		return base + reader_u32(r);
	case DW_EH_PE_sdata4:
		return base + (__u64)(__s64)(__s32)reader_u32(r);
	case DW_EH_PE_udata2:
		return base + reader_u16(r);
	case DW_EH_PE_sdata2:
		return base + (__u64)(__s64)(__s16)reader_u16(r);
	case DW_EH_PE_uleb128:
		return base + reader_uleb(r);
	case DW_EH_PE_sleb128:
		return base + (__u64)reader_sleb(r);
	default:
		r->bad = true;
		return 0;
	}
}

/* The body of the entry at @offset, after its length; a bad reader at the terminator. */
static struct reader entry_at(const struct eh_frame *f, size_t offset)
{
	struct reader r = { f->data + offset, f->data + f->size, false };
	__u32 len = reader_u32(&r);
	const unsigned char *body;

	/* ~0 announces a 64-bit length, for sections that we do not read anyway. */
	if (!len || len == ~0u)
		r.bad = true;
	body = reader_take(&r, len);
	return body ? (struct reader){ body, body + len, false } : r;
}

/* The letters say what the augmentation data holds, in their order. */
static bool parse_augmentation(struct reader *r, const unsigned char *letters, struct eh_cie *c)
{
	if (!*letters)
		return true;
	/* Without 'z' nothing says how much to skip of what we do not know. */
	if (*letters++ != 'z')
		return false;
	c->has_length = true;
	reader_uleb(r);
	for (; *letters; letters++) {
		__u8 encoding;

		switch (*letters) {
		case 'R':
			c->encoding = reader_u8(r);
			break;
		case 'L':
			reader_u8(r);
			break;
		case 'P':
			/* The personality routine: only its length matters. */
			encoding = reader_u8(r);
			if ((encoding & 0x70) == DW_EH_PE_aligned)
				return false;
			eh_read_pointer(r, encoding & 0x0f, 0);
			break;
		case 'S':
			c->signal_frame = true;
			break;
		default:
			return false;
		}
	}
	return true;
}

static bool parse_cie(const struct eh_frame *f, size_t offset, struct eh_cie *c)
{
	struct reader r = entry_at(f, offset);
	const unsigned char *letters;
	struct reader data;
	__u8 version;
	size_t n;

	memset(c, 0, sizeof(*c));
	if (reader_u32(&r))
		return false; /* the mark of a CIE is 0 */
	version = reader_u8(&r);
	if (version != 1 && version != 3)
		return false;
	letters = r.at;
	n = strnlen((const char *)letters,
		    reader_left(&r) < MAX_AUGMENTATION ? reader_left(&r) : MAX_AUGMENTATION);
	reader_take(&r, n);
	if (reader_u8(&r) || r.bad)
		return false;
	c->code_align = reader_uleb(&r);
	c->data_align = reader_sleb(&r);
	c->ra_reg = version == 1 ? reader_u8(&r) : reader_uleb(&r);
	data = r;
	if (!parse_augmentation(&data, letters, c) || data.bad)
		return false;
	if (c->has_length)
		reader_take(&r, reader_uleb(&r));
	c->program = r;
	return !r.bad;
}

static __u64 vaddr_of(const struct eh_frame *f, const struct reader *r)
{
	return f->vaddr + (__u64)(r->at - f->data);
}

/*
 * The entry at @offset. Return: 0; -ENOENT: a CIE, or one we do not read; -EINVAL: no entry, the
 * end. @fde->cie must hold the CIE at @*cie_at already, NO_CIE if none.
 */
static int parse_entry(const struct eh_frame *f, size_t offset, struct eh_fde *fde, size_t *cie_at,
		       size_t *next)
{
	struct reader r = entry_at(f, offset);
	size_t id_at = offset + 4;
	__u32 back;

	if (r.bad)
		return -EINVAL;
	*next = (size_t)(r.end - f->data);
	back = reader_u32(&r);
	if (!back || r.bad || back > id_at)
		return -ENOENT;
	if (*cie_at != id_at - back) {
		*cie_at = NO_CIE;
		if (!parse_cie(f, id_at - back, &fde->cie))
			return -ENOENT;
		*cie_at = id_at - back;
	}
	fde->start = eh_read_pointer(&r, fde->cie.encoding, vaddr_of(f, &r));
	fde->end = fde->start + eh_read_pointer(&r, fde->cie.encoding & 0x0f, 0);
	if (fde->cie.has_length)
		reader_take(&r, reader_uleb(&r));
	fde->program_vaddr = vaddr_of(f, &r);
	fde->program = r;
	return r.bad || fde->start >= fde->end ? -ENOENT : 0;
}

static int by_start(const void *pa, const void *pb)
{
	const struct function *a = pa, *b = pb;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a->offset > b->offset) - (a->offset < b->offset);
}

static int index_functions(struct eh_frame *f)
{
	struct eh_fde fde = { 0 };
	size_t cie_at = NO_CIE, next;

	for (size_t at = 0; at < f->size; at = next) {
		int err = parse_entry(f, at, &fde, &cie_at, &next);
		struct function *grown;

		if (err == -EINVAL)
			break;
		if (err)
			continue;
		grown = array_grow(f->functions, &f->cap, f->n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->functions = grown;
		f->functions[f->n++] = (struct function){ fde.start, fde.end, at };
	}
	if (f->n)
		qsort(f->functions, f->n, sizeof(*f->functions), by_start);
	return 0;
}

int eh_frame_new(void *data, size_t size, __u64 vaddr, struct eh_frame **out)
{
	struct eh_frame *f;
	int err;

	if (size > EH_FRAME_MAX)
		return -EFBIG;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->data = data;
	f->size = size;
	f->vaddr = vaddr;
	err = index_functions(f);
	if (err) {
		free(f->functions);
		free(f);
		return err;
	}
	*out = f;
	return 0;
}

void eh_frame_free(struct eh_frame *f)
{
	if (!f)
		return;
	free((void *)f->data);
	free(f->functions);
	free(f);
}

size_t eh_frame_count(const struct eh_frame *f)
{
	return f->n;
}

void eh_frame_function(const struct eh_frame *f, size_t i, __u64 *start, __u64 *end)
{
	*start = f->functions[i].start;
	*end = f->functions[i].end;
}

bool eh_frame_index(const struct eh_frame *f, __u64 pc, size_t *i)
{
	size_t lo = 0, hi = f->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (f->functions[mid].start <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo || pc >= f->functions[lo - 1].end)
		return false;
	*i = lo - 1;
	return true;
}

bool eh_frame_row(const struct eh_frame *f, __u64 pc, struct eh_row *row)
{
	size_t i, cie_at = NO_CIE, next;
	struct eh_fde fde;

	if (!eh_frame_index(f, pc, &i) ||
	    parse_entry(f, f->functions[i].offset, &fde, &cie_at, &next))
		return false;
	return eh_run(&fde, pc, row);
}

bool eh_frame_rows(const struct eh_frame *f, size_t i, eh_row_visit *visit, void *arg,
		   __u64 *budget)
{
	size_t cie_at = NO_CIE, next, size;
	struct eh_fde fde;

	if (parse_entry(f, f->functions[i].offset, &fde, &cie_at, &next))
		return false;
	size = reader_left(&fde.program) + reader_left(&fde.cie.program) + 1;
	if (size > *budget) {
		*budget = 0;
		return false;
	}
	*budget -= size;
	return eh_run_all(&fde, visit, arg);
}
