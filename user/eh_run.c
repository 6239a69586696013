/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table program of one function: DWARF 5, 6.4.2. Only the CFA, the frame pointer and the return
 * address are followed; the rules of other registers are read over. Nothing is sized by the file.
 */
#include <dwarf.h>

#include "arch.h"
#include "eh_entry.h"

#define MAX_PROGRAM (1u << 20)	/* bytes of one function; 20 KiB were seen */
#define MAX_REMEMBERED 16	/* DW_CFA_remember_state; compilers nest one */
#define MAX_EXPRESSION 64	/* bytes; a PLT's has 11 */

enum cfa_kind { CFA_NONE, CFA_REGISTER, CFA_EXPRESSION };

/* What a row says, and what remember_state remembers. */
struct state {
	enum cfa_kind cfa;
	__u64 cfa_reg;
	__s64 cfa_offset;
	struct reader cfa_expression;
	struct eh_rule fp;
	struct eh_rule ra;
};

struct machine {
	const struct eh_cie *cie;
	struct reader r;
	const unsigned char *base;	/* r's first byte, at base_vaddr */
	__u64 base_vaddr;
	__u64 pc;			/* what is asked for */
	__u64 row_start;
	__u64 row_end;
	bool done;			/* the next row is beyond pc */
	eh_row_visit *visit;		/* NULL, or who is shown all rows: */
	void *arg;
	struct state now;
	struct state initial;		/* after the CIE's program */
	struct state remembered[MAX_REMEMBERED];
	unsigned int n_remembered;
};

static struct eh_rule *rule_of(struct machine *m, struct state *s, __u64 reg)
{
	if (reg == ARCH_REG_FP)
		return &s->fp;
	if (reg == m->cie->ra_reg)
		return &s->ra;
	return NULL;
}

static void set_rule(struct machine *m, __u64 reg, enum eh_rule_kind kind, __s64 value)
{
	struct eh_rule *rule = rule_of(m, &m->now, reg);

	if (rule)
		*rule = (struct eh_rule){ kind, value };
}

static void restore_rule(struct machine *m, __u64 reg)
{
	struct eh_rule *rule = rule_of(m, &m->now, reg);

	if (rule)
		*rule = *rule_of(m, &m->initial, reg);
}

static __s64 times(__u64 factor, __s64 by)
{
	return (__s64)(factor * (__u64)by);
}

static void fill_row(const struct machine *m, __u64 pc, struct eh_row *row);

static void show_row(struct machine *m, __u64 end)
{
	struct eh_row row;

	m->row_end = end;
	fill_row(m, m->row_start, &row);
	m->done = !m->visit(m->arg, &row);
}

static void move_to(struct machine *m, __u64 loc)
{
	/* Rows only go up; one that does not is nothing to rely on. */
	if (loc < m->row_start) {
		m->r.bad = true;
		return;
	}
	if (m->visit && loc > m->row_start)
		show_row(m, loc);
	if (loc > m->pc) {
		m->row_end = loc;
		m->done = true;
		return;
	}
	m->row_start = loc;
}

static void advance(struct machine *m, __u64 delta)
{
	move_to(m, m->row_start + delta * m->cie->code_align);
}

/* A block of DWARF expression: length, bytes. */
static struct reader take_block(struct machine *m)
{
	__u64 len = reader_uleb(&m->r);
	const unsigned char *bytes = reader_take(&m->r, len);

	return bytes ? (struct reader){ bytes, bytes + len, false } : (struct reader){ 0 };
}

/*
 * "Saved at the address in the frame pointer": what GCC says of a function that realigns its stack,
 * whose CFA is an expression.
 */
static void set_expression(struct machine *m, __u64 reg)
{
	struct reader e = take_block(m);
	bool at_fp = reader_left(&e) == 2 && reader_u8(&e) == DW_OP_breg0 + ARCH_REG_FP &&
		     reader_u8(&e) == 0;

	set_rule(m, reg, at_fp ? EH_AT_FP : EH_OTHER, 0);
}

static void set_cfa(struct machine *m, __u64 reg, __s64 offset)
{
	m->now.cfa = CFA_REGISTER;
	m->now.cfa_reg = reg;
	m->now.cfa_offset = offset;
}

static void remember(struct machine *m)
{
	if (m->n_remembered == MAX_REMEMBERED)
		m->r.bad = true;
	else
		m->remembered[m->n_remembered++] = m->now;
}

