// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What maps_parse_line() accepts lies within the line and keeps its promises. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy that ends where the line ends: the sanitizer sees a byte too many. */
	char *line = malloc(size ? size : 1);
	struct maps_entry e;

	if (!line)
		return 0;
	memcpy(line, data, size);
	if (!maps_parse_line(line, size, &e)) {
		if (e.start >= e.end || e.path < line || e.path + e.path_len != line + size)
			abort();
		if (memchr(e.path, '\n', e.path_len) || memchr(e.path, '\0', e.path_len))
			abort();
	}
	free(line);
	return 0;
}
