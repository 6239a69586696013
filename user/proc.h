/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The /proc that has the numbers of our own pid namespace. What is mounted there may be another's
 * (unshare -pf without --mount-proc): then a private one takes its place, mounted nowhere.
 */
#ifndef RPROF_PROC_H
#define RPROF_PROC_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * proc_init() - find it; to be called before anything below, and once. Until then, and in unit tests,
 * it is /proc. The descriptor of a private one is closed on exec.
 * Return: 0 or -errno, logged with the reason and the remedy.
 */
int proc_init(void);

/* Is our pid namespace another than the first? Then our numbers are not the kernel's own. */
bool proc_is_nested(void);

/* Descriptor (O_PATH) of /proc/@pid: stands for this very process, whoever gets its number next.
 * Return: descriptor, or -errno (-ESRCH: no such process).
 */
int proc_open(__u32 pid);

/* Path of @name, relative to /proc, as it is opened from here; "" for /proc itself. */
void proc_path(char *buf, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
