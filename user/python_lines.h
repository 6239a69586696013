/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From an instruction to its line: the line tables of CPython's code objects, in their three formats.
 * Sources: Objects/lnotab_notes.txt of 3.9 and 3.10, Objects/locations.md of 3.11 (later
 * InternalDocs/code_objects.md). No memory, no I/O; a table is hostile.
 */
#ifndef RPROF_PYTHON_LINES_H
#define RPROF_PYTHON_LINES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct python_lines {
	const __u8 *bytes;	/* co_lnotab (3.9), co_linetable */
	size_t size;
	__s32 firstlineno;
	__u16 version;		/* of the interpreter, 0x0309 to 0x030f: says the format */
};

/* A place between two entries of a table, to go on from. Zeroes and .line = firstlineno: the start. */
struct python_lines_mark {
	__u32 at;		/* bytes of the table before it */
	__u32 end;		/* of the instructions before it, code units of 2 bytes (3.9, 3.10: bytes) */
	__s32 line;
	__u32 any;		/* some instruction before it has a line */
};

/*
 * python_lines_find() - the line of an instruction.
 * @from: NULL, or a mark of this table that is not behind the instruction
 * @unit: index of the instruction in code units of 2 bytes
 * @prologue: neither this instruction nor one before it has a line; may be NULL
 *
 * Return: the line; 0: the table gives none. Time is linear in what lies behind @from.
 */
__s32 python_lines_find(const struct python_lines *t, const struct python_lines_mark *from,
			__u32 unit, bool *prologue);

/*
 * python_lines_marks() - marks every @step bytes or a little more, so that no search is long.
 * Return: how many, at most @n. Sorted by .end.
 */
size_t python_lines_marks(const struct python_lines *t, size_t step,
			  struct python_lines_mark *marks, size_t n);

#endif
