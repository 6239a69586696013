// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Any text as a perf-map: the same names whether it is given as a whole or as it grows, and each
 * name is in the text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "perf_map.h"

/* In steps of @step bytes. */
static void parse(struct perf_map *m, const uint8_t *data, size_t size, size_t step)
{
	size_t at = 0;

	for (size_t end = step < size ? step : size;; end = size - end < step ? size : end + step) {
		/* Ends where the text ends: the sanitizer sees a byte too many. */
		char *text = malloc(end - at + 1);
		size_t done;

		if (!text)
			abort();
		memcpy(text, data + at, end - at);
		done = perf_map_parse(m, text, end - at);
		if (done > end - at || end - at - done > CODE_RANGES_MAX_NAME)
			abort();
		at += done;
		free(text);
		if (end == size)
			break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perf_map whole = { 0 }, grown = { 0 };

	parse(&whole, data, size, size ? size : 1);
	parse(&grown, data, size, size / 3 + 1);
	if (whole.n_dropped != grown.n_dropped || whole.ranges.n != grown.ranges.n)
		abort();
	for (__u64 addr = 0; addr < 0x4000; addr += 0x7f) {
		const char *a = perf_map_find(&whole, addr), *b = perf_map_find(&grown, addr);

		if (!a != !b || (a && strcmp(a, b)))
			abort();
		if (a && (!*a || !memmem(data, size, a, strlen(a))))
			abort();
	}
	perf_map_fini(&whole);
	perf_map_fini(&grown);
	return 0;
}
