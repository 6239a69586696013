// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Text that a target chose, made safe for a line of output and for a terminal. Nothing is dropped
 * or clipped: "\xHH" can be turned back, because a backslash never stands for itself.
 */
#include "escape.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
#define MAX_GROWTH 4		   /* one byte becomes at most "\xHH" */

/* Longest text that stands for one unit of the input: a two-byte control character. */
#define UNIT_MAX (2 * MAX_GROWTH)

static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x7f && c != ';' && c != '\\';
}

/*
 * Length of the well-formed UTF-8 sequence at @p, or 0; then *bad is the number of bytes that one
 * U+FFFD stands for (Unicode 15, table 3-7, and "maximal subpart" in section 3.9).
 */
static size_t utf8_sequence(const unsigned char *p, size_t len, size_t *bad)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	*bad = 1;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;

	/* Overlong forms, surrogates and what lies past U+10FFFF show in the second byte. */
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;

	for (size_t i = 1; i < n; i++) {
		*bad = i;
		if (i == len || p[i] < low || p[i] > high)
			return 0;
		low = 0x80;
		high = 0xbf;
	}
	return n;
}

/* U+0080 to U+009F: some terminals take them for escape sequences (0x9b is CSI). */
static bool is_c1(const unsigned char *p)
{
	return p[0] == 0xc2 && p[1] < 0xa0;
}

/* Bytes at the start of @p that are copied as they are. */
static size_t plain_run(const unsigned char *p, size_t len)
{
	size_t i = 0, bad;

	while (i < len) {
		size_t n;

		if (is_plain(p[i])) {
			i++;
			continue;
		}
		if (p[i] < 0x80)
			break;
		n = utf8_sequence(p + i, len - i, &bad);
		if (!n || is_c1(p + i))
			break;
		i += n;
	}
	return i;
}

static char *put_hex(char *out, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	*out++ = '\\';
	*out++ = 'x';
	*out++ = digits[c >> 4];
	*out++ = digits[c & 15];
	return out;
}

/* Text for what stopped plain_run() at @p. Returns its length; *used: bytes of @p it stands for. */
static size_t put_unit(char out[UNIT_MAX], const unsigned char *p, size_t len, size_t *used)
{
	char *end = out;
	size_t n, bad;

	n = p[0] < 0x80 ? 1 : utf8_sequence(p, len, &bad);
	if (!n) {
		memcpy(out, REPLACEMENT, strlen(REPLACEMENT));
		*used = bad;
		return strlen(REPLACEMENT);
	}
	for (size_t i = 0; i < n; i++)
		end = put_hex(end, p[i]);
	*used = n;
	return end - out;
}

int escape_write(FILE *f, const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	char unit[UNIT_MAX];

	while (len) {
		size_t used = plain_run(p, len), n;

		if (used && fwrite(p, 1, used, f) != used)
			return errno ? -errno : -EIO;
		p += used;
		len -= used;
		if (!len)
			break;

		n = put_unit(unit, p, len, &used);
		if (fwrite(unit, 1, n, f) != n)
			return errno ? -errno : -EIO;
		p += used;
		len -= used;
	}
	return 0;
}

char *escape_string(const char *bytes, size_t len)
{
	const unsigned char *p = (const unsigned char *)bytes;
	char *text, *end, *shrunk;

	if (len > (SIZE_MAX - 1) / MAX_GROWTH)
		return NULL;
	text = malloc(len * MAX_GROWTH + 1);
	if (!text)
		return NULL;

	end = text;
	while (len) {
		size_t used = plain_run(p, len);

		memcpy(end, p, used);
		end += used;
		p += used;
		len -= used;
		if (!len)
			break;
		end += put_unit(end, p, len, &used);
		p += used;
		len -= used;
	}
	*end = '\0';

	shrunk = realloc(text, end - text + 1);
	return shrunk ? shrunk : text;
}
