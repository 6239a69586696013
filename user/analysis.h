/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From records to the profile: what they mean, at their time, and under which names. Owns all that
 * is known of processes, files and stacks.
 */
#ifndef RPROF_ANALYSIS_H
#define RPROF_ANALYSIS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>

#include "rprof/stop.h"
#include "rprof/record.h"

#include "python_names.h"

struct analysis;
struct completer_stats;
struct processes;
struct profile;
struct pythons;
struct session;

struct analysis_config {
	struct session *session;	/* borrowed */
	bool all, per_thread, subprocesses, demangle, inlines;
	bool no_python, python_required; /* --python */
	bool no_native, native_all;	/* of user frames */
	struct python_style style;
	void *ctx;
	void (*failed)(void *ctx, int err); /* out of memory: what follows may be lost */
};

/* Return: 0 or -errno, logged. */
int analysis_new(const struct analysis_config *config, struct analysis **out);
void analysis_free(struct analysis *a);

/* All that is to be followed is known: sampling begins. */
void analysis_before_start(struct analysis *a);

/* Records of one drain, between the two others. */
void analysis_begin_drain(struct analysis *a);
void analysis_stack(struct analysis *a, const struct rprof_stack *s);
void analysis_sample(struct analysis *a, const struct rprof_sample *s);
void analysis_code(struct analysis *a, const struct rprof_code *c);
void analysis_space(struct analysis *a, const struct rprof_space *s);
void analysis_end_drain(struct analysis *a, bool complete); /* false: the ring holds more */
/* From now on samples of known stacks are counted, and no others: there is no time for more. */
void analysis_hurry(struct analysis *a);

void analysis_tick(struct analysis *a); /* once a second */

/* Readable when files were read that stacks wait for: then analysis_loaded(). */
int analysis_fd(const struct analysis *a);
void analysis_loaded(struct analysis *a);

/* What is still being read is waited for, 10 s at most, and then does without names. */
void analysis_finish(struct analysis *a);
/* The same for 2 s; what is not read then is not in the profile yet. */
void analysis_before_dump(struct analysis *a);

struct processes *analysis_processes(const struct analysis *a);
/* NULL with --python=off. */
const struct pythons *analysis_pythons(const struct analysis *a);
const struct profile *analysis_profile(const struct analysis *a);
/* What was read of stacks that the kernel side could not read to their ends. */
void analysis_completed(const struct analysis *a, struct completer_stats *out);
/* SAMPLE records that reached the profile, and those whose stack was not known. */
void analysis_counts(const struct analysis *a, __u64 *received, __u64 *unknown_stacks);

void analysis_print(const struct analysis *a, FILE *f); /* for --stats: where names came from */

#endif
