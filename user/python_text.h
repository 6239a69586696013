/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Strings of CPython as they lie in memory (PEP 393), as UTF-8. */
#ifndef RPROF_PYTHON_TEXT_H
#define RPROF_PYTHON_TEXT_H

#include <stddef.h>

/*
 * python_text() - a copy of a string as UTF-8.
 * @bytes: @size bytes, code points of @kind bytes each in native byte order; a rest that is no whole
 *         one is dropped; hostile
 * @kind: 1 (Latin-1), 2 or 4
 *
 * What is no character gives U+FFFD: surrogates (CPython has no pairs, it escapes bytes of file names
 * by lone ones), numbers above U+10FFFF; and 0, which would end a C string.
 * Return: freed by the caller; NULL: no memory, or no such kind.
 */
char *python_text(const void *bytes, size_t size, unsigned int kind);

#endif
