/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Names of the code that processes make themselves, per process (jit.c). */
#ifndef RPROF_JITS_H
#define RPROF_JITS_H

#include <linux/types.h>
#include <stddef.h>

struct jits;
struct modules;
struct spaces;

struct jits *jits_new(struct spaces *spaces, struct modules *modules); /* borrowed */
void jits_free(struct jits *j);

/* Files have not been looked at since. */
void jits_begin_drain(struct jits *j);

/* Name of the code at @addr of process @tgid at @time_ns, malloc'd, or NULL. */
char *jits_find(struct jits *j, __u32 tgid, __u64 addr, __u64 time_ns);

/* How often the process has told new names so far: while it stays the same, so do its names. */
__u64 jits_changes(struct jits *j, __u32 tgid);

void jits_forget(struct jits *j, __u32 tgid);

#endif
