/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The line tables: of each format a target, since they share no bytes. */
#ifndef RPROF_FUZZ_PYTHON_LINES_H
#define RPROF_FUZZ_PYTHON_LINES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python_lines.h"

#define N_MARKS 64

/* {s32 firstlineno, table}: every line is found again from the mark before it, and no line is below 1. */
static inline void fuzz_lines(const uint8_t *data, size_t size, __u16 version)
{
	struct python_lines t = { .version = version };
	struct python_lines_mark marks[N_MARKS];
	size_t n, passed = 0;
	__u8 *copy;

	if (size < sizeof(t.firstlineno))
		return;
	memcpy(&t.firstlineno, data, sizeof(t.firstlineno));
	t.size = size - sizeof(t.firstlineno);
	/* A copy with nothing readable behind it. */
	copy = malloc(t.size ? t.size : 1);
	if (!copy)
		return;
	memcpy(copy, data + sizeof(t.firstlineno), t.size);
	t.bytes = copy;
	n = python_lines_marks(&t, 16, marks, N_MARKS);
	for (__u32 unit = 0; unit < 256; unit++) {
		__u64 want = version <= 0x030a ? 2ULL * unit : unit;
		bool prologue, from_mark;
		__s32 line = python_lines_find(&t, NULL, unit, &prologue);

		while (passed < n && marks[passed].end <= want)
			passed++;
		if (line < 0 || (line && prologue))
			abort();
		if (python_lines_find(&t, passed ? &marks[passed - 1] : NULL, unit, &from_mark) !=
			    line ||
		    from_mark != prologue)
			abort();
	}
	free(copy);
}

#endif
