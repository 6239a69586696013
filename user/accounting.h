/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where every sample that the kernel owed us went (DESIGN 7), and how it is said.
 *
 *   expected = matched + missed		missed: periods in which the kernel did not run us
 *   ticks    = other + matched
 *   matched  = samples + losses
 *   samples  = received + unknown
 */
#ifndef RPROF_ACCOUNTING_H
#define RPROF_ACCOUNTING_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>

#include "complete.h"
#include "cputime.h"
#include "rprof/stop.h"

struct profile;

struct accounting {
	__u64 counters[RPROF_COUNT_MAX];
	__u64 period_ns;
	__u64 cpu_ns;			/* CPU time of the followed threads */
	enum cputime_trust cpu_trust;
	__u64 received;			/* SAMPLE records that reached the profile */
	__u64 unknown_stacks;		/* SAMPLE records whose stack was not known: a loss */
	__u64 bad_records;
	__u64 lost_events;		/* of the kernel's about processes */
	__u64 unchecked;		/* processes or times without a mapping table */
	struct completer_stats completed;
	__u64 elapsed_ns;
	__u64 start_cpu_ns;		/* CPU time of rprof-bpf before sampling, */
	__u64 own_cpu_ns;		/* and while it sampled */
};

__s64 accounting_expected(const struct accounting *a);	/* periods */
__s64 accounting_missed(const struct accounting *a);	/* signed: sampling error of short runs */
__u64 accounting_lost(const struct accounting *a);
/*
 * (losses + missed) / expected, in percent; losses / matched alone where the CPU time cannot be
 * trusted
 */
double accounting_loss_percent(const struct accounting *a);
/* Do the exact sums hold? */
bool accounting_closes(const struct accounting *a);

/*
 * accounting_print() - the end of a run, for people and for tests: "name  number", one per line.
 * @all: also what is zero or only of interest to the curious (--stats)
 */
void accounting_print(FILE *f, const struct accounting *a, const struct profile *p, bool all);

#endif
