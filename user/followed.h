/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_FOLLOWED_H
#define RPROF_FOLLOWED_H

#include <sys/types.h>

struct cputime;
struct options;
struct processes;
struct session;

/*
 * followed_add() - tell the kernel side, and the counting of CPU time, what the options name.
 * @command: our child that waits for its exec; 0: none
 * Return: 0 or -errno, logged with the process, the reason and the remedy.
 */
int followed_add(const struct options *o, pid_t command, struct processes *processes,
		 struct session *session, struct cputime *cputime);

#endif
