// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One pass over the instructions in their order. A frame is allocated where sp goes down; from there
 * to the store of the old sp at [sp], the window, the frame is not linked. In a window control may
 * only go round the loops that probe the stack (-fstack-clash-protection): so every path from an
 * allocation passes its store, and wherever else the rows say that there is a frame, it is linked.
 * What stores is believed only if the register provably holds the old sp. z/Architecture Principles
 * of Operation; s390x ELF ABI supplement 1.6, "the stack frame"; GCC's s390_emit_prologue().
 */
#include "chain_scan.h"

#include <string.h>

#define SP 15			/* by DWARF number as well */
#define FP 11
#define RA 14
#define SAVE_AREA 160		/* of the caller, between its sp and the CFA */
#define PACKED_LINK 152
#define CALL_CLOBBERED ((1u << RA) | 0x3f)
#define MAX_SIDES 4		/* probes that were moved out of line, of one window */
#define MAX_SIDE_STEPS 8

struct scan {
	const struct chain_input *in;
	const struct chain_sink *sink;
	size_t at;			/* of the instruction at hand, in code */
	size_t row;			/* its row; n_rows: none */
	unsigned int gprs, fprs;	/* that hold the caller's sp */
	int base;			/* a register equal to sp; 0: none */
	bool open;			/* in a window: */
	__u64 open_at;
	__u64 held_at;			/* the last instruction that put the caller's sp in a register */
	__u64 sides[MAX_SIDES];		/* where it jumps ahead to */
	unsigned int n_sides;
	bool saved_ra;			/* at [sp + 160] */
	bool freed;
	__u64 freed_at;
	bool lost;
	bool enough;			/* says the sink */
	unsigned int n_links, n_packed, n_wrapped;
	bool has_frame;
};

/* An instruction: its length is in the first two bits. */
static size_t length_of(const unsigned char *p)
{
	return p[0] < 0x40 ? 2 : p[0] < 0xc0 ? 4 : 6;
}

static unsigned int high(unsigned char byte)
{
	return byte >> 4;
}

static unsigned int low(unsigned char byte)
{
	return byte & 15;
}

static __s64 signed16(const unsigned char *p)
{
	return (__s16)(p[0] << 8 | p[1]);
}

static __s64 signed32(const unsigned char *p)
{
	return (__s32)((__u32)p[0] << 24 | (__u32)p[1] << 16 | (__u32)p[2] << 8 | p[3]);
}

/* Displacement of a long format: 12 low bits, then 8 high ones with the sign. */
static __s64 long_displacement(const unsigned char *p)
{
	return (__s64)(__s8)p[4] * 4096 + (low(p[2]) << 8 | p[3]);
}

/* Opcodes in two parts: formats RXY, RSY, RIE; RI and RIL have the second in the second byte. */
static bool is_long(const unsigned char *p, unsigned char op, unsigned char op2)
{
	return p[0] == op && p[5] == op2;
}

static bool is_split(const unsigned char *p, unsigned char op, unsigned int op2)
{
	return p[0] == op && low(p[1]) == op2;
}

static bool is_rre(const unsigned char *p, unsigned char op, unsigned char op2)
{
	return p[0] == op && p[1] == op2;
}

static bool is_load_address(const unsigned char *p, __s64 *displacement)
{
	if (p[0] == 0x41) { /* la */
		*displacement = low(p[2]) << 8 | p[3];
		return true;
	}
	if (is_long(p, 0xe3, 0x71)) { /* lay */
		*displacement = long_displacement(p);
		return true;
	}
	return false;
}

static __u64 pc_of(const struct scan *s)
{
	return s->in->vaddr + s->at;
}

/* The row at the instruction at hand; rows are met in order. */
static const struct eh_row *row_at(struct scan *s, __u64 pc)
{
	const struct chain_input *in = s->in;

	while (s->row < in->n_rows && in->rows[s->row].end <= pc)
		s->row++;
	return s->row < in->n_rows && in->rows[s->row].start <= pc ? &in->rows[s->row] : NULL;
}

bool chain_is_allocated(const struct eh_row *row)
{
	return row->cfa_known && row->ra.kind != EH_UNDEFINED && row->cfa_offset != SAVE_AREA;
}

static bool is_allocated(const struct eh_row *row)
{
	return row && chain_is_allocated(row);
}

/* Does register @reg + @displacement give the caller's sp, says the row? */
static bool is_callers_sp(const struct eh_row *row, unsigned int reg, __s64 displacement)
{
	return row && row->cfa_known && row->cfa_reg == reg &&
	       row->cfa_offset - SAVE_AREA == displacement;
}

