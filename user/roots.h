/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Root directories of processes, each held once, for the debug files below them. */
#ifndef RPROF_ROOTS_H
#define RPROF_ROOTS_H

#include <linux/types.h>
#include <stddef.h>

struct root {
	__u64 dev, ino, mount;
	int fd;			/* O_PATH; -1: free */
	size_t refs;
};

struct roots {
	struct root *items;
	size_t n, cap;
};

void roots_fini(struct roots *r);

/*
 * roots_add() - the root directory of a process.
 * @proc_dir: descriptor of /proc/PID; -1: our own root
 * Return: an index, with a reference for the caller, or -errno.
 */
int roots_add(struct roots *r, int proc_dir);
void roots_unref(struct roots *r, int index); /* -1: nothing */
int roots_fd(const struct roots *r, int index); /* -1: -1 */

#endif
