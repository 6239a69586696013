/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_MONOTONIC_H
#define RPROF_MONOTONIC_H

#include <linux/types.h>
#include <time.h>

/* CLOCK_MONOTONIC in ns: the clock of the samples. */
static inline __u64 monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

#endif
