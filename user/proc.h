/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The /proc that has the numbers of our own pid namespace. */
#ifndef RPROF_PROC_H
#define RPROF_PROC_H

#include <linux/types.h>
#include <stddef.h>

/* Descriptor (O_PATH) of /proc/@pid: stands for this very process, whoever gets its number next.
 * Return: descriptor, or -errno (-ESRCH: no such process).
 */
int proc_open(__u32 pid);

/* Path of @name, relative to /proc, as it is opened from here. */
void proc_path(char *buf, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
