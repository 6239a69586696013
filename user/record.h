/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_USER_RECORD_H
#define RPROF_USER_RECORD_H

#include <linux/types.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"

/*
 * record_check() - does a record keep the rules of include/rprof/record.h?
 * @data: @size bytes, 8-aligned, from the ring or a file; hostile input when from a file
 *
 * Return: 0; -EINVAL: breaks them (length, counts, stops, how, kinds); -ENOTSUP: unknown type, to be
 * skipped by h.len and counted. What passes is safe for everything downstream.
 */
int record_check(const void *data, size_t size);

/* Parts of a STACK that record_check() accepted. */
const __u64 *record_kernel(const struct rprof_stack *s);
const struct rprof_native_frame *record_native(const struct rprof_stack *s);
const struct rprof_python_frame *record_python(const struct rprof_stack *s);

/* Its native frames: n_native without the entry that says where the walk stopped. */
size_t record_n_native(const struct rprof_stack *s);

/* The .captured bytes of a part (enum rprof_code_part) of a CODE that record_check() accepted. */
const void *record_code_part(const struct rprof_code *c, int part);

#endif
