/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of the code that one process made itself, from what it says about it in files. */
#ifndef RPROF_JIT_H
#define RPROF_JIT_H

#include <linux/types.h>

struct jit;

/* jit_new() - for one process, until its next exec. Opens nothing. Return: NULL without memory. */
struct jit *jit_new(void);
void jit_free(struct jit *j);

/*
 * jit_find() - the name of what was at an address that no file is mapped at.
 * @proc_dir: descriptor of /proc/PID, O_PATH will do; -1 if it is gone: what was opened is used
 * @time_ns: when, CLOCK_MONOTONIC
 *
 * Looks in the jitdump, if there is one, then in /tmp/perf-N.map below the process's root, N its
 * number in its own pid namespace. That file must be a regular one, made since the process started
 * and owned by its user or by root; a link is not followed. While it is not there, it is looked for
 * again at most once a second. Both are read on as they grow; what is too much is not read, and of
 * all processes together no more than 256 MiB are kept.
 * A file that is not read is said once, by log_warn().
 * Return: the name, raw bytes without NUL, valid until the next call; NULL if none is known.
 */
const char *jit_find(struct jit *j, int proc_dir, __u64 addr, __u64 time_ns);

/*
 * jit_set_dump() - a mapping of a file named jit-N.dump was seen.
 * @fd: the file, regular, open for reading; taken over. One that is known already is closed.
 */
void jit_set_dump(struct jit *j, int fd);

/*
 * jit_changes() - reads on, and says how often names were added or forgotten so far. While it stays
 * the same, so do the answers of jit_find(); 0: nothing was ever known.
 */
__u64 jit_changes(struct jit *j);

/* Why a file of the process is not read, or not to its end: static text; NULL: nothing is wrong. */
const char *jit_problem(const struct jit *j);

#endif
