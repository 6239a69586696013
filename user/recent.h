/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The STACK records that came last. A stack crosses the ring once, but what its addresses mean may
 * change: then it is located again.
 */
#ifndef RPROF_RECENT_H
#define RPROF_RECENT_H

#include <linux/types.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"

struct recent;

/* @max: bytes of records; the oldest go first */
struct recent *recent_new(size_t max);
void recent_free(struct recent *r);

/* Return: 0 or -ENOMEM. */
int recent_add(struct recent *r, const struct rprof_stack *s);
/* A copy, with its frames. Valid until the next recent_add(); NULL: it is too long ago. */
struct rprof_stack *recent_find(struct recent *r, __u64 id);

#endif
