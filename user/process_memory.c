/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* struct python_memory of a live process. Reads only: no process is stopped or written to. */
#include "python_memory.h"

#include <stdint.h>
#include <sys/uio.h>

#define BATCH 32	/* ranges of one call; nobody has more */

/* One process_vm_readv(2). It returns what it has at the first range that it cannot read. */
static size_t read_batch(pid_t tgid, const struct python_range *ranges, size_t n)
{
	struct iovec to[BATCH] = { 0 }, from[BATCH] = { 0 };
	size_t done = 0;
	ssize_t got;

	for (size_t i = 0; i < n; i++) {
		to[i] = (struct iovec){ ranges[i].to, ranges[i].len };
		from[i] = (struct iovec){ (void *)(uintptr_t)ranges[i].addr, ranges[i].len };
	}
	got = process_vm_readv(tgid, to, n, from, n, 0);
	while (done < n && got >= 0 && (size_t)got >= ranges[done].len)
		got -= (ssize_t)ranges[done++].len;
	return done;
}

static size_t read_ranges(void *ctx, const struct python_range *ranges, size_t n)
{
	const pid_t tgid = (pid_t)(uintptr_t)ctx;
	size_t done = 0;

	while (done < n) {
		size_t batch = n - done < BATCH ? n - done : BATCH;
		size_t got = read_batch(tgid, ranges + done, batch);

		done += got;
		if (got < batch)
			break;
	}
	return done;
}

struct python_memory python_memory_of(__u32 tgid)
{
	return (struct python_memory){ .ctx = (void *)(uintptr_t)tgid, .read = read_ranges };
}
