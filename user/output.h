/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where the profile goes: a file that appears whole, or standard output. */
#ifndef RPROF_OUTPUT_H
#define RPROF_OUTPUT_H

struct options;
struct output;
struct profile;

/* Opens the output file now, so that a bad path is an error before sampling. 0 or -errno, logged. */
int output_open(const struct options *o, struct output **out);
void output_abort(struct output *out);	/* leaves nothing behind; NULL is fine */

/* Standard output, if that is where it goes and it is a pipe or socket; -1. */
int output_reader_fd(const struct output *out);

/*
 * output_commit() - write the profile. Frees @out.
 *
 * If the file cannot be written, the profile goes to standard output, so that nothing that was
 * collected is lost. A reader that closed the pipe (SIGPIPE) is no error.
 * Return: 0 or -errno, logged.
 */
int output_commit(struct output *out, const struct profile *profile);

/*
 * output_dump() - write the profile so far (SIGUSR1): to the file, replacing what an earlier dump
 * wrote, or to standard output, behind what an earlier dump wrote.
 *
 * Without a sample nothing is written. A failure is logged and has no consequence: the end tries
 * again.
 */
void output_dump(struct output *out, const struct profile *profile);

#endif
