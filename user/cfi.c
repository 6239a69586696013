/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the unwind rules of a file say about the frame pointer at an address. DWARF 5, 6.4 for the
 * rules; the machine's part of it is in arch.h. Anything that is not understood is CFI_UNKNOWN.
 */
#include "cfi.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"

#define MAX_EH_FRAME (64u << 20)	/* bytes; Chrome has 20 MiB */
#define MAX_SECTION_NAMES (1u << 20)
#define MAX_OPS 32			/* of an expression; a PLT's has 8 */

struct cfi {
	Dwarf_CFI *dw;
};

/* One row of the table, in our terms. */
struct row {
	__u64 end;		/* address where the next row begins */
	bool cfa_known;
	int cfa_reg;		/* ARCH_REG_SP or ARCH_REG_FP */
	__s64 cfa_offset;
	enum { FP_SAME, FP_AT_CFA, FP_AT_FP, FP_GONE } fp;
	__s64 fp_offset;	/* from the CFA */
	enum { RA_AT_CFA, RA_UNDEFINED, RA_OTHER } ra;
	__s64 ra_offset;
	bool signal_frame;
};

/* Value of @ops with the stack pointer at @sp, for what PLT rules consist of. */
static bool evaluate(const Dwarf_Op *ops, size_t n, __u64 sp, __u64 pc, __u64 *value)
{
	__u64 stack[MAX_OPS + 1];
	size_t depth = 0;

	if (n > MAX_OPS)
		return false;
	for (size_t i = 0; i < n; i++) {
		const Dwarf_Op *op = &ops[i];
		__u64 *top = &stack[depth];

		if (op->atom == DW_OP_breg0 + ARCH_REG_SP) {
			stack[depth++] = sp + op->number;
			continue;
		}
		if (op->atom == DW_OP_breg0 + ARCH_REG_RA) {
			stack[depth++] = pc + op->number;
			continue;
		}
		if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
			stack[depth++] = op->atom - DW_OP_lit0;
			continue;
		}
		if (depth < 2)
			return false;
		depth--;
		switch (op->atom) {
		case DW_OP_and:
			top[-2] &= top[-1];
			break;
		case DW_OP_plus:
			top[-2] += top[-1];
			break;
		case DW_OP_ge:
			top[-2] = (__s64)top[-2] >= (__s64)top[-1];
			break;
		case DW_OP_shl:
			top[-2] = top[-1] < 64 ? top[-2] << top[-1] : 0;
			break;
		default:
			return false;
		}
	}
	*value = stack[0];
	return depth == 1;
}

/* Is @ops, at @pc, sp + a number? Asked at two places far from each other. */
static bool is_sp_plus(const Dwarf_Op *ops, size_t n, __u64 pc, __s64 *offset)
{
	const __u64 low = 1ULL << 20, high = (1ULL << 40) + 4096;
	__u64 a, b;

	if (!evaluate(ops, n, low, pc, &a) || !evaluate(ops, n, high, pc, &b))
		return false;
	*offset = (__s64)(a - low);
	return a - low == b - high;
}

static void read_cfa(Dwarf_Frame *frame, __u64 pc, struct row *r)
{
	Dwarf_Op *ops;
	size_t n;

	if (dwarf_frame_cfa(frame, &ops, &n) || n == 0)
		return;
	if (n == 1 && ops[0].atom == DW_OP_bregx) {
		r->cfa_reg = (int)ops[0].number;
		r->cfa_offset = (__s64)ops[0].number2;
		r->cfa_known = ops[0].number == ARCH_REG_SP || ops[0].number == ARCH_REG_FP;
		return;
	}
	r->cfa_reg = ARCH_REG_SP;
	r->cfa_known = is_sp_plus(ops, n, pc, &r->cfa_offset);
}

/* Is @ops "at cfa + a number"? libdw's form of the rule offset(N). */
static bool is_at_cfa(const Dwarf_Op *ops, size_t n, __s64 *offset)
{
	if (n < 1 || n > 2 || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (n == 2 && ops[1].atom != DW_OP_plus_uconst)
		return false;
	*offset = n == 2 ? (__s64)ops[1].number : 0;
	return true;
}

static void read_fp(Dwarf_Frame *frame, struct row *r)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	r->fp = FP_GONE;
	if (dwarf_frame_register(frame, ARCH_REG_FP, mem, &ops, &n))
		return;
	if (n == 0)
		r->fp = ops ? FP_GONE : FP_SAME;
	else if (is_at_cfa(ops, n, &r->fp_offset))
		r->fp = FP_AT_CFA;
	else if (n == 1 && ops[0].atom == DW_OP_breg0 + ARCH_REG_FP && ops[0].number == 0)
		r->fp = FP_AT_FP;
}

static void read_ra(Dwarf_Frame *frame, int regno, struct row *r)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	r->ra = RA_OTHER;
	if (regno < 0 || dwarf_frame_register(frame, regno, mem, &ops, &n))
		return;
	if (n == 0 && ops)
		r->ra = RA_UNDEFINED;
	else if (is_at_cfa(ops, n, &r->ra_offset))
		r->ra = RA_AT_CFA;
}

