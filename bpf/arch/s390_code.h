/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the instructions around an interrupted pc prove of its frame. z/Architecture Principles of
 * Operation, chapter 7 and appendix B; sequences as GCC 12 and clang 14 emit them, -mbackchain with
 * and without -fstack-clash-protection.
 *
 * From pc on straight ahead: the first store at [r15] is that of the back chain, so what is stored
 * there is the chain now, as long as it is what a register holds now, or r15 plus a constant. Only
 * instructions whose effect on registers is known are passed; at any other one nothing is said.
 */
#ifndef RPROF_ARCH_S390_CODE_H
#define RPROF_ARCH_S390_CODE_H

#include "../scratch.bpf.h"

#define ARCH_CODE_BEFORE 16u	/* a stack-clash loop is as long */
#define ARCH_CODE_BYTES 48u
#define ARCH_CODE_STEPS 10	/* from the head of such a loop to the store of the chain there are 9 */
#define FPR 16			/* numbers of floating point registers begin here, */
#define NO_REGISTER 32		/* and end */

/* What an instruction does to registers; 0: not known, or it does not go straight ahead. */
enum {
	OP_NONE = 1,	/* changes none but the condition code */
	OP_R1,		/* changes general register R1, bits 8 to 11, */
	OP_R1_LOW,	/* or in bits 24 to 27 */
	OP_F1,		/* changes floating point register R1, bits 8 to 11, */
	OP_F1_LOW,	/* or in bits 24 to 27 */
	OP_JUMP,	/* branches relative to itself, by a halfword count in bits 16 to 31; or goes on */
	/* In the table of first bytes: the rest of the operation code is in */
	OP_BYTE1 = 0x10,	/* the second byte, in */
	OP_NIBBLE1 = 0x20,	/* its low half, in */
	OP_BYTE5 = 0x40,	/* the last byte of six; in table 1 to 7 of these: */
	OP_TABLE = 0x07,
};

enum { OPS_B9 = 1, OPS_E3, OPS_EB, OPS_EC, OPS_NIBBLE, OPS_B3, OPS_E5, OPS_TABLES };

#define N(first, nibble) ((((first)&0xf) << 4) | (nibble)) /* a5, a7, c0, c2, c4 */

