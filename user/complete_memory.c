// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "complete_parts.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "monotonic.h"
#include "proc.h"

#define AHEAD 4	/* pages of one request: one call costs more than the bytes */
#define BEYOND 16 /* pages beyond an edge; three times that is kept */

void complete_memory_begin(struct complete_memory *m, const struct python_memory *source,
			   __u32 tgid, complete_absent_fn *absent, __u64 deadline_ns)
{
	m->source = *source;
	m->tgid = tgid;
	m->absent = absent;
	m->deadline_ns = deadline_ns;
	m->late = m->closed = m->brought = false;
	m->n = 0;
	m->ahead = 1;
}

/* Documentation/admin-guide/mm/pagemap.rst: a word for each page, bit 63: it is present. */
__u64 complete_absent(__u32 tgid, __u64 page, size_t n)
{
	__u64 words[64] = { 0 }, absent = 0;
	char path[64];
	int fd;

	proc_path(path, sizeof(path), "%u/pagemap", tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (pread(fd, words, n * sizeof(*words),
			  (off_t)(page / COMPLETE_PAGE * sizeof(*words))) < 0)
			memset(words, 0, sizeof(words));
		close(fd);
	}
	for (size_t i = 0; i < n; i++)
		absent |= (__u64) !(words[i] >> 63) << i;
	return absent;
}

static const __u8 *find(const struct complete_memory *m, __u64 page)
{
	const size_t n = m->n < COMPLETE_PAGES ? m->n : COMPLETE_PAGES;

	for (size_t i = 0; i < n; i++) {
		const size_t at = (m->n - 1 - i) % COMPLETE_PAGES;

		if (m->addrs[at] == page)
			return m->bytes[at];
	}
	return NULL;
}

/* The page at @page, and those that are wanted next if they are there as well: @n in all. */
static const __u8 *load(struct complete_memory *m, __u64 page, int ahead, size_t n)
{
	struct python_range ranges[BEYOND];
	const size_t first = m->n;
	__u64 absent;
	size_t done;

	if (m->closed)
		return NULL;
	if (monotonic_ns() > m->deadline_ns) {
		m->late = true;
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		const size_t at = (first + i) % COMPLETE_PAGES;

		m->addrs[at] = page + (__u64)(__s64)ahead * i * COMPLETE_PAGE;
		ranges[i] = (struct python_range){ m->addrs[at], m->bytes[at], COMPLETE_PAGE };
	}
	absent = m->absent ? m->absent(m->tgid, ahead > 0 ? page : ranges[n - 1].addr, n) : 0;
	done = m->source.read(m->source.ctx, ranges, n);
	for (size_t i = 0; i < done; i++)
		m->brought |= absent >> (ahead > 0 ? i : n - 1 - i) & 1;
	for (size_t i = done; i < n; i++)
		m->addrs[(first + i) % COMPLETE_PAGES] = ~0ULL;
	m->n = first + n;
	return done ? m->bytes[first % COMPLETE_PAGES] : NULL;
}

void complete_memory_open(struct complete_memory *m)
{
	m->ahead = AHEAD;
}

void complete_memory_beyond(struct complete_memory *m, __u64 addr, size_t len, int ahead)
{
	const __u64 last = ahead > 0 ? addr + len - 1 : addr;
	const __u64 page = last & ~(__u64)(COMPLETE_PAGE - 1);

	load(m, page + (__u64)(__s64)ahead * COMPLETE_PAGE, ahead, BEYOND);
}

bool complete_memory_read(struct complete_memory *m, __u64 addr, void *to, size_t len, int ahead)
{
	__u8 *at = to;

	if (addr + len < addr)
		return false;
	while (len) {
		const __u64 page = addr & ~(__u64)(COMPLETE_PAGE - 1);
		const size_t offset = addr - page;
		const size_t part = len < COMPLETE_PAGE - offset ? len : COMPLETE_PAGE - offset;
		const __u8 *bytes = find(m, page);

		if (!bytes)
			bytes = load(m, page, ahead, m->ahead);
		if (!bytes)
			return false;
		memcpy(at, bytes + offset, part);
		at += part;
		addr += part;
		len -= part;
	}
	return true;
}
