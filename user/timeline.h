/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What processes did, in order of time with the samples: events of the side-band wait here until
 * everything older has been handled. Files are opened as soon as an event is read, since the process
 * may be gone when its time comes.
 */
#ifndef RPROF_TIMELINE_H
#define RPROF_TIMELINE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "sideband.h"

struct modules;
struct spaces;
struct spaces_pending;
struct timeline;

struct timeline_sink {
	void *ctx;
	/* Is this event of interest? */
	bool (*wanted)(void *ctx, enum sideband_kind kind, __u32 tgid, __u32 ppid);
	/* Has happened, and spaces know. */
	void (*happened)(void *ctx, enum sideband_kind kind, __u32 tgid, __u32 ppid);
};

/* Return: 0 or -errno, logged. */
int timeline_new(struct spaces *spaces, struct modules *modules, const struct timeline_sink *sink,
		 struct timeline **out);
void timeline_free(struct timeline *t);

/* What has come since. Return: up to when, CLOCK_MONOTONIC; all that is older has been read. */
__u64 timeline_read(struct timeline *t);
void timeline_advance(struct timeline *t, __u64 time_ns); /* all up to then has happened */
void timeline_follow_cpus(struct timeline *t);

/* Reads, and says what of @tgid is still to happen. Valid until the next call. For spaces_read(). */
const struct spaces_pending *timeline_pending(void *timeline, __u32 tgid);

__u64 timeline_lost(const struct timeline *t);	/* events that the kernel could not keep */

#endif
