/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The processes we see: their address spaces kept current in user space, by the kernel's events and
 * by reading /proc, and in the tables of the kernel side; from first sight until they end.
 */
#ifndef RPROF_PROCESSES_H
#define RPROF_PROCESSES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"

struct jits;
struct modules;
struct processes;
struct python_codes;
struct pythons;
struct session;
struct space;
struct spaces;

struct processes_config {
	struct session *session;	/* borrowed, as are the others */
	struct spaces *spaces;
	struct modules *modules;
	struct jits *jits;
	struct pythons *pythons;	/* NULL: interpreters are of no interest */
	struct python_codes *python_codes;
	bool all;			/* -a: every process is of interest */
	bool subprocesses;		/* -s */
	void *ctx;
	void (*ended)(void *ctx, __u32 tgid); /* all its records were handled */
};

/* Events are followed from now on. Return: 0 or -errno, logged. */
int processes_new(const struct processes_config *config, struct processes **out);
void processes_free(struct processes *p);

/*
 * processes_follow() - follow @tgid from now on and publish its mappings.
 * @flags: RPROF_PROC_*; with RPROF_PROC_WAIT_EXEC the mappings are read at its exec
 * Return: 0 or -errno.
 */
int processes_follow(struct processes *p, __u32 tgid, __u32 flags);

/* The records that follow were made before now. */
void processes_begin_drain(struct processes *p);
/* All of them were handled; or, not @complete, as many as there was time for. */
void processes_end_drain(struct processes *p, bool complete);

/* What happened before @time_ns has happened now: before each record is handled. */
void processes_advance(struct processes *p, __u64 time_ns);

/*
 * Look at a STACK before it is located: read its process's mappings, or look up its thread states, if
 * it shows that we must.
 */
void processes_on_stack(struct processes *p, const struct rprof_stack *s);

/* The address space that the user frames of a STACK are of; NULL: not known. */
const struct space *processes_space(const struct processes *p, const struct rprof_stack *s);

/* The number of the space of @tgid at @time_ns; 0: not known. */
__u32 processes_space_number(const struct processes *p, __u32 tgid, __u64 time_ns);

/* A SPACE record: a new image, a new process, an end. */
void processes_on_space(struct processes *p, const struct rprof_space *s);

/* Once a second. */
void processes_tick(struct processes *p);

/* Does any process that was to be followed still run? */
bool processes_any_followed(const struct processes *p);

struct processes_stats {
	__u64 unchecked;	/* times a process got no table: its samples are checked later */
	__u64 lost_events;	/* of the kernel's, so that mappings were read again */
	size_t known;		/* processes with mappings now */
};
void processes_stats(const struct processes *p, struct processes_stats *out);

#endif
