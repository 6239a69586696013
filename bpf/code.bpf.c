// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The code at an interrupted pc: read, and taken apart an instruction at a time by arch/. What it
 * says is proof: of where the return address is, and where the link to the next frame.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "code.bpf.h"
#include "arch/arch.h"

#define CODE_BYTES (ARCH_CODE_BEFORE + ARCH_CODE_BYTES)
#define CODE_PAGE 4096u

_Static_assert(CODE_BYTES <= CODE_MAX, "code fits");

__noinline int code_step(u32 slot)
{
	struct scratch *s = scratch_at(slot);

	return s ? arch_code_step(s) : 1;
}

/* What cannot be read is zeros. Return: bytes valid from the start of scratch.code; 0: none at pc. */
static __always_inline u64 read_code(struct scratch *s)
{
	u64 ip = s->frame.ip, left = CODE_PAGE - (ip & (CODE_PAGE - 1));

	if (!bpf_probe_read_user(s->code, CODE_BYTES, (void *)(ip - ARCH_CODE_BEFORE)))
		return CODE_BYTES;
	/* A neighbour of the page that runs need not be there. */
	if (left > ARCH_CODE_BYTES)
		left = ARCH_CODE_BYTES;
	asm volatile("" : "+r"(left));
	if (!ARCH_CODE_BEFORE || left > ARCH_CODE_BYTES ||
	    bpf_probe_read_user(s->code + ARCH_CODE_BEFORE, left, (void *)ip))
		return 0;
	return ARCH_CODE_BEFORE + left;
}

__noinline int code_at_pc(u32 slot)
{
	struct scratch *s = scratch_at(slot);
	struct code_state *c;
	int how;

	if (!s)
		return RPROF_HOW_PC;
	c = &s->at_pc;
	c->link = LINK_AT_SP;
	c->ra_dead = c->slot_dead = c->kept = c->packed = c->weak = c->probed = c->stored =
		c->changed = 0;
	c->at = ARCH_CODE_BEFORE;
	c->end = read_code(s);
	if (!c->end)
		return RPROF_HOW_PC;
	how = arch_code_begin(s);
	if (how != RPROF_HOW_PC)
		return how;
	for (int i = 0; i < ARCH_CODE_STEPS; i++)
		if (code_step(slot))
			break;
	arch_code_end(s);
	return RPROF_HOW_PC;
}