/* How an instruction changes sp. */
enum move { MOVE_NONE, MOVE_DOWN, MOVE_UP };

/* Adds a number: by its sign. */
static enum move move_by(__s64 delta)
{
	return delta < 0 ? MOVE_DOWN : MOVE_UP;
}

static enum move move_of(const unsigned char *p, __s64 *delta)
{
	*delta = 0;
	if (is_load_address(p, delta) && high(p[1]) == SP)
		return high(p[2]) == SP && !low(p[1]) ? move_by(*delta) : MOVE_DOWN;
	if (is_split(p, 0xa7, 0xb) && high(p[1]) == SP) /* aghi */
		return move_by(*delta = signed16(p + 2));
	if (is_split(p, 0xc2, 8) && high(p[1]) == SP) /* agfi */
		return move_by(*delta = signed32(p + 2));
	if (is_long(p, 0xec, 0xd9) && high(p[1]) == SP) /* aghik */
		return low(p[1]) == SP ? move_by(*delta = signed16(p + 2)) : MOVE_DOWN;
	/* lmg, lg, lgdr: the old one comes back. */
	if ((is_long(p, 0xeb, 4) && low(p[1]) == SP) || (is_long(p, 0xe3, 4) && high(p[1]) == SP) ||
	    (is_rre(p, 0xb3, 0xcd) && high(p[3]) == SP))
		return MOVE_UP;
	/* lgr, and whatever else computes: register formats, immediates, rotations. */
	if (p[0] == 0xb9 && high(p[3]) == SP && p[1] != 0x20 && p[1] != 0x21 && p[1] != 0x30 &&
	    p[1] != 0x31) /* not cgr, clgr, cgfr, clgfr */
		return MOVE_DOWN;
	if ((p[0] == 0xa5 || is_split(p, 0xc2, 4) || is_split(p, 0xc2, 10) || p[0] == 0xc0) &&
	    high(p[1]) == SP && !is_split(p, 0xc0, 4) && low(p[1]) < 12)
		return MOVE_DOWN;
	return (is_long(p, 0xec, 0x55) || is_long(p, 0xec, 0x59)) && high(p[1]) == SP ? MOVE_DOWN :
											MOVE_NONE;
}

enum flow { FLOW_ON, FLOW_CALL, FLOW_BRANCH, FLOW_JUMP, FLOW_RETURN };

/* Relative branches: condition, count, index, compare. @distance: in bytes */
static bool is_relative(const unsigned char *p, __s64 *distance)
{
	if ((p[0] == 0xa7 && low(p[1]) >= 4 && low(p[1]) <= 7) || p[0] == 0x84 || p[0] == 0x85) {
		*distance = 2 * signed16(p + 2);
		return true;
	}
	if (is_split(p, 0xc0, 4) || is_split(p, 0xc0, 5) || is_split(p, 0xcc, 6)) {
		*distance = 2 * signed32(p + 2);
		return true;
	}
	if (p[0] == 0xec && (p[5] == 0x44 || p[5] == 0x45 || p[5] == 0x64 || p[5] == 0x65 ||
			     p[5] == 0x76 || p[5] == 0x77 || (p[5] >= 0x7c && p[5] <= 0x7f))) {
		*distance = 2 * signed16(p + 2);
		return true;
	}
	return false;
}

static enum flow flow_of(const unsigned char *p, __s64 *distance)
{
	if (is_relative(p, distance)) {
		if (is_split(p, 0xa7, 5) || is_split(p, 0xc0, 5)) /* bras, brasl */
			return FLOW_CALL;
		if (is_split(p, 0xa7, 4) || is_split(p, 0xc0, 4)) /* brc, brcl: mask 0 is a nop */
			return high(p[1]) == 15 ? FLOW_JUMP :
			       high(p[1]) == 0	? FLOW_ON :
						  FLOW_BRANCH;
		return FLOW_BRANCH;
	}
	if (p[0] == 0x07 && low(p[1]) && high(p[1])) /* bcr */
		return high(p[1]) == 15 ? FLOW_RETURN : FLOW_ON;
	if (p[0] == 0x0d && low(p[1])) /* basr */
		return FLOW_CALL;
	if (is_long(p, 0xe3, 0x47) && high(p[1])) /* bic */
		return high(p[1]) == 15 ? FLOW_RETURN : FLOW_ON;
	if (p[0] == 0x47 || p[0] == 0x45 || p[0] == 0x4d) /* bc, bal, bas */
		return FLOW_RETURN;
	return FLOW_ON;
}

