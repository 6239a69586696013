/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The records that a JIT compiler writes to jit-PID.dump as it makes code (Linux,
 * tools/perf/Documentation/jitdump-specification.txt). They have times, CLOCK_MONOTONIC, so that
 * each sample gets the name of what was there at its time. Code, lines and unwind data are skipped.
 */
#ifndef RPROF_JITDUMP_H
#define RPROF_JITDUMP_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "code_ranges.h"

/* jitdump_parse() gets on with this many bytes in any case. */
#define JITDUMP_ENOUGH 65536

struct jitdump {
	struct code_ranges ranges;
	__u64 n_dropped;	/* records that say nothing, or that there was no room for */
	const char *problem;	/* why the rest is not read; static */
	bool has_header;
	bool has_times;		/* no: time stamps of the CPU; the last record for an address counts */
};

/*
 * jitdump_parse() - go on with the file.
 * @bytes: @len of them, from where the last calls have left it
 * Return: how many bytes are done with. May be more than @len: what follows is not needed. 0: the
 * next record is not there as a whole, or there is a problem.
 */
__u64 jitdump_parse(struct jitdump *d, const void *bytes, size_t len);
void jitdump_fini(struct jitdump *d);

/*
 * Name of what was at @addr at @time_ns: raw bytes, valid until the next call of jitdump_parse(); or
 * NULL.
 */
const char *jitdump_find(struct jitdump *d, __u64 addr, __u64 time_ns);

#endif
