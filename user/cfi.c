/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the unwind rules of a file say about the frame pointer at an address. The machine's part of
 * it is in arch.h. Anything that is not understood is CFI_UNKNOWN.
 */
#include "cfi.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "eh_entry.h"

#define MAX_SECTION_NAMES (1u << 20)	/* bytes; libelf reads the table whole */

struct cfi {
	struct eh_frame *table;
};

/* Where in the file the rules are, and at what address. */
struct extent {
	__u64 offset;
	__u64 size;
	__u64 vaddr;
};

static int find_by_section(Elf *elf, struct extent *x)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;
	size_t names;

	if (elf_getshdrstrndx(elf, &names) || !gelf_getshdr(elf_getscn(elf, names), &sh) ||
	    sh.sh_size > MAX_SECTION_NAMES)
		return -ENOENT;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;

		if (!gelf_getshdr(scn, &sh) || sh.sh_type == SHT_NOBITS)
			continue;
		name = elf_strptr(elf, names, sh.sh_name);
		if (!name || strcmp(name, ".eh_frame") != 0)
			continue;
		*x = (struct extent){ sh.sh_offset, sh.sh_size, sh.sh_addr };
		return 0;
	}
	return -ENOENT;
}

/* .eh_frame_hdr begins with a pointer to .eh_frame: Linux Standard Base Core 5.0, 10.6.2. */
static int find_by_segment(Elf *elf, int fd, struct extent *x)
{
	unsigned char head[4 + 8];
	struct reader r = { head + 4, head + sizeof(head), false };
	GElf_Phdr ph = { 0 };
	__u64 vaddr = 0;
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return -ENOENT;
	for (size_t i = 0; i < n && !vaddr; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_GNU_EH_FRAME)
			continue;
		if (pread(fd, head, sizeof(head), (off_t)ph.p_offset) != sizeof(head) ||
		    head[0] != 1)
			return -ENOENT;
		vaddr = eh_read_pointer(&r, head[1], ph.p_vaddr + 4);
	}
	if (!vaddr || r.bad)
		return -ENOENT;
	for (size_t i = 0; i < n; i++) {
		if (!gelf_getphdr(elf, (int)i, &ph) || ph.p_type != PT_LOAD || vaddr < ph.p_vaddr ||
		    vaddr - ph.p_vaddr >= ph.p_filesz)
			continue;
		/* How long it is nobody says; it ends with a zero word. */
		x->offset = ph.p_offset + (vaddr - ph.p_vaddr);
		x->size = ph.p_filesz - (vaddr - ph.p_vaddr);
		x->vaddr = vaddr;
		if (x->size > EH_FRAME_MAX)
			x->size = EH_FRAME_MAX;
		return 0;
	}
	return -ENOENT;
}

int cfi_load(Elf *elf, int fd, __u64 file_size, struct cfi **out)
{
	struct cfi *c = NULL;
	void *data = NULL;
	struct extent x;
	int err;

	if (find_by_section(elf, &x) && find_by_segment(elf, fd, &x))
		return -ENOENT;
	if (!x.size || x.size > EH_FRAME_MAX || x.size > file_size || x.offset > file_size - x.size)
		return -ENOENT;
	c = calloc(1, sizeof(*c));
	data = malloc(x.size);
	err = c && data ? 0 : -ENOMEM;
	if (!err && pread(fd, data, x.size, (off_t)x.offset) != (ssize_t)x.size)
		err = -EIO;
	if (!err)
		err = eh_frame_new(data, x.size, x.vaddr, &c->table);
	if (err) {
		free(data);
		free(c);
		return err;
	}
	*out = c;
	return 0;
}

void cfi_free(struct cfi *c)
{
	if (!c)
		return;
	eh_frame_free(c->table);
	free(c);
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
	if (r->signal_frame || !ARCH_HAS_FP_CHAIN)
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

void cfi_find(const struct cfi *c, __u64 vaddr, struct cfi_rule *out)
{
	struct eh_row r;

	memset(out, 0, sizeof(*out));
	if (!eh_frame_row(c->table, vaddr, &r))
		return;
	out->state = state_of(c, &r);
	out->cfa_is_sp = r.cfa_known && r.cfa_reg == ARCH_REG_SP;
	out->cfa_offset = r.cfa_known ? r.cfa_offset : 0;
	out->signal_frame = r.signal_frame;
}
