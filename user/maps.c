/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One line of /proc/PID/maps. The path in it is the target's choice: bytes, any, but no newline
 * (fs/proc/task_mmu.c escapes it as \012). Never reads past the length that it was given.
 */
#include "maps.h"

#include <errno.h>
#include <string.h>

struct cursor {
	const char *at;
	const char *end;
};

static bool take(struct cursor *c, char want)
{
	if (c->at == c->end || *c->at != want)
		return false;
	c->at++;
	return true;
}

/* One of two letters: @yes or @no. */
static bool take_flag(struct cursor *c, char yes, char no, bool *set)
{
	*set = take(c, yes);
	return *set || take(c, no);
}

static int digit(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	return 16;
}

/* A number in @base, at least one digit, no sign, no prefix, at most @max. */
static bool take_number(struct cursor *c, int base, __u64 max, __u64 *value)
{
	const char *start = c->at;
	__u64 v = 0;

	for (; c->at != c->end; c->at++) {
		int d = digit(*c->at);

		if (d >= base)
			break;
		if (__builtin_mul_overflow(v, (__u64)base, &v) ||
		    __builtin_add_overflow(v, (__u64)d, &v) || v > max)
			return false;
	}
	*value = v;
	return c->at != start;
}

int maps_parse_line(const char *line, size_t len, struct maps_entry *e)
{
	struct cursor c = { line, line + len };
	struct maps_entry m = { 0 };
	__u64 major, minor;

	if (!take_number(&c, 16, ~0ULL, &m.start) || !take(&c, '-') ||
	    !take_number(&c, 16, ~0ULL, &m.end) || !take(&c, ' ') || m.start >= m.end)
		return -EINVAL;
	if (!take_flag(&c, 'r', '-', &m.readable) || !take_flag(&c, 'w', '-', &m.writable) ||
	    !take_flag(&c, 'x', '-', &m.executable) || !take_flag(&c, 's', 'p', &m.shared) ||
	    !take(&c, ' '))
		return -EINVAL;
	if (!take_number(&c, 16, ~0ULL, &m.pgoff) || !take(&c, ' ') ||
	    !take_number(&c, 16, ~0U, &major) || !take(&c, ':') ||
	    !take_number(&c, 16, ~0U, &minor) || !take(&c, ' ') ||
	    !take_number(&c, 10, ~0ULL, &m.inode))
		return -EINVAL;
	/* "inode" or "inode " end a line without a path; with one, blanks pad to a column. */
	if (c.at != c.end && *c.at != ' ')
		return -EINVAL;
	while (take(&c, ' '))
		;
	m.path = c.at;
	m.path_len = (size_t)(c.end - c.at);
	if (memchr(m.path, '\n', m.path_len) || memchr(m.path, '\0', m.path_len))
		return -EINVAL;
	m.dev_major = (__u32)major;
	m.dev_minor = (__u32)minor;
	*e = m;
	return 0;
}