/* What compilers put between the instructions of a prologue, and few others. */
static const u8 s390_ops[OPS_TABLES][256] = {
	[0] = {
		[0x18] = OP_R1, [0x1a] = OP_R1, [0x1b] = OP_R1, [0x14] = OP_R1, [0x28] = OP_F1,
		[0x40] = OP_NONE, [0x41] = OP_R1, [0x42] = OP_NONE, [0x43] = OP_R1,
		[0x48] = OP_R1, [0x50] = OP_NONE, [0x58] = OP_R1, [0x5a] = OP_R1,
		[0x5b] = OP_R1, [0x60] = OP_NONE, [0x68] = OP_F1, [0x70] = OP_NONE,
		[0x78] = OP_F1, [0x91] = OP_NONE, [0x92] = OP_NONE, [0x95] = OP_NONE,
		[0xa5] = OP_NIBBLE1 | OPS_NIBBLE, [0xa7] = OP_NIBBLE1 | OPS_NIBBLE,
		[0xb3] = OP_BYTE1 | OPS_B3, [0xb9] = OP_BYTE1 | OPS_B9,
		[0xc0] = OP_NIBBLE1 | OPS_NIBBLE, [0xc2] = OP_NIBBLE1 | OPS_NIBBLE,
		[0xc4] = OP_NIBBLE1 | OPS_NIBBLE, [0xe3] = OP_BYTE5 | OPS_E3,
		[0xe5] = OP_BYTE1 | OPS_E5, [0xeb] = OP_BYTE5 | OPS_EB,
		[0xec] = OP_BYTE5 | OPS_EC,
	},
	[OPS_B9] = {
		[0x02] = OP_R1_LOW, [0x04] = OP_R1_LOW, [0x06] = OP_R1_LOW, [0x07] = OP_R1_LOW,
		[0x08] = OP_R1_LOW, [0x09] = OP_R1_LOW, [0x0a] = OP_R1_LOW, [0x0b] = OP_R1_LOW,
		[0x12] = OP_R1_LOW, [0x14] = OP_R1_LOW, [0x16] = OP_R1_LOW, [0x17] = OP_R1_LOW,
		[0x18] = OP_R1_LOW, [0x20] = OP_NONE, [0x21] = OP_NONE, [0x30] = OP_NONE,
		[0x31] = OP_NONE, [0x80] = OP_R1_LOW, [0x81] = OP_R1_LOW, [0x82] = OP_R1_LOW,
		[0x84] = OP_R1_LOW, [0x85] = OP_R1_LOW, [0x94] = OP_R1_LOW, [0x95] = OP_R1_LOW,
		[0xe8] = OP_R1_LOW, [0xe9] = OP_R1_LOW, [0xea] = OP_R1_LOW, [0xeb] = OP_R1_LOW,
		[0xf8] = OP_R1_LOW, [0xf9] = OP_R1_LOW,
	},
	[OPS_E3] = {
		[0x02] = OP_R1, [0x04] = OP_R1, [0x08] = OP_R1, [0x09] = OP_R1, [0x0a] = OP_R1,
		[0x0b] = OP_R1, [0x12] = OP_R1, [0x14] = OP_R1, [0x15] = OP_R1, [0x16] = OP_R1,
		[0x20] = OP_NONE, [0x21] = OP_NONE, [0x24] = OP_NONE, [0x30] = OP_NONE,
		[0x31] = OP_NONE, [0x50] = OP_NONE, [0x58] = OP_R1, [0x70] = OP_NONE,
		[0x71] = OP_R1, [0x72] = OP_NONE, [0x76] = OP_R1, [0x77] = OP_R1, [0x78] = OP_R1,
		[0x90] = OP_R1, [0x91] = OP_R1, [0x94] = OP_R1, [0x95] = OP_R1,
	},
	[OPS_EB] = {
		[0x0a] = OP_R1, [0x0b] = OP_R1, [0x0c] = OP_R1, [0x0d] = OP_R1, [0x1c] = OP_R1,
		[0x24] = OP_NONE, [0x52] = OP_NONE, [0x6a] = OP_NONE, [0x7a] = OP_NONE,
		[0xdf] = OP_R1,
	},
	[OPS_EC] = {
		[0x51] = OP_R1, [0x54] = OP_R1, [0x55] = OP_R1, [0x56] = OP_R1, [0x57] = OP_R1,
		[0x59] = OP_R1, [0x5d] = OP_R1, [0xd8] = OP_R1, [0xd9] = OP_R1,
		/* compare and jump: cgrj, clgrj, crj, clrj, cgij, clgij, cij, clij */
		[0x64] = OP_JUMP, [0x65] = OP_JUMP, [0x76] = OP_JUMP, [0x77] = OP_JUMP,
		[0x7c] = OP_JUMP, [0x7d] = OP_JUMP, [0x7e] = OP_JUMP, [0x7f] = OP_JUMP,
	},
	[OPS_NIBBLE] = {
		/* a5: insert, and, or, load logical immediate */
		[N(0xa5, 0) ... N(0xa5, 15)] = OP_R1,
		[N(0xa7, 4)] = OP_JUMP, [N(0xa7, 8)] = OP_R1, [N(0xa7, 9)] = OP_R1,
		[N(0xa7, 10)] = OP_R1, [N(0xa7, 11)] = OP_R1, [N(0xa7, 12)] = OP_R1,
		[N(0xa7, 13)] = OP_R1, [N(0xa7, 14)] = OP_NONE, [N(0xa7, 15)] = OP_NONE,
		[N(0xa7, 0) ... N(0xa7, 3)] = OP_NONE,
		[N(0xc0, 0)] = OP_R1, [N(0xc0, 1)] = OP_R1, [N(0xc0, 6) ... N(0xc0, 15)] = OP_R1,
		[N(0xc2, 4)] = OP_R1, [N(0xc2, 5)] = OP_R1, [N(0xc2, 8) ... N(0xc2, 11)] = OP_R1,
		[N(0xc2, 12) ... N(0xc2, 15)] = OP_NONE,
		[N(0xc4, 2)] = OP_R1, [N(0xc4, 4) ... N(0xc4, 6)] = OP_R1, [N(0xc4, 7)] = OP_NONE,
		[N(0xc4, 8)] = OP_R1, [N(0xc4, 11)] = OP_NONE, [N(0xc4, 12) ... N(0xc4, 14)] = OP_R1,
		[N(0xc4, 15)] = OP_NONE,
	},
	[OPS_B3] = { [0xc1] = OP_F1_LOW, [0xcd] = OP_R1_LOW },
	[OPS_E5] = {
		[0x44] = OP_NONE, [0x48] = OP_NONE, [0x4c] = OP_NONE,
		[0x54 ... 0x5d] = OP_NONE,
	},
};

