/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_ESCAPE_H
#define RPROF_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

/*
 * Reversible text for bytes a target chose: ';', backslash and control bytes (and DEL) become
 * \xHH, invalid UTF-8 becomes U+FFFD. Spaces stay: a folded line is cut at its last space.
 * escape_write() returns 0 or -errno; escape_string() returns a malloc'd string or NULL.
 */
int escape_write(FILE *f, const char *bytes, size_t len);
char *escape_string(const char *bytes, size_t len);

#endif
