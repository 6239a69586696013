/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The layouts of CPython 3.9 to 3.12, which have no table of their own. */
#ifndef RPROF_PYTHON_BUILTIN_H
#define RPROF_PYTHON_BUILTIN_H

#include "python_fields.h"

/*
 * python_builtin_words() - the words of a version's layout.
 * @minor: of version 3
 * Return: 0, or -ENOENT: there is none.
 */
int python_builtin_words(unsigned int minor, struct python_words *w);

#endif
