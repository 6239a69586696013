/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What processes do, as the kernel's perf side-band tells it: executable mappings, exec, fork and
 * exit, each with its time. Counting-only "dummy" events, one per CPU, that nobody is interrupted
 * for; on every kernel from 5.10 on, without tracefs or BTF.
 */
#ifndef RPROF_SIDEBAND_H
#define RPROF_SIDEBAND_H

#include <linux/types.h>
#include <stddef.h>

#include "maps.h"

enum sideband_kind {
	SIDEBAND_MAP,		/* an executable mapping was made, or made executable */
	SIDEBAND_EXEC,		/* a new image: what was mapped is gone */
	SIDEBAND_FORK,		/* a new process, a copy of its parent */
	SIDEBAND_EXIT,		/* the first thread of a process has ended */
	SIDEBAND_LOST,		/* events were lost: .lost of them */
};

struct sideband_event {
	__u64 time_ns;		/* CLOCK_MONOTONIC, as in samples */
	enum sideband_kind kind;
	__u32 tgid;		/* numbers of our pid namespace; 0: not in it */
	__u32 ppid;		/* FORK: tgid of the parent */
	__u64 lost;
	struct maps_entry map;	/* MAP: as a line of /proc/PID/maps; path valid during the call */
};

struct sideband;

/* Where events go, from sideband_read(), in order of time. */
typedef void (*sideband_fn)(void *ctx, const struct sideband_event *event);

/* Events start at once. Return: 0 or -errno, logged. */
int sideband_open(sideband_fn fn, void *ctx, struct sideband **out);
void sideband_free(struct sideband *s);

/* Pass on what has come since, up to @until_ns; what is younger waits for the next reading. */
void sideband_read(struct sideband *s, __u64 until_ns);

/* CPUs that came since. */
void sideband_follow_cpus(struct sideband *s);

/*
 * sideband_parse() - one record of a perf ring, pure.
 * @data: @len bytes, the kernel's; but the file name in it is the target's
 * @path: room for the path as /proc/PID/maps would show it, @size bytes
 * Return: 0; -ENOENT: nothing of interest; -EINVAL: malformed.
 */
int sideband_parse(const void *data, size_t len, struct sideband_event *event, char *path,
		   size_t size);

#endif
