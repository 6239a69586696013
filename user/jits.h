/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Names of the code that processes make themselves, per process (jit.c). What is at an address
 * changes there while its stacks stay the same, so stacks with such code are kept, and looked at
 * again when their process has told new names.
 */
#ifndef RPROF_JITS_H
#define RPROF_JITS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct jits;
struct located;
struct modules;
struct spaces;

struct jits *jits_new(struct spaces *spaces, struct modules *modules); /* borrowed */
void jits_free(struct jits *j);

/* Files have not been looked at since. */
void jits_begin_drain(struct jits *j);

/* Name of the code at @addr of process @tgid at @time_ns, malloc'd, or NULL. */
char *jits_find(struct jits *j, __u32 tgid, __u64 addr, __u64 time_ns);

/*
 * jits_keep() - a stack with code of its process.
 * @l: taken over if the answer is true; false: its process tells no names, or there are too many
 */
bool jits_keep(struct jits *j, struct located *l);
/*
 * jits_changed() - the stack @id of process @tgid, if it reads another way at @time_ns than when
 * it was kept or changed last; NULL. Its names are the new ones.
 */
const struct located *jits_changed(struct jits *j, __u64 id, __u32 tgid, __u64 time_ns);

void jits_forget(struct jits *j, __u32 tgid);

#endif
