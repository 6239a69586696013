/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_PROFILER_H
#define RPROF_PROFILER_H

struct options;

/* Exit codes (DESIGN 9). A COMMAND's own status takes the place of the first two. */
enum {
	EXIT_OK = 0,
	EXIT_ERROR = 1,
	EXIT_USAGE = 2,
	EXIT_NO_SAMPLE = 3,
	EXIT_LOSS = 4,
	EXIT_COMMAND_FAILED = 125,	/* ours, with a COMMAND */
};

/*
 * profiler_run() - the record command, from checked options to written output.
 * Return: exit code. Errors are logged.
 */
int profiler_run(const struct options *o);

#endif
