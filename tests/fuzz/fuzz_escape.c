// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whatever the bytes are: the text has no separator and no control byte, both functions agree, and
 * it can be turned back unless something was replaced.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"

static int hex(char c)
{
	return c <= '9' ? c - '0' : c - 'a' + 10;
}

static size_t unescape(const char *text, char *bytes)
{
	size_t n = 0;

	while (*text) {
		if (*text != '\\') {
			bytes[n++] = *text++;
			continue;
		}
		bytes[n++] = hex(text[2]) << 4 | hex(text[3]);
		text += 4;
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = escape_string((const char *)data, size), *written = NULL, *back;
	size_t n_written, len;
	FILE *f = open_memstream(&written, &n_written);

	if (!text || !f)
		abort();
	if (escape_write(f, (const char *)data, size) || fclose(f))
		abort();
	len = strlen(text);
	if (len != n_written || memcmp(text, written, len))
		abort();

	for (size_t i = 0; i < len; i++) {
		unsigned char c = text[i];

		if (c < 0x20 || c == 0x7f || c == ';')
			abort();
	}

	back = malloc(len + 1);
	if (!back)
		abort();
	if (!strstr(text, "\xef\xbf\xbd") &&
	    (unescape(text, back) != size || (size && memcmp(back, data, size))))
		abort();
	free(back);
	free(text);
	free(written);
	return 0;
}
