/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the unwind rules of a file say about the frame pointer at an address. The machine's part of
 * it is in arch.h. Anything that is not understood is CFI_UNKNOWN.
 */
#include "cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "back_chain.h"
#include "eh_entry.h"

/* Looked at to say how a file was built. A hostile one can make 30 ms of it. */
#define SAMPLED_FUNCTIONS 1024
#define SAMPLED_ROWS 8			/* of each, from its start: frames are set up at once */
#define SAMPLED_BYTES 512		/* longer table programs are passed over */

struct cfi {
	struct eh_frame *table;
	struct back_chain *chain;	/* NULL: frames are linked by the frame pointer */
	bool keeps_fp;
};

/* Where in the file the rules are, and at what address. */
struct extent {
	__u64 offset;
	__u64 size;
	__u64 vaddr;
};

static int find_by_section(const struct elf_file *f, struct extent *x)
{
	const Elf64_Shdr *sh = elf_file_named(f, ".eh_frame");

	if (!sh || (sh->sh_flags & SHF_COMPRESSED))
		return -ENOENT;
	*x = (struct extent){ sh->sh_offset, sh->sh_size, sh->sh_addr };
	return 0;
}

static const Elf64_Phdr *find_segment(const struct elf_file *f, Elf64_Word type)
{
	for (size_t i = 0; i < f->n_phdrs; i++) {
		if (f->phdrs[i].p_type == type)
			return &f->phdrs[i];
	}
	return NULL;
}

/* .eh_frame_hdr begins with a pointer to .eh_frame: Linux Standard Base Core 5.0, 10.6.2. */
static int find_by_segment(const struct elf_file *f, struct extent *x)
{
	const Elf64_Phdr *index = find_segment(f, PT_GNU_EH_FRAME);
	unsigned char head[4 + 8];
	struct reader r = { head + 4, head + sizeof(head), false };
	__u64 vaddr;

	if (!index || elf_file_read(f, head, sizeof(head), index->p_offset) || head[0] != 1)
		return -ENOENT;
	vaddr = eh_read_pointer(&r, head[1], index->p_vaddr + 4);
	if (!vaddr || r.bad)
		return -ENOENT;
	for (size_t i = 0; i < f->n_phdrs; i++) {
		const Elf64_Phdr *ph = &f->phdrs[i];

		if (ph->p_type != PT_LOAD || vaddr < ph->p_vaddr ||
		    vaddr - ph->p_vaddr >= ph->p_filesz)
			continue;
		/* How long it is nobody says; it ends with a zero word. */
		x->offset = ph->p_offset + (vaddr - ph->p_vaddr);
		x->size = ph->p_filesz - (vaddr - ph->p_vaddr);
		x->vaddr = vaddr;
		if (x->size > EH_FRAME_MAX)
			x->size = EH_FRAME_MAX;
		return 0;
	}
	return -ENOENT;
}

/* Length of the entry at @offset; false: there is none. */
static bool entry_size(const unsigned char *data, size_t size, __u64 offset, __u32 *len)
{
	struct reader r = { data, data + size, false };

	if (!reader_take(&r, offset))
		return false;
	*len = reader_u32(&r);
	return !r.bad;
}

/* Are the table programs of the entry at @vaddr, its own and that of its CIE, soon run? */
static bool is_short(const unsigned char *data, const struct extent *x, __u64 vaddr)
{
	__u64 offset = vaddr - x->vaddr;
	struct reader r = { data, data + x->size, false };
	__u32 len, back, cie_len;

	if (!entry_size(data, x->size, offset, &len) || !reader_take(&r, offset + 4))
		return false;
	back = reader_u32(&r);
	if (r.bad || !back || back > offset + 4)
		return false;
	return entry_size(data, x->size, offset + 4 - back, &cie_len) && len <= SAMPLED_BYTES &&
	       cie_len <= SAMPLED_BYTES;
}

static enum cfi_state state_of(const struct cfi *c, const struct eh_row *r);

/* Does the function from @start, up to @end at most, ever move the stack, or have its frame up? */
static void look_at_function(const struct cfi *c, __u64 start, __u64 end, bool *moves, bool *up)
{
	struct eh_row r;

	*moves = *up = false;
	for (int i = 0; i < SAMPLED_ROWS && start < end && !*up; i++, start = r.end) {
		if (!eh_frame_row(c->table, start, &r) || r.signal_frame ||
		    r.ra.kind == EH_UNDEFINED)
			return;
		*up = state_of(c, &r) == CFI_FP_UP;
		*moves |= *up || !r.cfa_known || r.cfa_reg != ARCH_REG_SP ||
			  r.cfa_offset != -ARCH_RA_AT_CFA;
	}
}

/*
 * Functions of the linker's index, .eh_frame_hdr: pairs of 32-bit numbers relative to its own
 * address, function and entry, in the order of the functions. Linux Standard Base Core 5.0, 10.6.2.
 */