/* Does it change two registers, or more: multiply, divide, shift double, move long, translate? */
static bool is_pair(const unsigned char *p)
{
	switch (p[0]) {
	case 0xb9:
		return p[1] == 0x0d || p[1] == 0x1d || (p[1] >= 0x80 && p[1] <= 0xbf) ||
		       p[1] == 0xec;
	case 0xe3:
		return (p[5] >= 0x80 && p[5] <= 0x8f) || p[5] >= 0x96 || p[5] == 0x0d ||
		       p[5] == 0x1d || p[5] == 0x5c;
	case 0xeb:
		return !(p[5] >= 0x0a && p[5] <= 0x1d) && p[5] < 0xdc;
	default:
		return p[0] == 0x0e || p[0] == 0x0f || p[0] == 0x1c || p[0] == 0x1d ||
		       p[0] == 0x5c || p[0] == 0x5d || (p[0] >= 0x8c && p[0] <= 0x8f) ||
		       p[0] == 0xa8 || p[0] == 0xa9 || p[0] == 0xb2 || p[0] == 0xbb;
	}
}

/* Registers that an instruction may change; more rather than less. */
static unsigned int touched(const unsigned char *p, size_t length)
{
	const bool is_rre = length == 4 && (p[0] == 0xb2 || p[0] == 0xb3 || p[0] == 0xb9);
	unsigned int r = high(is_rre ? p[3] : p[1]), mask = 1u << r;

	/* Memory to memory; immediate to memory; branches on a condition. */
	if (high(p[0]) == 0xd || p[0] == 0xe5 || (p[0] >= 0x91 && p[0] <= 0x97) ||
	    is_split(p, 0xa7, 4) || is_split(p, 0xc0, 4))
		return 0;
	/* lm, lmg, lmh, lmy: from the first to the third operand. */
	if (p[0] == 0x98 || is_long(p, 0xeb, 4) || is_long(p, 0xeb, 0x96) ||
	    is_long(p, 0xeb, 0x98)) {
		for (; r != low(p[1]); r = (r + 1) & 15)
			mask |= 1u << r;
		return mask | 1u << r;
	}
	if (!is_pair(p))
		return mask;
	mask |= 1u << (r | 1) | 1u << low(is_rre ? p[3] : p[1]);
	return mask | 1u << (low(is_rre ? p[3] : p[1]) | 1);
}

/* stg %rN,D(%r15), std %fN,D(%r15) of a register that holds the caller's sp. */
static bool is_link(const struct scan *s, const unsigned char *p, __s64 *place)
{
	const bool long_store = is_long(p, 0xe3, 0x24), fp_store = p[0] == 0x60;
	const unsigned int holding = fp_store ? s->fprs : s->gprs;

	if ((!long_store && !fp_store) || low(p[1]) || !(holding & 1u << high(p[1])))
		return false;
	*place = fp_store ? (__s64)(low(p[2]) << 8 | p[3]) : long_displacement(p);
	if (high(p[2]) != SP && !(s->base && high(p[2]) == (unsigned int)s->base))
		return false;
	return *place == 0 || *place == PACKED_LINK;
}

/* What is told of single places stays true. */
static void give_up(struct scan *s)
{
	s->lost = true;
	s->open = false;
}

static void tell_span(struct scan *s, __u64 start, __u64 end, enum chain_span_kind kind)
{
	const struct chain_span span = { start, end, kind };

	if (start < end && !s->sink->span(s->sink->arg, &span))
		s->lost = s->enough = true;
}

/*
 * A probe out of line: it must come back into the window, or store the link itself, before anything
 * else happens.
 */
static bool follow_side(struct scan *s, __u64 start, __u64 link)
{
	size_t at = start - s->in->vaddr;

	for (int i = 0; i < MAX_SIDE_STEPS && at + 2 <= s->in->size; i++) {
		const unsigned char *p = s->in->code + at;
		size_t length = length_of(p);
		__s64 distance = 0, place;
		enum flow flow;

		if (length > s->in->size - at || move_of(p, &distance))
			return false;
		flow = flow_of(p, &distance);
		at += length;
		if (is_link(s, p, &place) ||
		    (flow == FLOW_JUMP &&
		     s->in->vaddr + at - length + (__u64)distance >= s->open_at &&
		     s->in->vaddr + at - length + (__u64)distance <= link)) {
			tell_span(s, start, s->in->vaddr + at, CHAIN_AHEAD);
			return true;
		}
		if (flow != FLOW_ON)
			return false;
	}
	return false;
}

