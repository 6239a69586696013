/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "array.h"
#include "escape.h"
#include "idmap.h"
#include "log.h"
#include "maps.h"
#include "module.h"
#include "strset.h"
#include "target_file.h"

#define MAX_MODULES 65536	/* a target can map new files for ever */
#define MAX_OPEN 4096		/* files kept open unread */
#define MAX_NAME 255		/* NAME_MAX */
#define MAX_PATH 4096		/* PATH_MAX */
#define MAX_VDSO (1u << 20)

/* For the tables of all files together; less where that is more than a quarter of the memory. */
#define MAX_TABLES (2ULL << 30)

struct entry {
	__u64 inode;
	__u64 dev;
	const char *path;	/* without " (deleted)" */
	const char *name;	/* for people */
	__u32 next;		/* another file of the same key; 0: none */
	bool has_stat;		/* size and mtime are known */
	off_t size;
	struct timespec mtime;
	struct module *module;	/* NULL: no ELF file of ours, or not opened */
	bool tried;		/* opened once: that it is no ELF file will not change */
	__u32 tgid;		/* where it was mapped last: to open it again */
	__u64 start;
	__u64 end;
};

struct modules {
	struct entry *entries;	/* [0] stands for "no file" */
	size_t n;
	size_t cap;
	struct idmap by_file;	/* (inode, device) to the first entry */
	struct idmap by_device;	/* to its enum target_file_place */
	struct strset strings;
	size_t n_open;
	size_t max_open;
	bool full;		/* said so */
	__u64 budget;		/* what tables may take still, bytes */
	bool over_budget;	/* said so */
	size_t n_remote;	/* files not opened because of where they are */
};

static __u64 table_budget(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	__u64 quarter = pages > 0 && size > 0 ? (__u64)pages * (__u64)size / 4 : MAX_TABLES;

	return quarter < MAX_TABLES ? quarter : MAX_TABLES;
}

struct modules *modules_new(void)
{
	struct modules *m = calloc(1, sizeof(*m));
	struct rlimit limit;

	if (!m)
		return NULL;
	strset_init(&m->strings);
	idmap_init(&m->by_file);
	idmap_init(&m->by_device);
	m->budget = table_budget();
	m->entries = array_grow(NULL, &m->cap, 1, sizeof(*m->entries));
	if (!m->entries) {
		free(m);
		return NULL;
	}
	m->entries[m->n++] = (struct entry){ .path = "", .name = "[anon]", .tried = true };
	m->max_open = MAX_OPEN;
	/* Half of what we may have is for others: events, maps, output. */
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < m->max_open)
		m->max_open = limit.rlim_cur / 2;
	return m;
}

void modules_free(struct modules *m)
{
	if (!m)
		return;
	if (m->n_remote)
		log_debug("modules: no symbols: file on a network or user-space file system: %zu",
			  m->n_remote);
	for (size_t i = 0; i < m->n; i++)
		module_free(m->entries[i].module);
	free(m->entries);
	idmap_fini(&m->by_file);
	idmap_fini(&m->by_device);
	strset_fini(&m->strings);
	free(m);
}

/*
 * Base name of a path from maps. A newline is \\012 there, and so is the text "\\012" (show_map_vma()
 * in fs/proc/task_mmu.c escapes nothing else): the file itself, @path_fd if >= 0, says which.
 */
static const char *short_name(struct modules *m, const char *path, int path_fd)
{
	char name[MAX_NAME + 1], raw[MAX_PATH];
	const char *slash;

	if (path_fd >= 0 && strstr(path, "\\012") && !target_file_path(path_fd, raw, sizeof(raw)))
		path = raw;
	slash = strrchr(path, '/');
	snprintf(name, sizeof(name), "%.*s", MAX_NAME, slash && slash[1] ? slash + 1 : path);
	return strset_add(&m->strings, name);
}

/* The path of the mapping, without the mark of a deleted file; NULL: no memory or too long. */
static const char *path_of(struct modules *m, const struct maps_entry *e)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;
	size_t len = e->path_len;
	char path[4 * 4096 + 1];	/* PATH_MAX, each byte escaped */

	if (len > mark && !memcmp(e->path + len - mark, deleted, mark))
		len -= mark;
	if (len >= sizeof(path))
		return NULL;
	memcpy(path, e->path, len);
	path[len] = '\0';
	return strset_add(&m->strings, path);
}

