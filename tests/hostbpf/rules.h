/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules of include/rprof/record.h, written a second time and from the producer's side, which
 * promises more than a consumer may rely on. Never shared with user/record.c.
 */
#ifndef RPROF_HOSTBPF_RULES_H
#define RPROF_HOSTBPF_RULES_H

#include <string.h>

#include "hostbpf.h"

/* The entry that says where a fault ended the walk: last, in a bound stack, after a frame. */
static inline bool is_next(const struct rprof_stack *s, const struct rprof_native_frame *f, u32 i)
{
	return f[i].flags & RPROF_NATIVE_NEXT && i && i + 1u == s->n_native &&
	       s->stop_native == RPROF_STOP_FAULT && (f[i].flags & 0xffff) == RPROF_NATIVE_NEXT &&
	       s->space && !(f[i - 1].flags & RPROF_NATIVE_UNBOUND) && f[i].flags >> 16 < f[i].pc;
}

static inline bool is_native_stop(u8 stop)
{
	return stop <= RPROF_STOP_KSTACK || stop == RPROF_STOP_OTHER_NS ||
	       stop == RPROF_STOP_UNLINKED;
}

static inline bool is_candidate_word(u64 how)
{
	return how == RPROF_HOW_WORD_SP || how == RPROF_HOW_WORD_SP8 || how == RPROF_HOW_WORD_RA ||
	       how == RPROF_HOW_WORD_SLOT;
}

/* May @how follow @last in an interrupted frame and its first step? */
static inline bool is_word_order(u64 how, u64 last, bool first)
{
	if (how == RPROF_HOW_WORD_SP8 && last == RPROF_HOW_WORD_SP)
		return true;
	if (how == RPROF_HOW_WORD_SLOT && last == RPROF_HOW_WORD_RA)
		return true;
	if (how == RPROF_HOW_CHAIN_REG)
		return first || last == RPROF_HOW_WORD_RA;
	return how == RPROF_HOW_CHAIN || first;
}

/*
 * Order of a native part: PC, then SP | SP8 | WORD_SP WORD_SP8 (either may miss), then CHAIN; and the
 * same again from each SIGNAL on. s390x: RA | WORD_RA WORD_SLOT, then CHAIN_REG or CHAIN.
 */
static inline const char *native_wrong(const struct rprof_stack *s,
				       const struct rprof_native_frame *f)
{
	u64 last = RPROF_HOW_PC;
	u32 first = 0; /* of this stretch */

	for (u32 i = 0; i < s->n_native; i++) {
		u64 how = f[i].flags & RPROF_NATIVE_HOW, flags = f[i].flags & ~RPROF_NATIVE_HOW;

		if (is_next(s, f, i))
			return NULL;
		/* Above: where the frame lies, for Python frames that are read later. */
		if (s->stop_python == RPROF_STOP_FAULT)
			flags &= (1ULL << RPROF_NATIVE_LOW_SHIFT) - 1;
		if (flags & ~(RPROF_NATIVE_UNCHECKED | RPROF_NATIVE_UNBOUND))
			return "unknown flags";
		if (!s->space && flags != RPROF_NATIVE_UNCHECKED)
			return "no mapping table, but not unchecked";
		if (how == RPROF_HOW_SIGNAL)
			first = i;
		if ((flags ^ f[first].flags) & RPROF_NATIVE_UNBOUND)
			return "a stack that is unbound for some of its frames";
		if ((how == RPROF_HOW_PC) != (i == 0))
			return "the interrupted pc is the first frame and no other";
		if (how >= RPROF_HOW_MAX)
			return "unknown how";
		if (i != first && !is_word_order(how, last, i == first + 1))
			return "a word of the interrupted frame is out of order";
		if (is_candidate_word(how) && s->space && flags & RPROF_NATIVE_UNCHECKED)
			return "a candidate that the table does not have";
		last = how;
	}
	return NULL;
}