/* Six bytes at @p, of either byte order of the host. */
static __always_inline u64 code_at(const u8 *p)
{
	return (u64)p[0] << 40 | (u64)p[1] << 32 | (u64)p[2] << 24 | (u64)p[3] << 16 |
	       (u64)p[4] << 8 | p[5];
}

/* The displacement of an instruction of six bytes, signed, 20 bits. */
static __always_inline u64 long_displacement(u64 w)
{
	u64 d = (w & 0xff00) << 4 | (w >> 16 & 0xfff);

	return (d ^ 0x80000) - 0x80000;
}

static __always_inline u32 op_of(const u8 *p)
{
	u32 op = s390_ops[0][p[0]], index;

	if (op < OP_BYTE1)
		return op;
	index = op & OP_BYTE1 ? p[1] : op & OP_NIBBLE1 ? N(p[0], p[1] & 0xf) : p[5];
	return s390_ops[op & OP_TABLE][index & 0xff];
}

/* stg or stmg that saves r14, or a copy of it: it may be overwritten. */
static __always_inline bool keeps_ra(u64 w)
{
	if ((w & 0xff00000000ff) == 0xeb0000000024) /* stmg */
		return (w >> 36 & 0xf) <= 14 && (w >> 32 & 0xf) >= 14;
	if ((w & 0xfff0000000ff) == 0xe3e000000024) /* stg */
		return true;
	return (w >> 16 & 0xffffff0f) == 0xb904000e || (w >> 16 & 0xffffff0f) == 0xb3c1000e;
}

/* Is r15 about to be changed? Then the frame is not allocated yet, unless it is in parts. */
static __always_inline bool sp_moves(const struct scratch *s)
{
	return !s->at_pc.sp_known || s->at_pc.sp != s->frame.sp;
}

/* Register @reg is about to be stored as the back chain. */
static __always_inline int chain_is_stored(struct scratch *s, u32 reg, u32 packed)
{
	struct code_state *c = &s->at_pc;
	u64 value;
	bool known = true;

	asm volatile("" : "+r"(reg));
	if (reg < FPR && !(c->changed >> reg & 1))
		value = s->gprs[reg & 15];
	else if (c->computed == reg)
		value = c->computed_value;
	else
		known = false;
	c->packed = packed;
	c->stored = 1;
	if (known && value == s->frame.sp)
		c->link = LINK_AT_SP; /* the frame is still to be allocated */
	else if (known)
		c->link = c->weak ? LINK_IF_EQUAL : LINK_IS;
	else if (!c->weak && (c->probed || (reg >= FPR && !sp_moves(s))))
		c->link = LINK_LOST;
	c->link_value = known ? value : 0;
	return 1;
}

/* Is the loop from @from to @at, known by its length, one that allocates pages and touches them? */
static __always_inline bool is_clash_loop(const struct scratch *s, u64 at, u64 w)
{
	u64 from, probe;

	if ((w >> 16 & 0xffff) == 0xfff8 && w >> 40 == 0xa7)	/* brc .-16; lay; cg; clgr or cgr */
		from = at - 16, probe = at - 10;
	else if ((w >> 16 & 0xffff) == 0xfffb && w >> 40 == 0xec) /* clgrj .-10; aghi; cg */
		from = at - 10, probe = at - 6;
	else
		return false;
	asm volatile("" : "+r"(from), "+r"(probe));
	if (code_at(s->code + (probe & (CODE_MAX - 1))) != 0xe300fff80020)
		return false;
	w = code_at(s->code + (from & (CODE_MAX - 1)));
	return w == 0xe3f0f000ff71 || w >> 16 == 0xa7fbf000;
}

