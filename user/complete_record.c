// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a STACK record lacks, and the longer one. */
#include <string.h>

#include "complete_parts.h"

#include "arch.h"
#include "record.h"

static void native_edge(const struct rprof_stack *s, struct complete_edge *e)
{
	const struct rprof_native_frame *f = record_native(s);
	__u64 distance, how;

	e->n_native = record_n_native(s);
	if (!e->n_native || e->n_native == s->n_native)
		return;
	distance = f[e->n_native].flags >> RPROF_NATIVE_NEXT_SHIFT;
	how = f[e->n_native - 1].flags & RPROF_NATIVE_HOW;
	/* A link that is in a register is not to be had again. */
	if (!distance)
		return;
	e->native = true;
	e->native_next = f[e->n_native].pc;
	e->native_from = e->native_next - distance;
	if (how == RPROF_HOW_CHAIN || how == RPROF_HOW_CHAIN_REG)
		e->native_pc = f[e->n_native - 1].pc;
}

static void python_edge(const struct rprof_stack *s, struct complete_edge *e)
{
	const struct rprof_python_frame *f = record_python(s);

	e->n_python = s->n_python;
	while (e->n_python && f[e->n_python - 1].where & RPROF_PY_NEXT)
		e->n_python--;
	/* One NEXT alone: the thread state links to it. */
	if (s->stop_python != RPROF_STOP_FAULT || !e->n_python || s->n_python - e->n_python != 2)
		return;
	e->python_next = f[e->n_python].code;
	e->python_from = f[e->n_python + 1].code;
	if (!(f[e->n_python - 1].where & RPROF_PY_SHIM))
		e->python_code = f[e->n_python - 1].code;
	if (e->n_native)
		e->stack = record_native(s)[0].flags >> RPROF_NATIVE_LOW_SHIFT;
	e->python = true;
}

bool complete_edge_of(const struct rprof_stack *s, struct complete_edge *e)
{
	*e = (struct complete_edge){ 0 };
	native_edge(s, e);
	python_edge(s, e);
	return e->native || e->python;
}

/* The native frames of the longer record, and where each lies. */
struct places {
	size_t n;
	__u64 low[RPROF_MAX_NATIVE + 1]; /* 0: not known; one more than frames */
};

static bool is_between(const struct places *p, size_t i, __u64 address, bool low_half)
{
	const __u64 size = p->low[i + 1] - p->low[i], at = address - p->low[i];

	if (!p->low[i] || !p->low[i + 1] || p->low[i + 1] < p->low[i])
		return false;
	return low_half ? size == (__u32)size && (__u32)at < size : at < size;
}

/* .code of a shim at @address: 1 + index of the frame that holds it. */
static __u64 frame_with(const struct places *p, __u64 address, bool low_half)
{
	for (size_t i = 0; address && i < p->n; i++) {
		if (is_between(p, i, address, low_half))
			return i + 1;
	}
	return 0;
}

static void add_native(const struct rprof_stack *s, const struct complete_edge *e,
		       const struct complete_tail *t, struct rprof_stack *out,
		       struct places *places)
{
	const struct rprof_native_frame *from = record_native(s);
	struct rprof_native_frame *to = (struct rprof_native_frame *)record_native(out);

	places->n = e->n_native;
	for (size_t i = 0; i < e->n_native; i++) {
		places->low[i] = from[i].flags >> RPROF_NATIVE_LOW_SHIFT;
		to[i].pc = from[i].pc;
		to[i].flags = from[i].flags & ((1ULL << RPROF_NATIVE_LOW_SHIFT) - 1);
	}
	places->low[e->n_native] = 0;
	out->n_native = (__u16)e->n_native;
	if (!e->native)
		return;
	/* What is known of the last one without Python: it begins where its callee's frame ends, */
	places->low[e->n_native - 1] = e->native_from + ARCH_CHAIN_LOW;
	out->stop_native = t->stop_native;
	for (size_t i = 0; i < t->n_native; i++) {
		if (places->n == RPROF_MAX_NATIVE) {
			out->stop_native = RPROF_STOP_DEPTH;
			break;
		}
		to[places->n].pc = t->native[i].pc;
		to[places->n].flags = t->native[i].flags;
		places->low[places->n++] = t->native[i].low;
	}
	/* and where the last one of all ends is not. */
	places->low[places->n] = 0;
	out->n_native = (__u16)places->n;
}

static void add_python(const struct rprof_stack *s, const struct complete_edge *e,
		       struct complete_tail *t, struct rprof_stack *out,
		       const struct places *places)
{
	const struct rprof_python_frame *tail = complete_tail_python(t);
	struct rprof_python_frame *to = (struct rprof_python_frame *)record_python(out);
	size_t n = e->n_python;

	memcpy(to, record_python(s), n * sizeof(*to));
	for (size_t i = 0; i < n; i++) {
		if (!(to[i].where & RPROF_PY_SHIM) || !to[i].fingerprint)
			continue;
		to[i].code = frame_with(places, to[i].fingerprint, true);
		to[i].fingerprint = 0;
	}
	if (e->python)
		out->stop_python = t->stop_python;
	for (size_t i = 0; e->python && i < t->n_python; i++) {
		if (n == RPROF_MAX_PYTHON) {
			out->stop_python = RPROF_STOP_DEPTH;
			break;
		}
		to[n] = tail[i];
		if (tail[i].where & RPROF_PY_SHIM)
			to[n].code = frame_with(places, tail[i].code, false);
		n++;
	}
	out->n_python = (__u16)n;
}

void complete_record(const struct rprof_stack *s, const struct complete_edge *e,
		     struct complete_tail *t, __u64 id, struct rprof_stack *out)
{
	struct places places;

	*out = *s;
	out->stack = id;
	memcpy((__u64 *)record_kernel(out), record_kernel(s), s->n_kernel * sizeof(__u64));
	add_native(s, e, t, out, &places);
	add_python(s, e, t, out, &places);
	out->h.len = (__u32)(sizeof(*out) + out->n_kernel * sizeof(__u64) +
			     out->n_native * sizeof(struct rprof_native_frame) +
			     out->n_python * sizeof(struct rprof_python_frame));
}