/* Is this a reason for which a Python walk ends? */
static inline bool python_stop(u8 stop)
{
	return stop <= RPROF_STOP_UNALIGNED ||
	       (stop >= RPROF_STOP_NO_STATE && stop <= RPROF_STOP_BAD_FRAME) ||
	       stop == RPROF_STOP_UNLINKED;
}

/* A shim says a native frame, NEXT is last and after a fault, a frame has a code object. */
static inline const char *python_wrong(const struct rprof_stack *s,
				       const struct rprof_python_frame *f)
{
	if (!python_stop(s->stop_python))
		return "not a reason of a Python walk";
	if (s->n_python &&
	    (s->stop_python == RPROF_STOP_NONE || s->stop_python == RPROF_STOP_NO_STATE ||
	     s->stop_python == RPROF_STOP_STATE_LOST))
		return "Python frames without a thread state";
	if ((s->stop_python == RPROF_STOP_DEPTH) > (s->n_python == RPROF_MAX_PYTHON))
		return "too deep, and room left";
	for (u32 i = 0; i < s->n_python; i++) {
		u32 flags = f[i].where & ~RPROF_PY_INSTR;

		if (flags & (RPROF_PY_SHIM | RPROF_PY_NEXT)) {
			bool addressed = flags & RPROF_PY_SHIM && !f[i].code &&
					 s->stop_native == RPROF_STOP_FAULT;

			if (f[i].where & (f[i].where - 1) || (f[i].fingerprint && !addressed))
				return "a shim, or the next frame, that says more";
			if (flags & RPROF_PY_SHIM && f[i].code > s->n_native)
				return "a shim in no native frame";
			if (flags & RPROF_PY_NEXT &&
			    (i + 2 < s->n_python || s->stop_python != RPROF_STOP_FAULT ||
			     !(f[s->n_python - 1].where & RPROF_PY_NEXT)))
				return "a next frame that is not the end";
			continue;
		}
		if (!f[i].code || f[i].code & 7)
			return "no code object";
		if (flags & (RPROF_PY_NOT_STARTED | RPROF_PY_NO_INSTR) &&
		    f[i].where & RPROF_PY_INSTR)
			return "an instruction that is none";
		if (flags & RPROF_PY_COARSE && i)
			return "jitted code that called";
	}
	return NULL;
}

static inline const char *stack_wrong(const struct rprof_stack *s)
{
	static const u8 zeros[sizeof(s->reserved)];
	const u64 *native = (const u64 *)(s + 1) + s->n_kernel;
	const char *wrong;

	if (s->n_kernel > RPROF_MAX_KERNEL || s->n_native > RPROF_MAX_NATIVE ||
	    s->n_python > RPROF_MAX_PYTHON)
		return "a count is out of range";
	if (s->h.len != 64 + 8u * s->n_kernel + 16u * s->n_native + 16u * s->n_python)
		return "length and counts differ";
	if (s->stop_kernel > RPROF_STOP_KSTACK || !is_native_stop(s->stop_native))
		return "not a reason of a walk";
	if ((s->stop_native == RPROF_STOP_OTHER_NS) > !s->tgid)
		return "outside, and numbered";
	if (memcmp(s->reserved, zeros, sizeof(zeros)))
		return "reserved bytes in use";
	if (s->n_kernel && s->stop_kernel != RPROF_STOP_END && s->stop_kernel != RPROF_STOP_DEPTH)
		return "kernel frames of a walk that failed";
	if (!s->n_native && s->stop_native != RPROF_STOP_NONE &&
	    s->stop_native != RPROF_STOP_OTHER_NS &&
	    (s->stop_native < RPROF_STOP_NO_REGS || s->stop_native > RPROF_STOP_NO_MM))
		return "a native walk without its first frame";
	wrong = python_wrong(s, (const void *)(native + 2 * s->n_native));
	return wrong ? wrong : native_wrong(s, (const void *)native);
}