/* The link was stored by the instruction at hand, which ends at @end. */
static void close_window(struct scan *s, __u64 end)
{
	tell_span(s, s->open_at, end, CHAIN_AHEAD);
	for (unsigned int i = 0; i < s->n_sides; i++) {
		if (s->sides[i] > pc_of(s) && !follow_side(s, s->sides[i], pc_of(s)))
			give_up(s);
	}
	s->open = false;
	s->n_sides = 0;
}

static void open_window(struct scan *s, __u64 next)
{
	s->has_frame = true;
	s->base = 0;
	if (s->open)
		return;
	s->open = true;
	s->open_at = next;
	s->n_sides = 0;
	s->saved_ra = false;
}

/* Round a loop that probes; ahead to its end, or to a probe out of line. */
static void jump_in_window(struct scan *s, enum flow flow, __u64 target)
{
	if ((flow != FLOW_BRANCH && flow != FLOW_JUMP) ||
	    (flow == FLOW_JUMP && target > pc_of(s)) || target <= s->held_at) {
		give_up(s);
		return;
	}
	if (target < s->open_at) {
		/* What is before the window runs in it from now on, and did not read the link. */
		s->open_at = target;
		return;
	}
	if (target <= pc_of(s))
		return;
	if (s->n_sides == MAX_SIDES || target - s->in->vaddr >= s->in->size)
		give_up(s);
	else
		s->sides[s->n_sides++] = target;
}

static void end_freed(struct scan *s, __u64 end)
{
	if (s->freed)
		tell_span(s, s->freed_at, end, CHAIN_FREED);
	s->freed = false;
}

/*
 * sp went up. Where the rows know it, there is nothing to be said; clang's do not have the ends of
 * functions. There it must be the whole frame.
 */
static void release(struct scan *s, const unsigned char *p, __s64 delta, const struct eh_row *row,
		    const struct eh_row *next_row, __u64 next)
{
	const bool whole = is_long(p, 0xeb, 4) ||
			   (row->cfa_reg == SP && delta == row->cfa_offset - SAVE_AREA);

	if (s->open) {
		give_up(s);
		return;
	}
	/*
	 * GCC's row of a freed frame begins too early where it restores sp from a floating-point
	 * register, behind other such restores.
	 */
	if (!is_allocated(row) && row > s->in->rows && is_allocated(row - 1)) {
		tell_span(s, row->start, next, CHAIN_HELD);
		return;
	}
	if (!is_allocated(next_row) || next_row->cfa_reg != row->cfa_reg ||
	    next_row->cfa_offset != row->cfa_offset)
		return;
	if (!whole && row->cfa_reg == FP) {
		/* The end of the block that a variable-length array was in. */
		open_window(s, next);
		return;
	}
	if (!whole) {
		give_up(s);
		return;
	}
	s->freed = true;
	s->freed_at = next;
}

/* Which registers hold the caller's sp after the instruction at hand. */
static void follow_copies(struct scan *s, const unsigned char *p, size_t length,
			  const struct eh_row *row)
{
	const unsigned int reg = length == 4 && (p[0] == 0xb9 || p[0] == 0xb3) ? high(p[3]) :
										 high(p[1]);
	const bool stores = is_long(p, 0xe3, 0x24) || is_long(p, 0xeb, 0x24) || p[0] == 0x60;
	bool holds = false, fp = false;
	__s64 displacement;

	if (is_rre(p, 0xb9, 4)) /* lgr */
		holds = is_callers_sp(row, low(p[3]), 0) || (s->gprs & 1u << low(p[3]));
	else if (is_rre(p, 0xb3, 0xc1)) /* ldgr */
		fp = holds = is_callers_sp(row, low(p[3]), 0) || (s->gprs & 1u << low(p[3]));
	else if (is_load_address(p, &displacement) && !low(p[1]))
		holds = is_callers_sp(row, high(p[2]), displacement);
	else if (is_long(p, 0xe3, 4) && p[1] == (reg << 4) && high(p[2]) == SP) /* lg */
		holds = is_allocated(row) && !s->open && !s->freed &&
			(long_displacement(p) == 0 || long_displacement(p) == PACKED_LINK);
	if (!stores) {
		s->gprs &= ~touched(p, length);
		if (s->base && (touched(p, length) & 1u << s->base))
			s->base = 0;
	}
	if (!stores &&
	    (p[0] == 0xb3 || p[0] == 0x28 || p[0] == 0x68 || p[0] == 0xed || p[0] == 0xe7))
		s->fprs &= ~(1u << reg);
	if (holds)
		s->held_at = pc_of(s);
	if (holds && fp)
		s->fprs |= 1u << reg;
	else if (holds && reg != SP)
		s->gprs |= 1u << reg;
}

