// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_text.h"

#include <linux/types.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xfffdu

static __u32 code_point(const __u8 *at, unsigned int kind)
{
	__u16 two;
	__u32 four;

	switch (kind) {
	case 1:
		return *at;
	case 2:
		memcpy(&two, at, sizeof(two));
		return two;
	default:
		memcpy(&four, at, sizeof(four));
		return four;
	}
}

/* Return: the end of what was put at @to. At most 4 bytes; 3 if @c is below 2^16, 2 below 2^11. */
static char *put_utf8(char *to, __u32 c)
{
	if (!c || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
		c = REPLACEMENT;
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
	} else {
		if (c < 0x10000) {
			*to++ = (char)(0xe0 | c >> 12);
		} else {
			*to++ = (char)(0xf0 | c >> 18);
			*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		}
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (c & 0x3f));
	return to;
}

char *python_text(const void *bytes, size_t size, unsigned int kind)
{
	const __u8 *at = bytes;
	char *text, *to;
	size_t n;

	if (kind != 1 && kind != 2 && kind != 4)
		return NULL;
	n = size / kind;
	/* 0 of one byte becomes three. */
	text = malloc(n * (kind == 4 ? 4 : 3) + 1);
	if (!text)
		return NULL;
	to = text;
	for (size_t i = 0; i < n; i++)
		to = put_utf8(to, code_point(at + i * kind, kind));
	*to = '\0';
	return text;
}