/* Parts in order, each whole or absent, padded with zeros. */
static inline const char *code_wrong(const struct rprof_code *c)
{
	static const u32 limits[] = { RPROF_MAX_CODE_NAME, RPROF_MAX_CODE_FILE,
				      RPROF_MAX_CODE_LINES };
	static const u8 zeros[8];
	const u8 *bytes = (const u8 *)(c + 1);

	if (!c->time_ns || !c->fingerprint || !c->code || c->code & 7 ||
	    memcmp(c->reserved, zeros, sizeof(c->reserved)))
		return "code values";
	for (u32 i = 0; i < RPROF_CODE_PARTS; i++) {
		const struct rprof_code_text *t = &c->parts[i];
		u32 padding = -(u32)t->captured & 7;

		if (t->captured > limits[i] ||
		    (t->captured && t->captured != (u64)t->length * t->kind))
			return "a part that is not whole";
		if (t->kind > 4 || t->kind == 3 || (t->ascii && t->kind != 1) ||
		    (t->length && !t->addr))
			return "no kind of a text";
		bytes += t->captured;
		if ((u64)(bytes + padding - (const u8 *)c) > c->h.len ||
		    memcmp(bytes, zeros, padding))
			return "text beyond the record, or padding that is not zero";
		bytes += padding;
	}
	return bytes == (const u8 *)c + c->h.len ? NULL : "code record with a tail";
}

/* What is wrong with a record; NULL: nothing. */
static inline const char *record_wrong(const struct host_record *r)
{
	static const u8 zeros[8];
	const struct rprof_header *h = r->data;
	const struct rprof_sample *sample = r->data;
	const struct rprof_space *space = r->data;

	if (r->len < sizeof(*h) || r->len % 8 || h->len != r->len || h->flags)
		return "header";
	if (r->flags != BPF_RB_NO_WAKEUP && r->flags != BPF_RB_FORCE_WAKEUP)
		return "wakeup flags";
	switch (h->type) {
	case RPROF_RECORD_SAMPLE:
		if (r->len != 48 || memcmp(sample->reserved, zeros, sizeof(sample->reserved)))
			return "sample layout";
		return sample->time_ns && sample->value == 1 ? NULL : "sample values";
	case RPROF_RECORD_STACK:
		return r->len < 64 ? "short stack" : stack_wrong(r->data);
	case RPROF_RECORD_SPACE:
		if (r->len != 32 || memcmp(space->reserved, zeros, sizeof(space->reserved)))
			return "space layout";
		if (space->why < RPROF_SPACE_EXEC || space->why > RPROF_SPACE_EXIT)
			return "space why";
		return space->time_ns ? NULL : "space time";
	case RPROF_RECORD_CODE:
		return r->len < 96 ? "short code" : code_wrong(r->data);
	default:
		return "unknown type";
	}
}

/* The STACK with @id among the first @n records; NULL: none. */
static inline const struct rprof_stack *find_stack(u64 id, u32 n)
{
	while (n--) {
		const struct rprof_stack *s = host.records[n].data;

		if (s->h.type == RPROF_RECORD_STACK && s->stack == id)
			return s;
	}
	return NULL;
}

/* All that the ring accepted: every record by its rules, every SAMPLE after its STACK. */
static inline const char *ring_wrong(void)
{
	for (u32 i = 0; i < host.n_records; i++) {
		const struct rprof_sample *s = host.records[i].data;
		const char *wrong = record_wrong(&host.records[i]);

		if (wrong)
			return wrong;
		if (s->h.type == RPROF_RECORD_SAMPLE && !find_stack(s->stack, i))
			return "a SAMPLE before its STACK";
	}
	return NULL;
}

static inline u32 count_records(u16 type)
{
	u32 n = 0;

	for (u32 i = 0; i < host.n_records; i++)
		n += ((const struct rprof_header *)host.records[i].data)->type == type;
	return n;
}

#endif
