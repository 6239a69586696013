// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>

void proc_path(char *buf, size_t size, const char *format, ...)
{
	int len = snprintf(buf, size, "/proc/");
	va_list args;

	va_start(args, format);
	if (len >= 0 && (size_t)len < size)
		vsnprintf(buf + len, size - (size_t)len, format, args);
	va_end(args);
}

int proc_open(__u32 pid)
{
	char path[64];
	int fd;

	proc_path(path, sizeof(path), "%u", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}