static bool read_row(struct cfi *c, __u64 vaddr, struct row *r)
{
	Dwarf_Frame *frame = NULL;
	Dwarf_Addr start, end;
	int regno;

	memset(r, 0, sizeof(*r));
	if (dwarf_cfi_addrframe(c->dw, vaddr, &frame))
		return false;
	regno = dwarf_frame_info(frame, &start, &end, &r->signal_frame);
	r->end = end;
	read_cfa(frame, vaddr, r);
	read_fp(frame, r);
	read_ra(frame, regno, r);
	free(frame);
	return true;
}

/* The chain finds the caller from here. */
static bool is_up(const struct row *r)
{
	if (!ARCH_HAS_FP_CHAIN)
		return false;
	/*
	 * A function that realigns its stack has no CFA in terms of a register, but its fp is
	 * saved where fp points, with a copy of the return address above it (GCC's
	 * ix86_expand_prologue(): "Replicate the return address on the stack").
	 */
	if (r->fp == FP_AT_FP)
		return true;
	return r->cfa_known && r->cfa_reg == ARCH_REG_FP && r->cfa_offset == ARCH_UP_CFA &&
	       r->fp == FP_AT_CFA && r->fp_offset == ARCH_UP_FP_AT_CFA &&
	       r->ra == RA_AT_CFA && r->ra_offset == ARCH_RA_AT_CFA;
}

/* fp was saved at cfa + fp_offset, CFA = sp + cfa_offset: does fp still hold the caller's value? */
static bool saved_but_untouched(struct cfi *c, const struct row *r)
{
	struct row next;

	/* The slot lies below sp: it was popped, or the whole frame was. */
	if (r->cfa_offset + r->fp_offset < 0)
		return true;
	/*
	 * Just pushed, on top of the stack. Either fp is about to be set to sp (nothing between
	 * changes it: that row ends with the frame up), or it is about to become, or is already,
	 * an ordinary register.
	 */
	if (r->cfa_offset != ARCH_UP_CFA || r->fp_offset != ARCH_UP_FP_AT_CFA)
		return false;
	return read_row(c, r->end, &next) && is_up(&next);
}

static enum cfi_state state_of(struct cfi *c, const struct row *r)
{
	if (r->ra == RA_UNDEFINED)
		return CFI_END;
	/* What the handler's caller was doing is for the signal frame's own rule. */
	if (r->signal_frame || !ARCH_HAS_FP_CHAIN)
		return CFI_UNKNOWN;
	if (is_up(r))
		return CFI_FP_UP;
	if (!r->cfa_known || r->ra != RA_AT_CFA || r->ra_offset != ARCH_RA_AT_CFA)
		return CFI_UNKNOWN;
	if (r->cfa_reg != ARCH_REG_SP || r->fp == FP_GONE)
		return CFI_FP_LOST;
	if (r->fp == FP_SAME || saved_but_untouched(c, r))
		return CFI_FP_UNTOUCHED;
	return CFI_FP_LOST;
}

void cfi_find(struct cfi *c, __u64 vaddr, struct cfi_rule *out)
{
	struct row r;

	memset(out, 0, sizeof(*out));
	if (!read_row(c, vaddr, &r))
		return;
	out->state = state_of(c, &r);
	out->cfa_is_sp = r.cfa_known && r.cfa_reg == ARCH_REG_SP;
	out->cfa_offset = r.cfa_known ? r.cfa_offset : 0;
	out->signal_frame = r.signal_frame;
}

/* Only what libdw would read is checked here, since it reads whatever the headers say. */
static bool sizes_are_sane(Elf *elf, __u64 file_size)
{
	Elf_Scn *scn = NULL;
	bool found = false;
	GElf_Shdr strings;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) || !gelf_getshdr(elf_getscn(elf, names), &strings) ||
	    strings.sh_size > MAX_SECTION_NAMES)
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		GElf_Shdr sh;
		const char *name;

		if (!gelf_getshdr(scn, &sh))
			return false;
		name = elf_strptr(elf, names, sh.sh_name);
		if (!name || strncmp(name, ".eh_frame", 9) != 0)
			continue;
		if (sh.sh_size > MAX_EH_FRAME || sh.sh_size > file_size ||
		    sh.sh_offset > file_size - sh.sh_size)
			return false;
		found = true;
	}
	return found;
}

int cfi_load(Elf *elf, __u64 file_size, struct cfi **out)
{
	struct cfi *c;

	if (!sizes_are_sane(elf, file_size))
		return -ENOENT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->dw = dwarf_getcfi_elf(elf);
	if (!c->dw) {
		free(c);
		return -ENOENT;
	}
	*out = c;
	return 0;
}

void cfi_free(struct cfi *c)
{
	if (!c)
		return;
	dwarf_cfi_end(c->dw);
	free(c);
}