static __always_inline int code_jumps(struct scratch *s, u64 at, u64 w)
{
	struct code_state *c = &s->at_pc;
	u32 mask = w >> 36 & 0xf;

	if (w >> 40 == 0xa7 && (mask == 15 || !mask))
		return mask == 15;
	if (!(w & 0x80000000)) {
		c->weak = 1;
		return 0;
	}
	if (!is_clash_loop(s, at, w))
		return 1;
	/* There is one way out of it, and that is straight ahead. */
	c->sp_known = 0;
	c->probed = 1;
	return 0;
}

/* cg of the lowest word of what was just allocated: -fstack-clash-protection. */
static __always_inline bool is_probe(const struct scratch *s, u64 w)
{
	u32 r1 = w >> 36 & 0xf;
	u64 d = long_displacement(w);

	if ((w & 0xff00f00000ff) != 0xe300f0000020 || (r1 && r1 != 15))
		return false;
	if (w >> 32 & 0xf)
		return d == -8ULL;
	return s->at_pc.allocated && d + 8 == s->at_pc.allocated;
}

/* What @w makes of a register, if that is r15 plus a constant, or another's value to r15. */
static __always_inline bool code_value(const struct scratch *s, u64 w, u64 *value)
{
	const struct code_state *c = &s->at_pc;
	u64 reg = w >> 16 & 0xf;

	if ((w >> 16 & 0xfffffff0) == 0xb90400f0 && reg != 15) { /* lgr %r15,%rN */
		asm volatile("" : "+r"(reg));
		*value = s->gprs[reg & 15];
		return !(c->changed >> (reg & 15) & 1);
	}
	if ((w & 0xff0ff00000ff) == 0xe300f0000071)		/* lay %rN,D(%r15) */
		*value = c->sp + long_displacement(w);
	else if ((w >> 28 & 0xff0ff) == 0x4100f)		/* la %rN,D(%r15) */
		*value = c->sp + (w >> 16 & 0xfff);
	else if ((w >> 16 & 0xffffff0f) == 0xb904000f ||	/* lgr %rN,%r15 */
		 (w >> 16 & 0xffffff0f) == 0xb3c1000f)		/* ldgr %fN,%r15 */
		*value = c->sp;
	else if (w >> 32 == 0xa7fb)				/* aghi %r15,I */
		*value = c->sp + ((w >> 16 & 0xffff) ^ 0x8000) - 0x8000;
	else if (w >> 32 == 0xc2f8)				/* agfi %r15,I */
		*value = c->sp + ((w & 0xffffffff) ^ 0x80000000) - 0x80000000;
	else
		return false;
	return c->sp_known;
}

/* Register @dest is changed, to @value if that is known. */
static __always_inline void code_sets(struct code_state *c, u32 dest, bool known, u64 value)
{
	if (dest == 15) {
		c->allocated = known && c->sp_known ? c->sp - value : 0;
		c->sp = value;
		c->sp_known = known;
		return;
	}
	if (dest == 14 && !c->kept && !c->weak)
		c->ra_dead = 1;
	c->changed |= 1u << (dest & 31);
	if (known) {
		c->computed = dest;
		c->computed_value = value;
	} else if (c->computed == dest) {
		c->computed = NO_REGISTER;
	}
}

/*
 * Calls, and what loads r14 and others. Where r15 is still the caller's, a call would lose what is
 * saved above it, and r14 is loaded from the place where it was saved.
 */
static __always_inline bool code_ends_ra(struct code_state *c, u64 w, bool moves)
{
	u32 two = w >> 32, r1 = two >> 4 & 0xf;
	bool call = two == 0xc0e5 || (two & 0xfff0) == 0x0de0 ||
		    two == 0xa7e5; /* brasl, basr, bras */
	bool load = (w & 0xff00000000ff) == 0xeb0000000004 && r1 <= 14 &&
		    (two & 0xf) >= 14; /* lmg */

	if (!call && !load)
		return false;
	if (c->weak)
		return true;
	c->ra_dead |= !c->kept;
	c->slot_dead |= !moves && (call || (w & 0xffffff00) != (0xf0000000 | (u64)r1 << 19));
	return true;
}