static bool read_pairs(const struct elf_file *f, const Elf64_Phdr *ph, __u32 first,
		       __u64 pairs[2][2])
{
	unsigned char bytes[16];
	struct reader r = { bytes, bytes + sizeof(bytes), false };

	if (elf_file_read(f, bytes, sizeof(bytes), ph->p_offset + 12 + 8ULL * first))
		return false;
	for (int i = 0; i < 4; i++)
		pairs[i / 2][i % 2] = ph->p_vaddr + (__u64)(__s64)(__s32)reader_u32(&r);
	return true;
}

static const Elf64_Phdr *find_index(const struct elf_file *f, __u32 *n_functions)
{
	const Elf64_Phdr *ph = find_segment(f, PT_GNU_EH_FRAME);
	unsigned char head[12];
	struct reader r = { head + 8, head + sizeof(head), false };

	if (!ph || elf_file_read(f, head, sizeof(head), ph->p_offset) || head[0] != 1 ||
	    head[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || head[2] != DW_EH_PE_udata4 ||
	    head[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return NULL;
	*n_functions = reader_u32(&r);
	return ph->p_filesz >= 12 && *n_functions <= (ph->p_filesz - 12) / 8 ? ph : NULL;
}

/*
 * Was the file built with frame pointers? At least half of the functions that move the stack set one
 * up, in a sample spread evenly. Where nothing is known, as without an index: no.
 */
static bool keeps_frame_pointers(const struct cfi *c, const unsigned char *data,
				 const struct extent *x, const struct elf_file *f)
{
	__u32 n, n_moving = 0, n_up = 0, step;
	const Elf64_Phdr *ph = find_index(f, &n);

	if (!ph)
		return false;
	step = n / SAMPLED_FUNCTIONS + 1;
	for (__u32 i = 0; i < n; i += step) {
		__u64 pairs[2][2];
		bool moves, up;

		if (!read_pairs(f, ph, i, pairs))
			break;
		/* After the last one is no function, and so no row. */
		if (i + 1 == n)
			pairs[1][0] = ~0ULL;
		if (!is_short(data, x, pairs[0][1]))
			continue;
		look_at_function(c, pairs[0][0], pairs[1][0], &moves, &up);
		n_moving += moves;
		n_up += up;
	}
	return n_up && 2 * (__u64)n_up >= n_moving;
}

int cfi_load(const struct elf_file *f, struct cfi **out)
{
	struct cfi *c = NULL;
	void *data = NULL;
	struct extent x;
	int err;

	if (find_by_section(f, &x) && find_by_segment(f, &x))
		return -ENOENT;
	if (!x.size || x.size > EH_FRAME_MAX || x.size > f->size)
		return -ENOENT;
	c = calloc(1, sizeof(*c));
	data = malloc(x.size);
	err = c && data ? 0 : -ENOMEM;
	if (!err)
		err = elf_file_read(f, data, x.size, x.offset);
	if (!err)
		err = eh_frame_new(data, x.size, x.vaddr, &c->table);
	if (err) {
		free(data);
		free(c);
		return err;
	}
	if (ARCH_HAS_FP_CHAIN) {
		c->keeps_fp = keeps_frame_pointers(c, data, &x, f);
	} else {
		err = back_chain_load(f, c->table, &c->chain);
		if (err) {
			cfi_free(c);
			return err;
		}
		c->keeps_fp = back_chain_is_kept(c->chain);
	}
	*out = c;
	return 0;
}

void cfi_free(struct cfi *c)
{
	if (!c)
		return;
	eh_frame_free(c->table);
	back_chain_free(c->chain);
	free(c);
}

size_t cfi_chain_size(const struct cfi *c)
{
	return c && c->chain ? back_chain_size(c->chain) : 0;
}

static bool ra_is_on_stack(const struct eh_row *r)
{
	return r->ra.kind == EH_AT_CFA && r->ra.value == ARCH_RA_AT_CFA;
}

/* The chain finds the caller from here. */
static bool is_up(const struct eh_row *r)
{
	/*
	 * A function that realigns its stack has no CFA in terms of a register, but its fp is
	 * saved where fp points, with a copy of the return address above it (GCC's
	 * ix86_expand_prologue(): "Replicate the return address on the stack").
	 */
	if (r->fp.kind == EH_AT_FP)
		return true;
	return r->cfa_known && r->cfa_reg == ARCH_REG_FP && r->cfa_offset == ARCH_UP_CFA &&
	       r->fp.kind == EH_AT_CFA && r->fp.value == ARCH_UP_FP_AT_CFA && ra_is_on_stack(r);
}

/* fp was saved at cfa + fp.value, CFA = sp + cfa_offset: does fp still hold the caller's value? */
static bool saved_but_untouched(const struct cfi *c, const struct eh_row *r)
{
	struct eh_row next;

	/* The slot lies below sp: it was popped, or the whole frame was. */
	if (r->cfa_offset + r->fp.value < 0)
		return true;
	/*
	 * Just pushed, on top of the stack. Either fp is about to be set to sp (nothing between
	 * changes it: that row ends with the frame up), or it is about to become, or is already,
	 * an ordinary register.
	 */
	if (r->cfa_offset != ARCH_UP_CFA || r->fp.value != ARCH_UP_FP_AT_CFA)
		return false;
	return eh_frame_row(c->table, r->end, &next) && is_up(&next);
}

static enum cfi_state state_of(const struct cfi *c, const struct eh_row *r)
{
	if (r->ra.kind == EH_UNDEFINED)
		return CFI_END;
	/* Whom a signal interrupted is not in the rules that the chain follows. */
	if (r->signal_frame)
		return CFI_UNKNOWN;
	if (is_up(r))
		return CFI_FP_UP;
	if (!r->cfa_known || !ra_is_on_stack(r))
		return CFI_UNKNOWN;
	if (r->cfa_reg != ARCH_REG_FP && r->fp.kind == EH_SAME)
		return CFI_FP_UNTOUCHED;
	if (r->cfa_reg == ARCH_REG_SP && r->fp.kind == EH_AT_CFA && saved_but_untouched(c, r))
		return CFI_FP_UNTOUCHED;
	return CFI_FP_LOST;
}

static enum cfi_ra ra_of(const struct eh_row *r, __s64 at_cfa)
{
	if (r->ra.kind == EH_AT_CFA && r->ra.value == at_cfa)
		return CFI_RA_STACK;
	/* Callee-saved where it is a register at all; else the CIE says where it is. */
	if (!ARCH_HAS_FP_CHAIN && (r->ra.kind == EH_SAME || r->ra.kind == EH_UNSPECIFIED))
		return CFI_RA_REGISTER;
	return CFI_RA_UNKNOWN;
}

/* Where the chain finds the return address of a frame that is linked. */
static __s64 linked_ra_at_cfa(enum chain_keeping keeping)
{
	if (keeping == CHAIN_KEPT_PACKED)
		return ARCH_PACKED_RA_AT_CFA;
	return keeping == CHAIN_WRAPPER ? ARCH_WRAPPER_RA_AT_CFA : ARCH_RA_AT_CFA;
}

/* The frame was freed, whatever the row says: as at the function's first instruction. */
static void set_freed(struct cfi_rule *out)
{
	out->state = CFI_FP_UNTOUCHED;
	out->ra = CFI_RA_REGISTER;
	out->cfa_is_sp = true;
	out->cfa_offset = ARCH_UP_CFA;
}

/* States of a function that is linked by the back chain: facts of its code, and its row. */
static void find_by_code(const struct cfi *c, __u64 vaddr, const struct eh_row *r,
			 struct cfi_rule *out)
{
	struct back_chain_place place;

	back_chain_at(c->chain, c->table, vaddr, &place);
	if (place.freed) {
		set_freed(out);
		return;
	}
	out->packed = place.keeping == CHAIN_KEPT_PACKED;
	out->wrapper = place.keeping == CHAIN_WRAPPER;
	out->ra = ra_of(r, linked_ra_at_cfa(place.keeping));
	if (out->ra == CFI_RA_UNKNOWN || !r->cfa_known)
		out->state = CFI_UNKNOWN;
	else if (place.ahead)
		out->state = CFI_FP_UNLINKED;
	else if (!place.held && r->cfa_reg == ARCH_REG_SP && r->cfa_offset == ARCH_UP_CFA)
		out->state = CFI_FP_UNTOUCHED;
	else if (r->cfa_reg != ARCH_REG_SP && r->cfa_reg != ARCH_REG_FP)
		out->state = CFI_UNKNOWN;
	else if (!place.held && !chain_is_allocated(r))
		/* A frame of nothing, with a frame pointer equal to sp as long as nothing moves it. */
		out->state = place.keeping == CHAIN_NO_FRAME ? CFI_FP_UNTOUCHED : CFI_UNKNOWN;
	else
		out->state = place.keeping == CHAIN_LOST ? CFI_FP_LOST : CFI_FP_UP;
	if (out->state == CFI_FP_UNTOUCHED)
		out->cfa_is_sp = true;
}

void cfi_find(const struct cfi *c, __u64 vaddr, struct cfi_rule *out)
{
	struct eh_row r;

	memset(out, 0, sizeof(*out));
	out->keeps_fp = c->keeps_fp;
	if (!eh_frame_row(c->table, vaddr, &r))
		return;
	out->cfa_is_sp = r.cfa_known && r.cfa_reg == ARCH_REG_SP;
	out->cfa_offset = r.cfa_known ? r.cfa_offset : 0;
	out->signal_frame = r.signal_frame;
	if (c->chain && r.ra.kind != EH_UNDEFINED && !r.signal_frame) {
		find_by_code(c, vaddr, &r, out);
	} else {
		out->state = state_of(c, &r);
		out->ra = ra_of(&r, ARCH_RA_AT_CFA);
	}
	if (out->ra == CFI_RA_STACK && out->cfa_is_sp)
		out->ra_at_sp = out->cfa_offset + r.ra.value;
}
