/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_MAPS_H
#define RPROF_MAPS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

/* One line of /proc/PID/maps (Documentation/filesystems/proc.rst). */
struct maps_entry {
	__u64 start;
	__u64 end;
	__u64 pgoff;		/* bytes into the file */
	__u64 inode;
	__u32 dev_major;
	__u32 dev_minor;
	bool readable, writable, executable, shared;
	const char *path;	/* into the line, not NUL-terminated; may be empty */
	size_t path_len;
};

/*
 * maps_parse_line() - parse one line of /proc/PID/maps.
 * @line: text of @len bytes without the newline; hostile input
 * @e: result; @e->path points into @line
 *
 * Return: 0, or -EINVAL if malformed (also start >= end). Does not allocate, log or do I/O.
 */
int maps_parse_line(const char *line, size_t len, struct maps_entry *e);

#endif