static __always_inline int arch_code_step(struct scratch *s)
{
	struct code_state *c = &s->at_pc;
	u64 at = c->at, w, len, value = 0;
	const u8 *p;
	u32 op;
	bool known;

	asm volatile("" : "+r"(at));
	p = s->code + (at & (CODE_MAX - 1));
	len = p[0] < 0x40 ? 2 : p[0] < 0xc0 ? 4 : 6;
	if (at + len > c->end)
		return 1;
	c->at = at + len;
	w = code_at(p);
	if (code_ends_ra(c, w, sp_moves(s)))
		return 1;
	if ((w & 0xff0fffffffff) == 0xe300f0000024)		/* stg %rN,0(%r15) */
		return chain_is_stored(s, w >> 36 & 0xf, 0);
	if ((w & 0xff0fffffffff) == 0xe300f0980024)		/* stg %rN,152(%r15): packed */
		return chain_is_stored(s, w >> 36 & 0xf, 1);
	if ((w >> 16 & 0xff0fffff) == 0x6000f000)		/* std %fN,0(%r15) */
		return chain_is_stored(s, FPR + (w >> 36 & 0xf), 0);
	if (w == 0xd707f000f000) {				/* xc 0(8,%r15),0(%r15) */
		if (!c->weak && !sp_moves(s))
			c->link = LINK_LOST;
		return 1;
	}
	op = op_of(p);
	if (!op)
		return 1;
	if (op == OP_JUMP)
		return code_jumps(s, at, w);
	c->probed |= !c->weak && is_probe(s, w);
	c->kept |= keeps_ra(w);
	known = code_value(s, w, &value);
	if (op == OP_R1)
		code_sets(c, w >> 36 & 0xf, known, value);
	else if (op == OP_R1_LOW)
		code_sets(c, w >> 20 & 0xf, known, value);
	else if (op == OP_F1)
		code_sets(c, FPR + (w >> 36 & 0xf), known, value);
	else if (op == OP_F1_LOW)
		code_sets(c, FPR + (w >> 20 & 0xf), known, value);
	return 0;
}

/* The walk ahead ended without a store of the chain. */
static __always_inline void arch_code_end(struct scratch *s)
{
	if (s->at_pc.probed && !s->at_pc.stored)
		s->at_pc.link = LINK_LOST;
}

/*
 * What the instruction at pc, or the one that ends there, proves: enum rprof_how. br %r14 returns;
 * stmg saves r14 in its place; and lmg has restored it, with r15.
 */
static __always_inline int arch_code_begin(struct scratch *s)
{
	struct code_state *c = &s->at_pc;
	u64 w = code_at(s->code + ARCH_CODE_BEFORE),
	    before = code_at(s->code + ARCH_CODE_BEFORE - 6);
	u32 r1 = w >> 36 & 0xf, saved = w >> 16 & 0xfff;

	c->sp = s->frame.sp;
	c->sp_known = 1;
	c->computed = NO_REGISTER;
	c->allocated = 0;
	if (w >> 32 == 0x0aad || w >> 32 == 0x0a77)		/* svc 173, svc 119 */
		return RPROF_HOW_SIGNAL;
	if ((w >> 32 & 0xff0f) == 0x070e && r1)			/* br %r14 */
		return RPROF_HOW_RA;
	if ((w & 0xff00f000ffff) == 0xeb00f0000024 && r1 <= 14 && (w >> 32 & 0xf) >= 14 &&
	    (saved == 8 * r1 || saved == 8 * r1 + 24))		/* stmg %rN,%r15,8*N(%r15) */
		return RPROF_HOW_RA;
	r1 = before >> 36 & 0xf;
	if ((before & 0xff0f000000ff) == 0xeb0f00000004 && r1 <= 14 &&
	    ((before >> 28 & 0xf) == 15 || (before >> 28 & 0xf) == 11)) /* lmg %rN,%r15,D */
		return RPROF_HOW_RA;
	if ((before & 0xfffff00000ff) == 0xe3f0f0000071)	/* lay %r15,-N(%r15) */
		c->allocated = -long_displacement(before);
	else if ((before & 0xffff8000) == 0xa7fb8000)		/* aghi %r15,-N */
		c->allocated = 0x10000 - (before & 0xffff);
	return RPROF_HOW_PC;
}

#endif
