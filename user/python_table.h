/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The known versions of CPython, and the words of a _Py_DebugOffsets. For python_offsets.h and others. */
#ifndef RPROF_PYTHON_TABLE_H
#define RPROF_PYTHON_TABLE_H

#include "python_fields.h"

#define PYTHON_TABLE_HEAD 24	/* bytes: cookie, version, free_threaded */

/*
 * What a minor version is like. The executor is in no table: it is where DWARF has it, if the member
 * before it is.
 */
struct python_version {
	__u8 minor;
	__u8 in;		/* PYTHON_IN_* */
	__u16 flags;		/* RPROF_PYTHON_* */
	__u16 chunk;		/* thread_state.datastack_chunk, */
	__u16 executor;		/* and .current_executor then; 0: none */
};

/* By PY_VERSION_HEX; NULL: not known. */
const struct python_version *python_version_of(__u32 hex);

/*
 * Is it one that we know? Tables changed between pre-releases, so one of them is known by its exact
 * version or not at all; of 3.9 and 3.10 the minor version is enough. Return: 0 or -ENOTSUP.
 */
int python_version_check(__u32 hex, char why[PYTHON_WHY]);

/*
 * python_table_read() - the checked words of a debug table.
 * Return: 0, -ENOENT (no cookie), -ENOTSUP (the version is not known) or -EINVAL.
 */
int python_table_read(const void *bytes, size_t size, struct python_words *w, __u32 *version,
		      char why[PYTHON_WHY]);

#endif