static void recall(struct machine *m)
{
	if (!m->n_remembered)
		m->r.bad = true;
	else
		m->now = m->remembered[--m->n_remembered];
}

/* Instructions whose operand is in the low six bits. */
static bool step_primary(struct machine *m, __u8 op)
{
	__u8 low = op & 0x3f;

	switch (op & 0xc0) {
	case DW_CFA_advance_loc:
		advance(m, low);
		return true;
	case DW_CFA_offset:
		set_rule(m, low, EH_AT_CFA, times(reader_uleb(&m->r), m->cie->data_align));
		return true;
	case DW_CFA_restore:
		restore_rule(m, low);
		return true;
	default:
		return false;
	}
}

static void step_cfa(struct machine *m, __u8 op)
{
	__u64 reg;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = reader_uleb(&m->r);
		set_cfa(m, reg, (__s64)reader_uleb(&m->r));
		break;
	case DW_CFA_def_cfa_sf:
		reg = reader_uleb(&m->r);
		set_cfa(m, reg, times((__u64)reader_sleb(&m->r), m->cie->data_align));
		break;
	case DW_CFA_def_cfa_register:
		m->now.cfa_reg = reader_uleb(&m->r);
		break;
	case DW_CFA_def_cfa_offset:
		m->now.cfa_offset = (__s64)reader_uleb(&m->r);
		break;
	case DW_CFA_def_cfa_offset_sf:
		m->now.cfa_offset = times((__u64)reader_sleb(&m->r), m->cie->data_align);
		break;
	case DW_CFA_def_cfa_expression:
		m->now.cfa = CFA_EXPRESSION;
		m->now.cfa_expression = take_block(m);
		break;
	default:
		m->r.bad = true;
	}
}

static void step_register(struct machine *m, __u8 op)
{
	__u64 reg = reader_uleb(&m->r);

	switch (op) {
	case DW_CFA_undefined:
		set_rule(m, reg, EH_UNDEFINED, 0);
		break;
	case DW_CFA_same_value:
		set_rule(m, reg, EH_SAME, 0);
		break;
	case DW_CFA_restore_extended:
		restore_rule(m, reg);
		break;
	case DW_CFA_offset_extended:
		set_rule(m, reg, EH_AT_CFA, times(reader_uleb(&m->r), m->cie->data_align));
		break;
	case DW_CFA_offset_extended_sf:
		set_rule(m, reg, EH_AT_CFA, times((__u64)reader_sleb(&m->r), m->cie->data_align));
		break;
	case DW_CFA_expression:
		set_expression(m, reg);
		break;
	case DW_CFA_val_expression:
		take_block(m);
		set_rule(m, reg, EH_OTHER, 0);
		break;
	case DW_CFA_register:
	case DW_CFA_val_offset:
	case DW_CFA_val_offset_sf: /* one LEB128 operand each, whatever its sign */
		reader_uleb(&m->r);
		set_rule(m, reg, EH_OTHER, 0);
		break;
	default:
		m->r.bad = true;
	}
}

static void step(struct machine *m)
{
	__u8 op = reader_u8(&m->r);

	if (step_primary(m, op))
		return;
	switch (op) {
	case DW_CFA_nop:
		break;
	case DW_CFA_set_loc:
		move_to(m, eh_read_pointer(&m->r, m->cie->encoding,
					   m->base_vaddr + (__u64)(m->r.at - m->base)));
		break;
	case DW_CFA_advance_loc1:
		advance(m, reader_u8(&m->r));
		break;
	case DW_CFA_advance_loc2:
		advance(m, reader_u16(&m->r));
		break;
	case DW_CFA_advance_loc4:
		advance(m, reader_u32(&m->r));
		break;
	case DW_CFA_remember_state:
		remember(m);
		break;
	case DW_CFA_restore_state:
		recall(m);
		break;
	case DW_CFA_GNU_args_size:
		reader_uleb(&m->r);
		break;
	case DW_CFA_def_cfa:
	case DW_CFA_def_cfa_register:
	case DW_CFA_def_cfa_offset:
	case DW_CFA_def_cfa_expression:
	case DW_CFA_def_cfa_sf:
	case DW_CFA_def_cfa_offset_sf:
		step_cfa(m, op);
		break;
	default:
		step_register(m, op);
	}
}

