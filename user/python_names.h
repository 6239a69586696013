/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a Python frame reads: "qualname (short/file.py:line)". */
#ifndef RPROF_PYTHON_NAMES_H
#define RPROF_PYTHON_NAMES_H

#include <linux/types.h>
#include <stdbool.h>

struct python_place;
struct rprof_python_frame;
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

/* The names of the last frames: stacks are new by few of theirs. */
#define PYTHON_RECENT 4096u

struct python_recent {
	__u64 changes;		/* python_codes_changes() when they were taken */
	struct python_recent_name {
		__u64 code;
		__u32 tgid, fingerprint, where;
		const char *name;	/* interned; NULL: free */
	} names[PYTHON_RECENT];
};

/* The place of a frame; .name counts if the rest is the frame's. Never NULL. */
struct python_recent_name *python_recent_at(struct python_recent *r, __u32 tgid,
					    const struct rprof_python_frame *f, const char **name);
void python_recent_put(struct python_recent_name *at, __u32 tgid,
		       const struct rprof_python_frame *f, const char *name);
/* Before a stack: names of code objects that were forgotten since do not count. */
void python_recent_begin(struct python_recent *r, __u64 changes);

/*
 * Not a frame of the program: the interpreter's own code object behind a call of a class
 * (_Py_InitCleanup, Python/specialize.c, 3.12 and later), which tracebacks do not show either. Its
 * name and file name are both "__init__", and its table has no lines.
 */
bool python_is_cleanup(const struct python_place *place);

#endif
