// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_lines.h"

/* Lines are sums of what the target says: they wrap, and what is no line then is none. */
struct entry {
	__u32 end;		/* of the instructions that it is of */
	__s32 line;
	bool has_line;
};

static __s32 add_line(__s32 line, __s64 delta)
{
	return (__s32)((__u32)line + (__u32)delta);
}

/* 3.9: {u8 bytes, s8 lines}: so many bytes further, the line is so much more. */
static bool next_lnotab(const struct python_lines *t, struct python_lines_mark *m, struct entry *e)
{
	e->line = m->line;
	e->has_line = true;
	if (m->at + 2 > t->size) {
		/* The last line is that of all the rest. */
		e->end = ~0u;
		if (m->end == e->end)
			return false;
		m->end = e->end;
		return true;
	}
	e->end = m->end + t->bytes[m->at];
	m->line = add_line(m->line, (__s8)t->bytes[m->at + 1]);
	m->end = e->end;
	m->at += 2;
	return true;
}

/* 3.10: {u8 bytes, s8 lines}: the line is so much more for so many bytes; -128: they have none. */
static bool next_linetable(const struct python_lines *t, struct python_lines_mark *m,
			   struct entry *e)
{
	__s8 delta;

	if (m->at + 2 > t->size)
		return false;
	delta = (__s8)t->bytes[m->at + 1];
	e->has_line = delta != -128;
	if (e->has_line)
		m->line = add_line(m->line, delta);
	e->line = m->line;
	e->end = m->end + t->bytes[m->at];
	m->end = e->end;
	m->at += 2;
	return true;
}

/* Six bits a byte, the lowest first, bit 6: another one follows. More than an int is malformed. */
static bool next_varint(const struct python_lines *t, __u32 *at, __u32 *value)
{
	__u32 sum = 0;

	for (unsigned int shift = 0; shift < 32; shift += 6) {
		__u8 byte;

		if (*at >= t->size)
			return false;
		byte = t->bytes[(*at)++];
		sum |= (__u32)(byte & 0x3f) << shift;
		if (!(byte & 0x40)) {
			*value = sum;
			return true;
		}
	}
	return false;
}

static bool next_svarint(const struct python_lines *t, __u32 *at, __s64 *value)
{
	__u32 u;

	if (!next_varint(t, at, &u))
		return false;
	*value = u & 1 ? -(__s64)(u >> 1) : (__s64)(u >> 1);
	return true;
}

/* 3.11: {1 cccc lll, more by code}: lll + 1 code units, and what code cccc says of their place. */
static bool next_location(const struct python_lines *t, struct python_lines_mark *m,
			  struct entry *e)
{
	__u32 at = m->at, unused;
	__s64 delta = 0;
	__u8 first;
	unsigned int code;

	if (at >= t->size)
		return false;
	first = t->bytes[at++];
	code = first >> 3 & 15;
	switch (code) {
	case 15: /* none */
		break;
	case 14: /* with end line and columns */
		if (!next_svarint(t, &at, &delta))
			return false;
		for (int i = 0; i < 3; i++) {
			if (!next_varint(t, &at, &unused))
				return false;
		}
		break;
	case 13: /* no columns */
		if (!next_svarint(t, &at, &delta))
			return false;
		break;
	case 12: /* this line, or one or two further, and two columns */
	case 11:
	case 10:
		delta = code - 10;
		at += 2;
		break;
	default: /* the same line, and columns in one byte */
		at++;
	}
	if (!(first & 0x80) || at > t->size)
		return false;
	m->line = add_line(m->line, delta);
	m->end += (first & 7) + 1u;
	m->at = at;
	*e = (struct entry){ .end = m->end, .line = m->line, .has_line = code != 15 };
	return true;
}

/* One entry further. false: that was all, or it is no table. */
static bool next_entry(const struct python_lines *t, struct python_lines_mark *m, struct entry *e)
{
	if (t->version < 0x030a)
		return next_lnotab(t, m, e);
	return t->version == 0x030a ? next_linetable(t, m, e) : next_location(t, m, e);
}

static struct python_lines_mark start_of(const struct python_lines *t)
{
	return (struct python_lines_mark){ .line = t->firstlineno };
}

__s32 python_lines_find(const struct python_lines *t, const struct python_lines_mark *from,
			__u32 unit, bool *prologue)
{
	struct python_lines_mark m = from ? *from : start_of(t);
	__u64 want = t->version <= 0x030a ? 2ULL * unit : unit;
	struct entry e;

	if (prologue)
		*prologue = false;
	while (next_entry(t, &m, &e)) {
		m.any |= e.has_line;
		if (want >= e.end)
			continue;
		if (prologue)
			*prologue = !m.any;
		return e.has_line && e.line > 0 ? e.line : 0;
	}
	return 0;
}

size_t python_lines_marks(const struct python_lines *t, size_t step,
			  struct python_lines_mark *marks, size_t n)
{
	struct python_lines_mark m = start_of(t);
	size_t n_marks = 0;
	__u32 last = 0;
	struct entry e;

	while (n_marks < n && next_entry(t, &m, &e)) {
		m.any |= e.has_line;
		if (m.at < last + step)
			continue;
		marks[n_marks++] = m;
		last = m.at;
	}
	return n_marks;
}
