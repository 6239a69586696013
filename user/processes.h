/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keeps the kernel side's mapping tables in step with the processes we see: at start, at exec, at
 * first sight under -a, and when a stack shows that its process has mapped something since.
 */
#ifndef RPROF_PROCESSES_H
#define RPROF_PROCESSES_H

#include <linux/types.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"

struct processes;
struct session;
struct space;
struct spaces;

struct processes *processes_new(struct session *session, struct spaces *spaces);
void processes_free(struct processes *p);

/*
 * processes_follow() - follow @tgid from now on and publish its mappings.
 * @flags: RPROF_PROC_*; with RPROF_PROC_WAIT_EXEC the mappings are read at its exec
 * Return: 0 or -errno.
 */
int processes_follow(struct processes *p, __u32 tgid, __u32 flags);

/* The records that follow were made before now. */
void processes_begin_drain(struct processes *p);

/* Look at a STACK before it is resolved: read its process's mappings if it shows that we must. */
void processes_on_stack(struct processes *p, const struct rprof_stack *s);

/*
 * processes_space() - the address space that the user frames of a STACK are of.
 * Return: NULL if it is not known: the mappings were read of another image than was sampled.
 */
const struct space *processes_space(const struct processes *p, const struct rprof_stack *s);

/* A SPACE record: the process has a new image. */
void processes_on_space(struct processes *p, const struct rprof_space *s);

/* Once a second: processes that ended, and mappings that took the place of others. */
void processes_tick(struct processes *p);

/* How often a process got no mapping table: its samples are checked later, and cost more. */
__u64 processes_unchecked(const struct processes *p);

#endif