static bool run(struct machine *m, const struct reader *program, __u64 vaddr)
{
	if (reader_left(program) > MAX_PROGRAM)
		return false;
	m->r = *program;
	m->base = program->at;
	m->base_vaddr = vaddr;
	while (reader_left(&m->r) && !m->r.bad && !m->done)
		step(m);
	return !m->r.bad;
}

/* Value of @e with the stack pointer at @sp, for what the rules of a PLT consist of. */
static bool evaluate(struct reader e, __u64 sp, __u64 pc, __u64 *value)
{
	__u64 stack[MAX_EXPRESSION + 1];
	size_t n = 0;

	if (reader_left(&e) > MAX_EXPRESSION)
		return false;
	while (reader_left(&e)) {
		__u8 op = reader_u8(&e);

		if (op == DW_OP_breg0 + ARCH_REG_SP) {
			stack[n++] = sp + (__u64)reader_sleb(&e);
			continue;
		}
		if (op == DW_OP_breg0 + ARCH_REG_RA) {
			stack[n++] = pc + (__u64)reader_sleb(&e);
			continue;
		}
		if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
			stack[n++] = op - DW_OP_lit0;
			continue;
		}
		if (n-- < 2)
			return false;
		switch (op) {
		case DW_OP_and:
			stack[n - 1] &= stack[n];
			break;
		case DW_OP_plus:
			stack[n - 1] += stack[n];
			break;
		case DW_OP_ge:
			stack[n - 1] = (__s64)stack[n - 1] >= (__s64)stack[n];
			break;
		case DW_OP_shl:
			stack[n - 1] = stack[n] < 64 ? stack[n - 1] << stack[n] : 0;
			break;
		default:
			return false;
		}
	}
	if (e.bad || n != 1)
		return false;
	*value = stack[0];
	return true;
}

/* Is @e, at @pc, sp + a number? Asked with two stacks far from each other. */
static bool is_sp_plus(const struct reader *e, __u64 pc, __s64 *offset)
{
	const __u64 low = 1ULL << 20, high = (1ULL << 40) + 4096;
	__u64 a, b;

	if (!evaluate(*e, low, pc, &a) || !evaluate(*e, high, pc, &b) || a - low != b - high)
		return false;
	*offset = (__s64)(a - low);
	return true;
}

static void fill_row(const struct machine *m, __u64 pc, struct eh_row *row)
{
	*row = (struct eh_row){
		.start = m->row_start,
		.end = m->row_end,
		.cfa_known = m->now.cfa == CFA_REGISTER,
		.cfa_reg = m->now.cfa_reg,
		.cfa_offset = m->now.cfa_offset,
		.fp = m->now.fp,
		.ra = m->now.ra,
		.signal_frame = m->cie->signal_frame,
	};
	if (m->now.cfa == CFA_EXPRESSION) {
		row->cfa_reg = ARCH_REG_SP;
		row->cfa_known = is_sp_plus(&m->now.cfa_expression, pc, &row->cfa_offset);
	}
}

/* What the CIE says: the rules at the function's start. */
static bool begin(struct machine *m, const struct eh_fde *fde)
{
	*m = (struct machine){ .cie = &fde->cie, .pc = ~0ULL, .row_end = fde->end };
	/* Callee-saved, so untouched until a rule says otherwise; the CIE says where ra is. */
	m->now.fp.kind = EH_SAME;
	if (!run(m, &fde->cie.program, 0) || m->row_start)
		return false;
	m->initial = m->now;
	m->row_start = fde->start;
	return true;
}

bool eh_run(const struct eh_fde *fde, __u64 pc, struct eh_row *row)
{
	struct machine m;

	if (!begin(&m, fde))
		return false;
	m.pc = pc;
	if (!run(&m, &fde->program, fde->program_vaddr))
		return false;
	fill_row(&m, pc, row);
	return true;
}

bool eh_run_all(const struct eh_fde *fde, eh_row_visit *visit, void *arg)
{
	struct machine m;

	if (!begin(&m, fde))
		return false;
	m.visit = visit;
	m.arg = arg;
	if (!run(&m, &fde->program, fde->program_vaddr))
		return false;
	if (!m.done && m.row_start < fde->end)
		show_row(&m, fde->end);
	return true;
}