static void store_link(struct scan *s, const unsigned char *p, __u64 next)
{
	__s64 place;

	if (is_link(s, p, &place)) {
		s->n_links++;
		s->n_packed += place == PACKED_LINK;
		if (s->open)
			close_window(s, next);
		return;
	}
	if (!memcmp(p, "\xe3\xe0\xf0\xa0\x00\x24", 6)) /* stg %r14,160(%r15) */
		s->saved_ra = true;
}

static void follow_flow(struct scan *s, const unsigned char *p, const struct eh_row *row,
			__u64 next)
{
	__s64 distance = 0;
	enum flow flow = flow_of(p, &distance);
	__u64 target = pc_of(s) + (__u64)distance;

	if (flow == FLOW_ON)
		return;
	/* arch/s390/kernel/vdso/vdso_user_wrapper.S: who called is known in another way. */
	if (s->open && s->saved_ra && flow == FLOW_CALL) {
		s->n_wrapped++;
		close_window(s, pc_of(s));
	}
	if (s->open)
		jump_in_window(s, flow, target);
	if (flow == FLOW_CALL) {
		s->gprs &= ~CALL_CLOBBERED;
		s->fprs = 0;
		return;
	}
	if ((flow == FLOW_BRANCH || flow == FLOW_JUMP) && !s->freed && is_allocated(row) &&
	    target - s->in->vaddr >= s->in->size && !s->sink->leaves(s->sink->arg, target))
		s->lost = s->enough = true;
	if (flow == FLOW_BRANCH || s->open)
		return;
	/* What comes next is reached from elsewhere. */
	end_freed(s, next);
	s->gprs = s->fprs = 0;
	s->base = 0;
}

/* Has the frame grown, says the row, by an instruction that we did not see do it? */
static bool grew(const struct eh_row *row, const struct eh_row *next)
{
	return row && next && row->cfa_known && next->cfa_known && row->cfa_reg == SP &&
	       next->cfa_reg == SP && next->cfa_offset > row->cfa_offset;
}

static void step(struct scan *s, const unsigned char *p, size_t length)
{
	const struct eh_row *row = row_at(s, pc_of(s)), *next_row;
	const __u64 next = pc_of(s) + length;
	__s64 delta, distance;
	enum move move = move_of(p, &delta);
	enum flow flow = flow_of(p, &distance);
	size_t at = s->row;

	if (!row) {
		s->lost = s->enough = true;
		return;
	}
	s->has_frame |= is_allocated(row);
	next_row = row_at(s, next);
	follow_copies(s, p, length, row);
	if (move == MOVE_DOWN) {
		open_window(s, next);
		if (is_rre(p, 0xb9, 4))
			s->base = (int)low(p[3]);
	} else if (move == MOVE_UP) {
		release(s, p, delta, row, next_row, next);
	} else if (grew(row, next_row) && flow != FLOW_JUMP && flow != FLOW_RETURN) {
		give_up(s);
	}
	if (length == 6 || length == 4)
		store_link(s, p, next);
	s->row = at;
	follow_flow(s, p, row, next);
}

static enum chain_keeping verdict(const struct scan *s, bool moves)
{
	if (s->lost || s->open)
		return CHAIN_LOST;
	if (!s->has_frame)
		return CHAIN_NO_FRAME;
	if (!moves)
		return CHAIN_INHERITED;
	if (s->n_wrapped)
		return s->n_links ? CHAIN_LOST : CHAIN_WRAPPER;
	if (s->n_packed)
		return s->n_packed == s->n_links ? CHAIN_KEPT_PACKED : CHAIN_LOST;
	return CHAIN_KEPT;
}

enum chain_keeping chain_scan(const struct chain_input *in, const struct chain_sink *sink)
{
	struct scan s = { .in = in, .sink = sink };
	unsigned char p[6];
	bool moves = false;
	size_t length;

	for (; s.at + 2 <= in->size && !s.enough; s.at += length) {
		length = length_of(in->code + s.at);
		if (length > in->size - s.at)
			break;
		memset(p, 0, sizeof(p));
		memcpy(p, in->code + s.at, length);
		step(&s, p, length);
		moves |= s.open;
	}
	end_freed(&s, in->vaddr + in->size);
	return verdict(&s, moves);
}
