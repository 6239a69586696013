/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of stacks that are cut, counted for whole ones: at once, or, moved in the profile, when later
 * samples prove what the parents were.
 */
#ifndef RPROF_WHOLES_H
#define RPROF_WHOLES_H

#include <linux/types.h>

#include "rprof/stop.h"
#include "rprof/record.h"

struct completer;
struct processes;
struct profile;
struct recent;

/* All borrowed. */
struct wholes {
	struct completer *completer;
	struct recent *cut;		/* stacks that it wants */
	struct profile *profile;
	struct processes *processes;
	void *ctx;
	/* There is a whole stack, new or not: it is to be in @profile. */
	void (*take)(void *ctx, const struct rprof_stack *stack);
};

/*
 * wholes_sample() - @s, or in @whole the sample of the whole stack: above a cut it may be another one
 * each time. For all samples of a thread in order.
 */
const struct rprof_sample *wholes_sample(const struct wholes *w, const struct rprof_sample *s,
					 struct rprof_sample *whole);
/* After it, once that sample, of @time_ns, is counted: those that it proves count for others now. */
void wholes_move_late(const struct wholes *w, __u64 time_ns);

#endif
