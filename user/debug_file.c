/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The paths that are tried are GDB's (its manual, 18.3 "Debugging Information in Separate Files").
 * They are opened as files of a target, so that no link leads out of its root and no pipe holds us.
 */
#include "debug_file.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "debuginfod.h"
#include "elf_symbols.h"
#include "target_file.h"

#define MAX_FILE (16ULL << 30)		/* bytes; only headers and tables of it are read */
#define MAX_SUMMED (1ULL << 30)		/* bytes of a file whose checksum must be made */
#define MAX_SECTION 4096		/* bytes of .gnu_debuglink */

struct search {
	const struct elf_file *own;
	const struct build_id *id;
	const struct module_search *where;
	struct debug_link link;		/* name "": none */
	bool unchecked;			/* the first one that may belong to it will do */
	struct debug_file *out;
};

int debug_link_parse(const void *data, size_t size, struct debug_link *out)
{
	const char *bytes = data;
	size_t len = strnlen(bytes, size < sizeof(out->name) ? size : sizeof(out->name));
	size_t crc_at = (len + 4) & ~(size_t)3; /* after the NUL, at the next multiple of 4 */

	if (!len || len > DEBUG_LINK_NAME_MAX || size < 4 || crc_at > size - 4)
		return -EINVAL;
	if (memchr(bytes, '/', len) || !strcmp(bytes, ".") || !strcmp(bytes, ".."))
		return -EINVAL;
	memset(out->name, 0, sizeof(out->name));
	memcpy(out->name, bytes, len);
	memcpy(&out->crc, bytes + crc_at, sizeof(out->crc));
	return 0;
}

static void read_link(struct search *s)
{
	const Elf64_Shdr *sh = elf_file_named(s->own, ".gnu_debuglink");
	struct debug_link found;
	void *data;
	size_t size;

	if (!sh || elf_file_load(s->own, sh, MAX_SECTION, &data, &size))
		return;
	if (!debug_link_parse(data, size, &found))
		s->link = found;
	free(data);
}

static bool checksum_is(int fd, __u64 size, __u32 crc)
{
	static const size_t chunk = 64 << 10;
	unsigned char *buf;
	uLong sum = crc32(0, NULL, 0);
	__u64 at = 0;

	if (size > MAX_SUMMED)
		return false;
	buf = malloc(chunk);
	while (buf && at < size) {
		ssize_t n = pread(fd, buf, chunk, (off_t)at);

		if (n <= 0)
			break;
		sum = crc32(sum, buf, (uInt)n);
		at += (__u64)n;
	}
	free(buf);
	return at == size && sum == crc;
}

static bool is_the_same_file(const struct elf_file *own, const struct stat *st)
{
	struct stat mine;

	return own->fd >= 0 && !fstat(own->fd, &mine) && mine.st_dev == st->st_dev &&
	       mine.st_ino == st->st_ino;
}

static bool belongs(const struct search *s, const struct debug_file *d, enum symbol_source source)
{
	struct build_id id;

	elf_file_build_id(&d->elf, &id);
	if (id.len && s->id->len)
		return build_id_equal(&id, s->id);
	return source == SYMBOLS_DEBUGLINK_FILE && checksum_is(d->fd, d->elf.size, s->link.crc);
}

/* Takes @fd. */
static bool accept_file(struct search *s, int fd, const struct stat *st, enum symbol_source source)
{
	struct debug_file *d = s->out;

	*d = (struct debug_file){ .fd = fd, .source = source };
	if (!is_the_same_file(s->own, st) && (__u64)st->st_size <= MAX_FILE &&
	    !elf_file_open(&d->elf, fd, (__u64)st->st_size)) {
		if (!elf_file_read_sections(&d->elf) &&
		    (elf_file_typed(&d->elf, SHT_SYMTAB) ||
		     elf_file_named(&d->elf, ".debug_info")) &&
		    elf_file_bias(s->own, &d->elf, &d->bias) &&
		    (s->unchecked || belongs(s, d, source)))
			return true;
		elf_file_fini(&d->elf);
	}
	close(fd);
	d->fd = -1;
	return false;
}

__attribute__((format(printf, 3, 4))) static bool
try_path(struct search *s, enum symbol_source source, const char *fmt, ...)
{
	char path[PATH_MAX];
	struct stat st;
	va_list args;
	int n, fd;

	va_start(args, fmt);
	n = vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(path))
		return false;
	fd = target_file_open_below(s->where->root_fd, path, &st);
	return fd >= 0 && accept_file(s, fd, &st, source);
}

static bool by_build_id(struct search *s)
{
	char hex[2 * BUILD_ID_MAX + 1];

	for (unsigned int i = 0; i < s->id->len; i++)
		snprintf(hex + 2 * i, 3, "%02x", s->id->bytes[i]);
	return s->id->len && try_path(s, SYMBOLS_BUILD_ID_FILE,
				      "usr/lib/debug/.build-id/%.2s/%s.debug", hex, hex + 2);
}

static bool by_link(struct search *s)
{
	const char *path = s->where->path, *name = s->link.name;
	const char *slash = path ? strrchr(path, '/') : NULL;
	int len;

	if (!name[0] || !slash || slash - path >= PATH_MAX)
		return false;
	len = (int)(slash - path);
	return try_path(s, SYMBOLS_DEBUGLINK_FILE, "%.*s/%s", len, path, name) ||
	       try_path(s, SYMBOLS_DEBUGLINK_FILE, "%.*s/.debug/%s", len, path, name) ||
	       try_path(s, SYMBOLS_DEBUGLINK_FILE, "usr/lib/debug/%.*s/%s", len, path, name);
}

static bool by_debuginfod(struct search *s)
{
	struct stat st;
	int fd = debuginfod_fetch(s->id, s->where->stop);

	if (fd < 0)
		return false;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return false;
	}
	return accept_file(s, fd, &st, SYMBOLS_DEBUGINFOD);
}

int debug_file_find(const struct elf_file *own, const struct build_id *id,
		    const struct module_search *where, struct debug_file *out)
{
	struct search s = { .own = own, .id = id, .where = where, .out = out };

	read_link(&s);
	if (where->root_fd >= 0 && (by_build_id(&s) || by_link(&s)))
		return 0;
	if (where->debuginfod && by_debuginfod(&s))
		return 0;
	return -ENOENT;
}

__u64 debug_file_cost(const struct elf_file *own, const struct build_id *id,
		      const struct module_search *where)
{
	struct debug_file d;
	struct search s = { .own = own, .id = id, .where = where, .unchecked = true, .out = &d };
	struct build_id theirs;
	__u64 cost;

	read_link(&s);
	if (where->root_fd < 0 || (!by_build_id(&s) && !by_link(&s)))
		return 0;
	cost = elf_symbols_table_size(&d.elf, SHT_SYMTAB);
	elf_file_build_id(&d.elf, &theirs);
	/* Then all of it, for its checksum. */
	if (!id->len || !theirs.len)
		cost = cost > d.elf.size ? cost : d.elf.size;
	debug_file_fini(&d);
	return cost;
}

void debug_file_fini(struct debug_file *d)
{
	elf_file_fini(&d->elf);
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}
