/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * /proc/PID/maps as one consistent picture. The kernel builds it page by page while the process
 * runs on: lines may contradict one another, and when the process exits or execs the text just
 * ends. A cut text must not look like mappings that were removed.
 */
#include "proc_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "target.h"

#define MAX_TEXT (64u << 20)	/* bytes: half a million mappings; vm.max_map_count is 65,530 */
#define CHUNK (64 * 1024)

void proc_maps_init(struct proc_maps *p)
{
	memset(p, 0, sizeof(*p));
}

void proc_maps_fini(struct proc_maps *p)
{
	free(p->entries);
	free(p->text);
	proc_maps_init(p);
}

/* -ENOENT: the process was gone before we looked; ESRCH: since. */
static int gone(int err)
{
	return err == ENOENT ? -ESRCH : -err;
}

static ssize_t read_retry(int fd, void *buf, size_t size)
{
	ssize_t n;

	do
		n = read(fd, buf, size);
	while (n < 0 && errno == EINTR);
	return n;
}

static int read_start_time(int proc_dir, __u64 *ticks)
{
	struct target_stat stat;
	char text[1024];
	ssize_t n;
	int fd;

	fd = openat(proc_dir, "stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return gone(errno);
	n = read_retry(fd, text, sizeof(text));
	close(fd);
	if (n <= 0)
		return -ESRCH;
	if (target_parse_stat(text, (size_t)n, &stat))
		return -EINVAL;
	*ticks = stat.start_time;
	return 0;
}

static int read_text(struct proc_maps *p, int fd, size_t *len)
{
	ssize_t n;

	*len = 0;
	do {
		char *grown;

		if (*len > MAX_TEXT)
			return -EFBIG;
		grown = array_grow(p->text, &p->text_cap, *len + CHUNK, 1);
		if (!grown)
			return -ENOMEM;
		p->text = grown;
		n = read_retry(fd, p->text + *len, p->text_cap - *len);
		if (n < 0)
			return gone(errno);
		*len += (size_t)n;
	} while (n);
	return 0;
}

/* Is the address space still there? Its text would start again from the top. */
static int still_mapped(int fd)
{
	char byte;

	return pread(fd, &byte, 1, 0) == 1 ? 0 : -ENODATA;
}

static int parse_text(struct proc_maps *p, size_t len)
{
	p->n = 0;
	for (size_t at = 0; at < len;) {
		const char *line = p->text + at;
		const char *eol = memchr(line, '\n', len - at);
		size_t line_len = eol ? (size_t)(eol - line) : len - at;
		struct maps_entry *grown;
		struct maps_entry e;

		at += line_len + 1;
		if (maps_parse_line(line, line_len, &e))
			continue;
		/* A mapping that moved while we read: the first line stands. */
		if (p->n && e.start < p->entries[p->n - 1].end)
			continue;
		grown = array_grow(p->entries, &p->cap, p->n + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->entries = grown;
		p->entries[p->n++] = e;
	}
	return p->n ? 0 : -ENODATA;
}

int proc_maps_read(struct proc_maps *p, int proc_dir)
{
	size_t len = 0;
	int fd, err;

	err = read_start_time(proc_dir, &p->start_time);
	if (err)
		return err;
	fd = openat(proc_dir, "maps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return gone(errno);
	err = read_text(p, fd, &len);
	if (!err)
		err = parse_text(p, len);
	if (!err)
		err = still_mapped(fd);
	close(fd);
	return err;
}
