/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The text that a JIT compiler writes to /tmp/perf-PID.map as it makes code: a line per piece,
 * "START SIZE name", numbers in hexadecimal (Linux, tools/perf/Documentation/jit-interface.txt).
 * It has no times: the last line for an address counts.
 */
#ifndef RPROF_PERF_MAP_H
#define RPROF_PERF_MAP_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "code_ranges.h"

struct perf_map {
	struct code_ranges ranges;
	__u64 n_dropped;	/* lines that are none, or that there was no room for */
	bool in_long_line;
};

/*
 * perf_map_parse() - go on with the text.
 * Return: how many of the @len bytes are done with. The rest is the start of a line, to be given
 * again when its end is there. A line that does not end in CODE_RANGES_MAX_NAME bytes is dropped.
 */
size_t perf_map_parse(struct perf_map *m, const char *text, size_t len);
void perf_map_fini(struct perf_map *m);

/* Name of the code at @addr, raw bytes, valid until the next call of perf_map_parse(); or NULL. */
const char *perf_map_find(struct perf_map *m, __u64 addr);

#endif
