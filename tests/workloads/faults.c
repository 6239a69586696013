/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Preloaded into the profiler: makes fail, or hang, what does not fail by itself. $FAULT says what;
 * with $FAULT_FILE it does so once each time that this file appears, which it removes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rawcall.h"

void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

/* Without libc's function, which is replaced below. */
static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	long result = raw_call(number, a, b, c, d, e, f);

	if (result > -4096 && result < 0) {
		errno = -result;
		return -1;
	}
	return result;
}

static bool fails(const char *what)
{
	const char *fault = getenv("FAULT"), *file = getenv("FAULT_FILE");

	if (!fault || strcmp(fault, what))
		return false;
	return !file || !unlink(file);
}

void *calloc(size_t n, size_t size)
{
	if (fails("memory")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	if (fails("memory")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size)
{
	if (fails("memory") || fails("reallocarray")) {
		errno = ENOMEM;
		return NULL;
	}
	return __libc_realloc(p, n * size);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout)
{
	if (fails("epoll_wait")) {
		errno = EIO;
		return -1;
	}
	return raw(SYS_epoll_pwait, fd, (long)events, n, timeout, 0, 8);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	while (fails("renameat"))
		pause();
	return raw(SYS_renameat, from_dir, (long)from, to_dir, (long)to, 0, 0);
}

long syscall(long number, ...)
{
	long a[6];
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (number == SYS_perf_event_open && fails("perf_event_open")) {
		errno = EACCES;
		return -1;
	}
	if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && fails("prog_load")) {
		errno = EINVAL;
		return -1;
	}
	return raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
