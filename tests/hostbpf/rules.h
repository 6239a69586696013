/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rules of include/rprof/record.h, written a second time and from the producer's side, which
 * promises more than a consumer may rely on. Never shared with user/record.c.
 */
#ifndef RPROF_HOSTBPF_RULES_H
#define RPROF_HOSTBPF_RULES_H

#include <string.h>

#include "hostbpf.h"

/*
 * Order of a native part: PC, then SP | SP8 | WORD_SP WORD_SP8 (either may miss), then CHAIN; and the
 * same again from each SIGNAL on.
 */
static inline const char *native_wrong(const struct rprof_stack *s,
				       const struct rprof_native_frame *f)
{
	u64 last = RPROF_HOW_PC;
	u32 first = 0; /* of this stretch */

	for (u32 i = 0; i < s->n_native; i++) {
		u64 how = f[i].flags & RPROF_NATIVE_HOW, flags = f[i].flags & ~RPROF_NATIVE_HOW;

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
		if (i > first + 1 && how != RPROF_HOW_CHAIN &&
		    !(how == RPROF_HOW_WORD_SP8 && last == RPROF_HOW_WORD_SP))
			return "a word of the interrupted frame is out of order";
		if ((how == RPROF_HOW_WORD_SP || how == RPROF_HOW_WORD_SP8) && s->space &&
		    flags & RPROF_NATIVE_UNCHECKED)
			return "a candidate that the table does not have";
		last = how;
	}
	return NULL;
}

static inline const char *stack_wrong(const struct rprof_stack *s)
{
	static const u8 zeros[sizeof(s->reserved)];
	const u64 *kernel = (const u64 *)(s + 1);

	if (s->n_kernel > RPROF_MAX_KERNEL || s->n_native > RPROF_MAX_NATIVE || s->n_python)
		return "a count is out of range";
	if (s->h.len != 64 + 8u * s->n_kernel + 16u * s->n_native)
		return "length and counts differ";
	if (s->stop_kernel > RPROF_STOP_KSTACK ||
	    (s->stop_native > RPROF_STOP_KSTACK && s->stop_native != RPROF_STOP_OTHER_NS))
		return "not a reason of a walk";
	if ((s->stop_native == RPROF_STOP_OTHER_NS) > !s->tgid)
		return "outside, and numbered";
	if (s->stop_python != RPROF_STOP_NONE || memcmp(s->reserved, zeros, sizeof(zeros)))
		return "Python part or reserved bytes in use";
	if (s->n_kernel && s->stop_kernel != RPROF_STOP_END && s->stop_kernel != RPROF_STOP_DEPTH)
		return "kernel frames of a walk that failed";
	if (!s->n_native && s->stop_native != RPROF_STOP_NONE &&
	    s->stop_native != RPROF_STOP_OTHER_NS &&
	    (s->stop_native < RPROF_STOP_NO_REGS || s->stop_native > RPROF_STOP_NO_MM))
		return "a native walk without its first frame";
	return native_wrong(s, (const void *)(kernel + s->n_kernel));
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
