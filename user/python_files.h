/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which of the files that a process executes hold a Python; each file is looked at once. */
#ifndef RPROF_PYTHON_FILES_H
#define RPROF_PYTHON_FILES_H

#include <linux/types.h>
#include <stddef.h>

#include "python_candidate.h"

#define PYTHON_MAX_CANDIDATES 16	/* of a process; two are normal */

struct modules;
struct python_files;
struct space;

/* @modules: borrowed. NULL: no memory. */
struct python_files *python_files_new(struct modules *modules);
void python_files_free(struct python_files *f);

/*
 * python_files_find() - in order of address; those with no more than an .AsyncioDebug, too.
 * @deadline_ns: monotonic; when it is past, no file is read that is not known yet, but for one
 * @again_ns: when to ask again even if nothing changes: 0: at once, not all files were looked at;
 *            PYTHON_FILES_NEVER: all is known that will be
 * Return: how many are in @out.
 */
#define PYTHON_FILES_NEVER (~0ULL)
size_t python_files_find(struct python_files *f, const struct space *space, __u64 deadline_ns,
			 struct python_candidate out[PYTHON_MAX_CANDIDATES], __u64 *again_ns);

#endif
