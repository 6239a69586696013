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
 * Return: how many are in @out.
 */
size_t python_files_find(struct python_files *f, const struct space *space,
			 struct python_candidate out[PYTHON_MAX_CANDIDATES]);

#endif
