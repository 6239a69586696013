/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "perf_map.h"

#include <string.h>

void perf_map_fini(struct perf_map *m)
{
	code_ranges_fini(&m->ranges);
	*m = (struct perf_map){ 0 };
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "[0x]HEX " of at most 64 bits. Moves *@at behind the blank. */
static bool parse_number(const char **at, const char *end, __u64 *value)
{
	const char *p = *at;
	__u64 v = 0;

	if (end - p > 2 && p[0] == '0' && (p[1] | 0x20) == 'x')
		p += 2;
	if (p == end || hex_digit(*p) < 0)
		return false;
	for (; p < end && hex_digit(*p) >= 0; p++) {
		if (v >> 60)
			return false;
		v = v << 4 | (__u64)hex_digit(*p);
	}
	if (p == end || *p != ' ')
		return false;
	*at = p + 1;
	*value = v;
	return true;
}

static void parse_line(struct perf_map *m, const char *line, size_t len)
{
	const char *end = line + len;
	__u64 start, size;

	if (!len)
		return;
	if (!parse_number(&line, end, &start) || !parse_number(&line, end, &size) || line == end ||
	    memchr(line, '\0', (size_t)(end - line)) ||
	    code_ranges_add(&m->ranges, start, size, 0, line, (size_t)(end - line)))
		m->n_dropped++;
}

size_t perf_map_parse(struct perf_map *m, const char *text, size_t len)
{
	size_t at = 0;

	while (at < len) {
		const char *eol = memchr(text + at, '\n', len - at);
		size_t line_len;

		if (!eol)
			break;
		line_len = (size_t)(eol - (text + at));
		if (m->in_long_line || line_len > CODE_RANGES_MAX_NAME)
			m->n_dropped++;
		else
			parse_line(m, text + at, line_len);
		m->in_long_line = false;
		at += line_len + 1;
	}
	if (len - at <= CODE_RANGES_MAX_NAME)
		return at;
	m->in_long_line = true;
	return len;
}

const char *perf_map_find(struct perf_map *m, __u64 addr)
{
	return code_ranges_find(&m->ranges, addr, 0);
}
