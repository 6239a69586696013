// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The rules of include/rprof/record.h, checked. Everything behind record_check() relies on it and
 * on nothing else, so it must look at every count, length and number that is used as one.
 */
#include "record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "stop.h"

static bool all_zero(const __u8 *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (bytes[i])
			return false;
	}
	return true;
}

/* May a walk have ended for this reason? The losses are counters only: such a stack is not sent. */
static bool is_walk_stop(__u8 stop)
{
	return stop < RPROF_STOP_MAX && !stop_is_loss(stop);
}

static int check_sample(const struct rprof_sample *s)
{
	if (s->h.len != sizeof(*s))
		return -EINVAL;
	return all_zero((const __u8 *)s->reserved, sizeof(s->reserved)) ? 0 : -EINVAL;
}

/* Where the walk stopped is said last, of a frame that another one links to. */
static bool native_ok(const struct rprof_stack *s, size_t i)
{
	const __u64 flags = record_native(s)[i].flags;
	const __u64 low = s->stop_python == RPROF_STOP_FAULT ? ~0ULL << RPROF_NATIVE_LOW_SHIFT : 0;

	if (flags & RPROF_NATIVE_NEXT)
		return i && i + 1 == s->n_native && s->stop_native == RPROF_STOP_FAULT;
	if (flags & ~(RPROF_NATIVE_HOW | RPROF_NATIVE_UNCHECKED | RPROF_NATIVE_UNBOUND | low))
		return false;
	return (flags & RPROF_NATIVE_HOW) < RPROF_HOW_MAX;
}

/*
 * Every bit of .where has a meaning. A shim names a native frame of this stack, or none. What is no
 * frame comes last: two entries at most.
 */
static bool python_ok(const struct rprof_stack *s, size_t i)
{
	const struct rprof_python_frame *f = &record_python(s)[i];

	if (f->where & RPROF_PY_NEXT)
		return !(f->where & RPROF_PY_SHIM) && i + 2 >= s->n_python &&
		       (i + 1 == s->n_python || f[1].where & RPROF_PY_NEXT);
	return !(f->where & RPROF_PY_SHIM) || f->code <= record_n_native(s);
}

static int check_stack(const struct rprof_stack *s)
{
	size_t len;

	if (s->h.len < sizeof(*s))
		return -EINVAL;
	if (s->n_kernel > RPROF_MAX_KERNEL || s->n_native > RPROF_MAX_NATIVE ||
	    s->n_python > RPROF_MAX_PYTHON)
		return -EINVAL;

	len = sizeof(*s) + s->n_kernel * sizeof(__u64) +
	      s->n_native * sizeof(struct rprof_native_frame) +
	      s->n_python * sizeof(struct rprof_python_frame);
	if (s->h.len != len)
		return -EINVAL;
	if (!is_walk_stop(s->stop_kernel) || !is_walk_stop(s->stop_native) ||
	    !is_walk_stop(s->stop_python))
		return -EINVAL;
	if (!all_zero(s->reserved, sizeof(s->reserved)))
		return -EINVAL;

	for (size_t i = 0; i < s->n_native; i++) {
		if (!native_ok(s, i))
			return -EINVAL;
	}
	for (size_t i = 0; i < s->n_python; i++) {
		if (!python_ok(s, i))
			return -EINVAL;
	}
	return 0;
}

/* The bytes that a part has in the record: all of its text, or none. -1: impossible. */
static long part_bytes(const struct rprof_code_text *t, __u16 limit, bool is_text)
{
	bool string = t->kind == 1 || (is_text && (t->kind == 2 || t->kind == 4));

	if (t->kind && !string)
		return -1;
	if (t->ascii > (t->kind == 1 && is_text) || t->captured > limit)
		return -1;
	if ((!t->kind || !t->addr) && (t->captured || t->length))
		return -1;
	if (t->captured && t->captured != (__u64)t->length * t->kind)
		return -1;
	return t->captured;
}

static int check_code(const struct rprof_code *c)
{
	static const __u16 limits[RPROF_CODE_PARTS] = { RPROF_MAX_CODE_NAME, RPROF_MAX_CODE_FILE,
							RPROF_MAX_CODE_LINES };
	size_t len = sizeof(*c);

	if (c->h.len < sizeof(*c))
		return -EINVAL;
	if (!c->fingerprint || !all_zero((const __u8 *)c->reserved, sizeof(c->reserved)))
		return -EINVAL;
	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		long bytes = part_bytes(&c->parts[i], limits[i], i != RPROF_CODE_LINES);

		if (bytes < 0)
			return -EINVAL;
		len += ((size_t)bytes + 7) & ~(size_t)7;
	}
	return c->h.len == len ? 0 : -EINVAL;
}

static int check_space(const struct rprof_space *s)
{
	if (s->h.len != sizeof(*s))
		return -EINVAL;
	if (s->why < RPROF_SPACE_EXEC || s->why > RPROF_SPACE_MAPPING)
		return -EINVAL;
	if (!all_zero(s->reserved, sizeof(s->reserved)))
		return -EINVAL;
	return 0;
}

int record_check(const void *data, size_t size)
{
	const struct rprof_header *h = data;

	/* A record that is cast to its type below must be aligned for it. */
	if (!data || (uintptr_t)data % sizeof(__u64))
		return -EINVAL;
	if (size < sizeof(*h) || size % sizeof(__u64))
		return -EINVAL;
	if (h->len != size)
		return -EINVAL;
	/* No flag is defined yet: one that is set means something that this reader would miss. */
	if (h->flags)
		return -ENOTSUP;

	switch (h->type) {
	case RPROF_RECORD_SAMPLE:
		return check_sample(data);
	case RPROF_RECORD_STACK:
		return check_stack(data);
	case RPROF_RECORD_CODE:
		return check_code(data);
	case RPROF_RECORD_SPACE:
		return check_space(data);
	default:
		return -ENOTSUP;
	}
}

const __u64 *record_kernel(const struct rprof_stack *s)
{
	return (const __u64 *)(s + 1);
}

const struct rprof_native_frame *record_native(const struct rprof_stack *s)
{
	return (const struct rprof_native_frame *)(record_kernel(s) + s->n_kernel);
}

const struct rprof_python_frame *record_python(const struct rprof_stack *s)
{
	return (const struct rprof_python_frame *)(record_native(s) + s->n_native);
}

size_t record_n_native(const struct rprof_stack *s)
{
	const struct rprof_native_frame *end = record_native(s) + s->n_native;

	return s->n_native - (s->n_native && end[-1].flags & RPROF_NATIVE_NEXT ? 1u : 0);
}

const void *record_code_part(const struct rprof_code *c, int part)
{
	const __u8 *at = (const __u8 *)(c + 1);

	for (int i = 0; i < part; i++)
		at += (c->parts[i].captured + 7) & ~7;
	return at;
}
