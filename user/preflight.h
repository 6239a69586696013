/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What can be known to be wrong before anything is made. */
#ifndef RPROF_PREFLIGHT_H
#define RPROF_PREFLIGHT_H

struct options;

/*
 * preflight() - rights, sampling rate, ring buffers, pid namespace, standard output and the processes
 * named.
 * Return: 0, or -errno, logged with object, reason and remedy. Nothing is left open.
 */
int preflight(const struct options *o);

/*
 * Is there what all records go through? @create: makes one, and returns 0 or -errno; bpf(2) says EINVAL
 * of a type of map that the kernel does not know.
 * Return: 0; -ENOTSUP, logged.
 */
int preflight_ring_buffers(int (*create)(void));

/* Descriptors 0 to 2 must not become ours: opens /dev/null for those that are closed. */
void preflight_std_fds(void);

/* RLIMIT_NOFILE to its hard limit: events per CPU and thread, and the files of targets. */
void preflight_raise_limits(void);

#endif