/* Every process has the same one, and ours is not the target's to change. */
static int open_vdso(const struct maps_entry *e)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size = (size_t)(e->end - e->start);
	int fd;

	if (!image || e->end - e->start > MAX_VDSO)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* EFAULT if ours is shorter than the target's: then it is not the same. */
	if (write(fd, image, size) != (ssize_t)size) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

/* Takes @fd. */
static void attach(struct modules *m, struct entry *e, int fd)
{
	e->tried = true;
	if (module_open(fd, &e->module)) {
		e->module = NULL;
		return;
	}
	if (m->n_open >= m->max_open)
		module_close_file(e->module);
	else
		m->n_open++;
}

static bool same_stat(const struct entry *e, const struct stat *st)
{
	return !st || !e->has_stat ||
	       (e->size == st->st_size && e->mtime.tv_sec == st->st_mtim.tv_sec &&
		e->mtime.tv_nsec == st->st_mtim.tv_nsec);
}

static __u64 device_of(const struct maps_entry *e)
{
	return (__u64)e->dev_major << 32 | e->dev_minor;
}

static __u32 lookup(const struct modules *m, const struct maps_entry *e, const char *path,
		    const struct stat *st)
{
	__u32 i = 0;

	if (!idmap_find(&m->by_file, e->inode, device_of(e), &i))
		return 0;
	for (; i; i = m->entries[i].next) {
		if (m->entries[i].path == path && same_stat(&m->entries[i], st))
			return i;
	}
	return 0;
}

static __u32 add_entry(struct modules *m, const struct maps_entry *e, const char *path, int path_fd,
		       const struct stat *st)
{
	struct entry *grown;
	__u32 first = 0;

	if (m->n >= MAX_MODULES) {
		if (!m->full)
			log_warn("modules: more than %d mapped files: no names for further ones",
				 MAX_MODULES);
		m->full = true;
		return 0;
	}
	grown = array_grow(m->entries, &m->cap, m->n + 1, sizeof(*grown));
	if (!grown)
		return 0;
	m->entries = grown;
	idmap_find(&m->by_file, e->inode, device_of(e), &first);
	if (idmap_put(&m->by_file, e->inode, device_of(e), (__u32)m->n))
		return 0;
	grown[m->n] = (struct entry){
		.inode = e->inode,
		.dev = device_of(e),
		.path = path,
		.name = short_name(m, path, path_fd),
		.next = first,
		.has_stat = st,
	};
	if (!grown[m->n].name)
		grown[m->n].name = "[unknown]";
	if (st) {
		grown[m->n].size = st->st_size;
		grown[m->n].mtime = st->st_mtim;
	}
	return (__u32)m->n++;
}

static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]");
}

static bool has_name(const char *path)
{
	/* "[anon:...]" is the target's text, and no file. */
	return path[0] == '/' || is_vdso(path) || !strcmp(path, "[vsyscall]") ||
	       !strcmp(path, "[uprobes]");
}

static void explain_unopened(const struct entry *entry, __u32 tgid, int err)
{
	char *name = escape_string(entry->name, strlen(entry->name));

	log_debug("modules: %s: mapped by process %u, cannot be opened: %s", name ? name : "?",
		  tgid, strerror(-err));
	free(name);
}

static enum target_file_place place_of(struct modules *m, int proc_dir, const struct maps_entry *e)
{
	__u32 place;

	if (idmap_find(&m->by_device, device_of(e), 0, &place))
		return place;
	place = target_file_place(proc_dir, e);
	/* Without memory it is looked up again. */
	idmap_put(&m->by_device, device_of(e), 0, place);
	return place;
}

static void explain_remote(struct modules *m, struct entry *entry)
{
	char *name = escape_string(entry->name, strlen(entry->name));

	/* Whether it would answer changes, but nobody says so. */
	entry->tried = true;
	m->n_remote++;
	log_debug("modules: %s: no symbols: file on a network or user-space file system",
		  name ? name : "?");
	free(name);
}

/* Of a file seen for the first time. @path_fd: -errno if it could not be found. */
static void open_first(struct modules *m, struct entry *entry, __u32 tgid,
		       const struct maps_entry *e, int path_fd)
{
	int fd = -ENOENT;

	if (path_fd >= 0)
		fd = target_file_open(path_fd);
	else if (is_vdso(entry->path))
		fd = open_vdso(e);
	if (fd >= 0)
		attach(m, entry, fd);
	else if (entry->path[0] == '/')
		explain_unopened(entry, tgid, path_fd >= 0 ? fd : path_fd);
}

