/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a Python frame reads: "qualname (short/file.py:line)". */
#ifndef RPROF_PYTHON_NAMES_H
#define RPROF_PYTHON_NAMES_H

#include <stdbool.h>

struct python_place;
struct strset;

struct python_style {
	bool full_filenames;	/* --full-filenames; else the last two parts of a path */
	bool no_lines;		/* --no-lines */
};

/*
 * python_name() - the text of a place, interned in @strings.
 * @place: of python_codes_find(); raw bytes, which writers escape
 * Return: NULL: no memory.
 *
 * Of names and paths that are longer than 512 bytes the start, and the end, are shown, with "...".
 * A line that is not known is left out; one of jitted code, which is that of an earlier
 * instruction, reads "~12".
 */
const char *python_name(struct strset *strings, const struct python_style *style,
			const struct python_place *place);

/*
 * Not a frame of the program: the interpreter's own code object behind a call of a class
 * (_Py_InitCleanup, Python/specialize.c, 3.12 and later), which tracebacks do not show either. Its
 * name and file name are both "__init__", and its table has no lines.
 */
bool python_is_cleanup(const struct python_place *place);

#endif
