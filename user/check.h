/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_CHECK_H
#define RPROF_CHECK_H

struct options;

/*
 * check_run() - say what would work here, for this kernel and the processes of -p, and why not.
 *
 * Prints findings to stdout. Return: exit code: 0 all fine, 3 degraded, 1 impossible.
 */
int check_run(const struct options *o);

#endif
