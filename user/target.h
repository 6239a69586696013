/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_TARGET_H
#define RPROF_TARGET_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/* What /proc says of a task that somebody wants to follow. */
enum target_state {
	TARGET_OK,
	TARGET_GONE,		/* no such process or thread */
	TARGET_ZOMBIE,
	TARGET_KTHREAD,		/* has kernel stacks only: can be followed */
	TARGET_THREAD,		/* the id is a thread's, not its process's */
};

/*
 * target_look() - what is @pid?
 * @tgid: its process
 */
enum target_state target_look(__u32 pid, __u32 *tgid);

/*
 * target_descendants() - the processes that @roots started, and those that these did, and so on, as
 * far as they are still below them: one pass over /proc.
 * @ids: the roots that are there and the others, sorted; malloc'd
 * Return: 0 or -errno.
 */
int target_descendants(const __u32 *roots, size_t n_roots, __u32 **ids, size_t *n);

/* Have all threads of process @tgid ended? A first thread may be a zombie long before the others. */
bool target_has_ended(__u32 tgid);
/* Is @tid a thread of @tgid, both numbers of our pid namespace? */
bool target_has_thread(__u32 tgid, __u32 tid);

/* Of a /proc/PID/stat, proc(5). */
struct target_stat {
	char state;
	__u32 ppid;
	unsigned long flags;
	__u64 start_time;	/* ticks since boot */
};

/* target_parse_stat() - the text of one, which need not be NUL-terminated. 0 or -EINVAL. Pure. */
int target_parse_stat(const char *text, size_t len, struct target_stat *out);

#endif