__u32 modules_add(struct modules *m, int proc_dir, __u32 tgid, const struct maps_entry *e)
{
	enum target_file_place place = TARGET_FILE_LOCAL;
	const char *path = path_of(m, e);
	int path_fd = -ENOENT;
	struct entry *entry;
	struct stat st;
	__u32 index;

	if (!path || !has_name(path))
		return 0;
	if (path[0] == '/')
		place = place_of(m, proc_dir, e);
	if (path[0] == '/' && place != TARGET_FILE_REMOTE)
		path_fd = target_file_find(proc_dir, e, path, &st);
	index = lookup(m, e, path, path_fd >= 0 ? &st : NULL);
	if (!index)
		index = add_entry(m, e, path, path_fd, path_fd >= 0 ? &st : NULL);
	entry = &m->entries[index];
	if (index && !entry->tried) {
		if (place == TARGET_FILE_REMOTE || (place == TARGET_FILE_UNKNOWN && path_fd >= 0 &&
						    target_file_is_remote(path_fd)))
			explain_remote(m, entry);
		else
			open_first(m, entry, tgid, e, path_fd);
	}
	if (index && (path_fd >= 0 || !entry->tgid)) {
		entry->tgid = tgid;
		entry->start = e->start;
		entry->end = e->end;
	}
	if (path_fd >= 0)
		close(path_fd);
	return index;
}

bool modules_same_file(const struct modules *m, __u32 a, __u32 b)
{
	const struct entry *x = &m->entries[a], *y = &m->entries[b];

	if (a == b)
		return true;
	if (!a || !b || x->inode != y->inode || x->dev != y->dev || !x->inode)
		return false;
	return !x->has_stat || !y->has_stat ||
	       (x->size == y->size && x->mtime.tv_sec == y->mtime.tv_sec &&
		x->mtime.tv_nsec == y->mtime.tv_nsec);
}

/* Open a file again that was closed to save descriptors, or could not be opened before. */
static void open_again(struct modules *m, struct entry *e)
{
	struct maps_entry where = {
		.start = e->start,
		.end = e->end,
		.inode = e->inode,
		.dev_major = (__u32)(e->dev >> 32),
		.dev_minor = (__u32)e->dev,
	};
	char proc[32];
	int dir, path_fd = -1, fd = -1;
	struct stat st;

	snprintf(proc, sizeof(proc), "/proc/%u", e->tgid);
	dir = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0)
		path_fd = target_file_find(dir, &where, e->path, &st);
	if (path_fd >= 0 && same_stat(e, &st))
		fd = target_file_open(path_fd);
	if (path_fd >= 0)
		close(path_fd);
	if (dir >= 0)
		close(dir);
	if (fd < 0)
		return;
	e->tried = true;
	if (e->module)
		module_reopen_file(e->module, fd);
	else if (module_open(fd, &e->module))
		e->module = NULL;
	/* Open for a moment only: the caller loads it, which closes it. */
	m->n_open += e->module != NULL;
}

static void load(struct modules *m, const struct entry *e)
{
	char *name;

	if (module_load_within(e->module, &m->budget) != -E2BIG || m->over_budget)
		return;
	m->over_budget = true;
	name = escape_string(e->name, strlen(e->name));
	log_warn("modules: %s: no symbols, the tables of all files are too large together "
		 "(%llu MiB at most): the same for further ones",
		 name ? name : "?", (unsigned long long)(table_budget() >> 20));
	free(name);
}

struct module *modules_get(struct modules *m, __u32 index)
{
	struct entry *e;

	if (!index || index >= m->n)
		return NULL;
	e = &m->entries[index];
	if (e->path[0] == '/' && (!e->tried || (e->module && !module_is_loaded(e->module) &&
						!module_has_file(e->module))))
		open_again(m, e);
	if (e->module && !module_is_loaded(e->module)) {
		/* Reads what it needs and closes the file. */
		if (module_has_file(e->module) && m->n_open)
			m->n_open--;
		load(m, e);
	}
	return e->module;
}

int modules_vaddr(const struct modules *m, __u32 index, __u64 file_offset, __u64 *vaddr)
{
	if (!index || index >= m->n || !m->entries[index].module)
		return -ENOENT;
	return module_vaddr(m->entries[index].module, file_offset, vaddr);
}

const char *modules_name(const struct modules *m, __u32 index)
{
	return index < m->n ? m->entries[index].name : "[unknown]";
}
