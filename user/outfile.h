/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An output file that appears whole or not at all: written under a temporary name beside it, then
 * renamed. What we would follow, replace by surprise or take from another user is refused: symbolic
 * links, anything but a regular file and, for root, files of others than root and SUDO_UID.
 */
#ifndef RPROF_OUTFILE_H
#define RPROF_OUTFILE_H

#include <stdio.h>

struct outfile;

/*
 * outfile_open() - start writing @path.
 *
 * Opened before sampling starts, so that a bad path is an error at once.
 * Return: 0 or -errno; the error is already logged with object, reason and remedy.
 */
int outfile_open(const char *path, struct outfile **out);
FILE *outfile_stream(struct outfile *f);

/*
 * outfile_commit() - flush, give to SUDO_UID if we are root, rename. Frees @f.
 *
 * The destination is looked at again: it may have changed since outfile_open().
 * Return: 0 or -errno, logged; then nothing is left behind.
 */
int outfile_commit(struct outfile *f);
void outfile_abort(struct outfile *f);	/* removes the temporary file; NULL is fine */
/* The same after a failed write: logs @err, a -errno, with object and remedy. Return: @err. */
int outfile_fail(struct outfile *f, int err);

/*
 * outfile_remove_temp() - for a signal handler that ends the program: removes the temporary file of
 * the outfile that is open, if there is one. Async-signal-safe. Knows the one opened last.
 */
void outfile_remove_temp(void);

#endif
