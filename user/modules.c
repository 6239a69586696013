/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "modules.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "array.h"
#include "escape.h"
#include "idmap.h"
#include "loader.h"
#include "log.h"
#include "maps.h"
#include "module.h"
#include "module_file.h"
#include "monotonic.h"
#include "proc.h"
#include "roots.h"

#define MAX_MODULES 65536	/* mapped at one time: a target can map new files for ever */
#define MAX_IDLE 1024		/* files that nothing maps any more */
#define MAX_OPEN 4096		/* files kept open unread */

/* For the tables of all files together; less where that is more than a quarter of the memory. */
#define MAX_TABLES (2ULL << 30)

enum entry_state {
	ENTRY_NEW,		/* not opened yet, or it could not be */
	ENTRY_OPEN,		/* its file is open, or can be opened again */
	ENTRY_LOADING,		/* the thread's */
	ENTRY_DONE,		/* read, or known to be unreadable */
};

struct entry {
	__u32 number;
	__u32 next;		/* another file of the same key; 0: none */
	__u64 inode;
	__u64 dev;
	char *path;		/* without " (deleted)" */
	char *name;		/* for people */
	bool has_stat;		/* size and mtime are known */
	off_t size;
	struct timespec mtime;
	enum entry_state state;
	struct module *module;	/* NULL: no ELF file of ours, or not opened */
	bool counts_open;	/* in n_open */
	__u64 taken;		/* of the budget, bytes */
	const char *why;	/* it has no symbols, if known without a module; static */
	int root;		/* of roots, until it is read; -1 */
	size_t in_root;		/* where in .path that begins which is below the root */
	__u32 tgid;		/* where it was mapped last: to open it again */
	__u64 start;
	__u64 end;
	size_t refs;
	struct entry *older, *newer;	/* idle ones, by when they became so */
};

struct modules {
	struct modules_config config;
	struct entry **entries;
	size_t n, cap;
	__u32 last_number;
	struct idmap by_number;	/* to an index of entries */
	struct idmap by_file;	/* (inode, device) to the number of the first entry */
	struct idmap by_device;	/* to its enum target_file_place */
	struct roots roots;
	struct entry *oldest, *newest;	/* idle */
	size_t n_idle;
	size_t n_open, max_open;
	bool full;		/* said so */
	__u64 budget;		/* what tables may take still, bytes; the thread takes from it */
	bool over_budget;	/* said so */
	struct loader *loader;	/* NULL: none */
	size_t n_read;		/* files whose tables were read, */
	__u64 read_ns;		/* how long that took, */
	__u64 read_bytes;	/* and what they held */
};

static __u64 table_budget(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	__u64 quarter = pages > 0 && size > 0 ? (__u64)pages * (__u64)size / 4 : MAX_TABLES;

	return quarter < MAX_TABLES ? quarter : MAX_TABLES;
}

struct modules *modules_new(const struct modules_config *config)
{
	struct modules *m = calloc(1, sizeof(*m));
	struct rlimit limit;

	if (!m)
		return NULL;
	m->config = *config;
	idmap_init(&m->by_number);
	idmap_init(&m->by_file);
	idmap_init(&m->by_device);
	m->budget = table_budget();
	m->max_open = MAX_OPEN;
	/* Half of what we may have is for others: events, maps, output. */
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < m->max_open)
		m->max_open = limit.rlim_cur / 2;
	/* Without it everything is read at once. */
	if (config->keep_going)
		m->loader = loader_new();
	return m;
}

static struct entry *find(const struct modules *m, __u32 number)
{
	__u32 i;

	return idmap_find(&m->by_number, number, 0, &i) ? m->entries[i] : NULL;
}

static void free_entry(struct entry *e)
{
	module_free(e->module);
	free(e->path);
	free(e->name);
	free(e);
}

void modules_free(struct modules *m)
{
	if (!m)
		return;
	/* First: it may be reading one of them. */
	loader_free(m->loader);
	for (size_t i = 0; i < m->n; i++)
		free_entry(m->entries[i]);
	free(m->entries);
	roots_fini(&m->roots);
	idmap_fini(&m->by_number);
	idmap_fini(&m->by_file);
	idmap_fini(&m->by_device);
	free(m);
}

/* Its file is read or given up. */
static void let_file_go(struct modules *m, struct entry *e)
{
	roots_unref(&m->roots, e->root);
	e->root = -1;
	m->n_open -= e->counts_open;
	e->counts_open = false;
}

static void unlink_idle(struct modules *m, struct entry *e)
{
	*(e->older ? &e->older->newer : &m->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &m->newest) = e->older;
	e->older = e->newer = NULL;
	m->n_idle--;
}

/* Take @e out of the list of files with its key. */
static void unlink_file(struct modules *m, struct entry *e)
{
	struct entry *at;
	__u32 first = 0;

	idmap_find(&m->by_file, e->inode, e->dev, &first);
	if (first == e->number) {
		if (e->next)
			idmap_put(&m->by_file, e->inode, e->dev, e->next);
		else
			idmap_remove(&m->by_file, e->inode, e->dev);
		return;
	}
	for (at = find(m, first); at && at->next != e->number;)
		at = find(m, at->next);
	if (at)
		at->next = e->next;
}

static void evict(struct modules *m, struct entry *e)
{
	__u32 i = 0;

	unlink_idle(m, e);
	unlink_file(m, e);
	let_file_go(m, e);
	__atomic_fetch_add(&m->budget, e->taken, __ATOMIC_RELAXED);
	idmap_find(&m->by_number, e->number, 0, &i);
	idmap_remove(&m->by_number, e->number, 0);
	m->entries[i] = m->entries[--m->n];
	if (i < m->n)
		idmap_put(&m->by_number, m->entries[i]->number, 0, i);
	free_entry(e);
}

void modules_ref(struct modules *m, __u32 number)
{
	struct entry *e = find(m, number);

	if (e && !e->refs++)
		unlink_idle(m, e);
}

static void become_idle(struct modules *m, struct entry *e)
{
	e->older = m->newest;
	*(m->newest ? &m->newest->newer : &m->oldest) = e;
	m->newest = e;
	m->n_idle++;
}

void modules_unref(struct modules *m, __u32 number)
{
	struct entry *e = find(m, number);

	if (!e || --e->refs)
		return;
	become_idle(m, e);
	if (m->n_idle > MAX_IDLE)
		evict(m, m->oldest);
}

/* Takes @fd. */
static void attach(struct modules *m, struct entry *e, int fd)
{
	if (module_open(fd, &e->module)) {
		e->module = NULL;
		e->state = ENTRY_DONE;
		e->why = "not an ELF file of this machine";
		return;
	}
	e->state = ENTRY_OPEN;
	e->counts_open = m->n_open < m->max_open;
	m->n_open += e->counts_open;
	if (!e->counts_open)
		module_close_file(e->module);
}

static bool equal_stat(const struct entry *e, const struct stat *st)
{
	return e->size == st->st_size && e->mtime.tv_sec == st->st_mtim.tv_sec &&
	       e->mtime.tv_nsec == st->st_mtim.tv_nsec;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * The kernel shows a path from the root of whoever looks (maps) or runs (events), so only its end
 * need be the same.
 */
static bool is_file(const struct entry *e, const char *path, const struct stat *st)
{
	if (path[0] != '/' || !st || !e->has_stat)
		return !st == !e->has_stat && !strcmp(e->path, path);
	return equal_stat(e, st) && !strcmp(base_name(e->path), base_name(path));
}

static __u64 device_of(const struct maps_entry *e)
{
	return (__u64)e->dev_major << 32 | e->dev_minor;
}

static struct entry *lookup(const struct modules *m, const struct maps_entry *e, const char *path,
			    const struct stat *st)
{
	struct entry *at;
	__u32 number = 0;

	idmap_find(&m->by_file, e->inode, device_of(e), &number);
	for (at = find(m, number); at; at = find(m, at->next)) {
		if (is_file(at, path, st))
			return at;
	}
	return NULL;
}

static bool has_room(struct modules *m)
{
	struct entry **grown;

	if (m->n >= MAX_MODULES && m->oldest)
		evict(m, m->oldest);
	if (m->n >= MAX_MODULES) {
		if (!m->full)
			log_warn("modules: more than %d mapped files: no names for further ones",
				 MAX_MODULES);
		m->full = true;
		return false;
	}
	grown = array_grow(m->entries, &m->cap, m->n + 1, sizeof(*grown));
	if (grown)
		m->entries = grown;
	return grown;
}

/* Takes @path. */
static struct entry *add_entry(struct modules *m, const struct maps_entry *map, char *path,
			       const struct module_file *f)
{
	struct entry *e = has_room(m) ? calloc(1, sizeof(*e)) : NULL;

	if (!e) {
		free(path);
		return NULL;
	}
	*e = (struct entry){
		.number = m->last_number + 1,
		.inode = map->inode,
		.dev = device_of(map),
		.path = path,
		.name = module_file_name(path, f->path_fd),
		.has_stat = f->has_stat,
		.root = -1,
		.refs = 1,
	};
	if (f->has_stat) {
		e->size = f->st.st_size;
		e->mtime = f->st.st_mtim;
	}
	idmap_find(&m->by_file, e->inode, e->dev, &e->next);
	if (!e->name || idmap_put(&m->by_number, e->number, 0, (__u32)m->n) ||
	    idmap_put(&m->by_file, e->inode, e->dev, e->number)) {
		idmap_remove(&m->by_number, e->number, 0);
		free_entry(e);
		return NULL;
	}
	m->last_number++;
	m->entries[m->n++] = e;
	return e;
}

static void explain_unopened(const struct entry *e, __u32 tgid)
{
	char *name = escape_string(e->name, strlen(e->name));

	log_debug("modules: %s: no symbols: %s (mapped by process %u)", name ? name : "?", e->why,
		  tgid);
	free(name);
}

/* Of a file that is not open yet. */
static void open_first(struct modules *m, struct entry *e, int proc_dir, __u32 tgid,
		       const struct maps_entry *map, struct module_file *f)
{
	const char *before = e->why;

	module_file_open(f, map, e->path);
	if (f->fd >= 0) {
		if (e->path[0] == '/')
			e->root = roots_add(&m->roots, proc_dir);
		e->in_root = (size_t)(module_file_in_root(proc_dir, e->path) - e->path);
		if (e->root < 0)
			e->root = -1;
		attach(m, e, f->fd);
		f->fd = -1;
		if (!e->module)
			let_file_go(m, e);
		return;
	}
	e->why = f->why;
	/* Whether a remote file would answer changes, but nobody says so. */
	if (f->has_stat || e->path[0] != '/')
		e->state = ENTRY_DONE;
	if (!before && e->path[0] == '/')
		explain_unopened(e, tgid);
}

__u32 modules_add(struct modules *m, int proc_dir, __u32 tgid, const struct maps_entry *map)
{
	char *path = module_file_path(map);
	struct module_file f;
	struct entry *e;

	if (!path || !module_file_has_name(path)) {
		free(path);
		return 0;
	}
	module_file_find(&f, proc_dir, map, path, &m->by_device);
	e = lookup(m, map, path, f.has_stat ? &f.st : NULL);
	if (e) {
		free(path);
		modules_ref(m, e->number);
	} else {
		e = add_entry(m, map, path, &f);
	}
	if (e && e->state == ENTRY_NEW)
		open_first(m, e, proc_dir, tgid, map, &f);
	if (e && (f.has_stat || !e->tgid)) {
		e->tgid = tgid;
		e->start = map->start;
		e->end = map->end;
	}
	if (f.fd >= 0)
		close(f.fd);
	module_file_close(&f);
	return e ? e->number : 0;
}

bool modules_same_file(const struct modules *m, __u32 a, __u32 b)
{
	const struct entry *x = find(m, a), *y = find(m, b);

	if (a == b)
		return true;
	if (!x || !y || x->inode != y->inode || x->dev != y->dev || !x->inode)
		return false;
	return !x->has_stat || !y->has_stat ||
	       (x->size == y->size && x->mtime.tv_sec == y->mtime.tv_sec &&
		x->mtime.tv_nsec == y->mtime.tv_nsec);
}

/* Is it the file that was seen first? A @growing one need not be as it was. */
static bool is_again(const struct entry *e, const struct stat *st, bool growing)
{
	return growing ? st->st_size >= e->size : equal_stat(e, st);
}

/* The file once more; f->fd is the caller's. */
static void find_again(struct modules *m, const struct entry *e, bool growing,
		       struct module_file *f)
{
	const struct maps_entry map = {
		.start = e->start,
		.end = e->end,
		.inode = e->inode,
		.dev_major = (__u32)(e->dev >> 32),
		.dev_minor = (__u32)e->dev,
	};
	int dir = proc_open(e->tgid);

	module_file_find(f, dir < 0 ? -1 : dir, &map, e->path, &m->by_device);
	/* A file that was never seen is proven by the process that maps it alone. */
	if (f->has_stat && (e->has_stat ? is_again(e, &f->st, growing) : dir >= 0)) {
		module_file_open(f, &map, e->path);
	} else if (f->fd >= 0) {
		close(f->fd);
		f->fd = -1;
	}
	module_file_close(f);
	if (dir >= 0)
		close(dir);
}

/* Open a file again that was closed to save descriptors. */
static void open_again(struct modules *m, struct entry *e)
{
	struct module_file f;

	find_again(m, e, false, &f);
	if (f.fd < 0)
		return;
	if (!e->module)
		attach(m, e, f.fd);
	else
		module_reopen_file(e->module, f.fd);
}

int modules_open(struct modules *m, __u32 number)
{
	const struct entry *e = find(m, number);
	struct module_file f;

	if (!e || e->path[0] != '/')
		return -ENOENT;
	find_again(m, e, true, &f);
	return f.fd >= 0 ? f.fd : -ESTALE;
}

static void explain_budget(struct modules *m, const struct entry *e)
{
	char *name;

	if (m->over_budget)
		return;
	m->over_budget = true;
	name = escape_string(e->name, strlen(e->name));
	log_warn("modules: %s: no symbols, the tables of all files are too large together "
		 "(%llu MiB at most): the same for further ones",
		 name ? name : "?", (unsigned long long)(table_budget() >> 20));
	free(name);
}

/* @taken: bytes, off the budget already */
static void loaded(struct modules *m, struct entry *e, int result, __u64 taken)
{
	struct module_report report;

	e->state = ENTRY_DONE;
	e->taken = taken;
	let_file_go(m, e);
	module_report(e->module, &report);
	m->n_read++;
	m->read_ns += report.load_ns;
	m->read_bytes += report.bytes;
	if (result == -E2BIG)
		explain_budget(m, e);
}

static struct module_search search_of(const struct modules *m, const struct entry *e)
{
	return (struct module_search){
		.root_fd = roots_fd(&m->roots, e->root),
		.path = e->path + e->in_root,
		.debuginfod = m->config.debuginfod,
		.want_dwarf = m->config.want_dwarf,
		.stop = m->loader ? loader_stop(m->loader) : NULL,
	};
}

/* Give it to the thread, if there is one. Without memory for that, some other time. */
static bool load_later(struct modules *m, struct entry *e)
{
	struct loader_job *job;

	if (!m->loader)
		return false;
	job = calloc(1, sizeof(*job));
	if (!job)
		return true;
	*job = (struct loader_job){
		.module = e->module,
		.where = search_of(m, e),
		.budget = &m->budget,
		.owner = e,
	};
	if (loader_give(m->loader, job)) {
		free(job);
		return false;
	}
	e->state = ENTRY_LOADING;
	e->refs++; /* the thread's; the caller has one, so it is not idle */
	return true;
}

/* Files that nothing maps make room for one that is needed. */
static void make_room(struct modules *m, const struct entry *e)
{
	__u64 size = module_table_size(e->module);

	/* What is said to be larger than its file is refused anyway. */
	while (m->oldest && size < MAX_TABLES &&
	       size > __atomic_load_n(&m->budget, __ATOMIC_RELAXED))
		evict(m, m->oldest);
}

static int load(struct modules *m, struct entry *e)
{
	struct module_search where;
	__u64 before;
	int err;

	if (!module_has_file(e->module))
		open_again(m, e);
	if (!module_has_file(e->module)) {
		e->why = "its file was closed to save descriptors, and is gone (raise ulimit -n)";
		return 0;
	}
	make_room(m, e);
	if (load_later(m, e))
		return -EAGAIN;
	where = search_of(m, e);
	before = m->budget;
	err = module_load_within(e->module, &where, &m->budget);
	loaded(m, e, err, before - m->budget);
	return 0;
}

int modules_get(struct modules *m, __u32 number, struct module **out)
{
	struct entry *e = find(m, number);
	int err = 0;

	*out = NULL;
	if (!e)
		return 0;
	if (e->state == ENTRY_NEW && e->path[0] == '/')
		open_again(m, e);
	if (e->state == ENTRY_OPEN)
		err = load(m, e);
	if (e->state == ENTRY_LOADING)
		return -EAGAIN;
	*out = e->module;
	return err;
}

int modules_fd(const struct modules *m)
{
	return m->loader ? loader_fd(m->loader) : -1;
}

void modules_loaded(struct modules *m)
{
	struct loader_job *job;

	while (m->loader && (job = loader_take(m->loader))) {
		struct entry *e = job->owner;

		loaded(m, e, job->result, job->taken);
		modules_unref(m, e->number);
		free(job);
	}
}

bool modules_wait(struct modules *m, __u64 timeout_ns)
{
	__u64 end = monotonic_ns() + timeout_ns;

	while (m->loader && !loader_is_idle(m->loader)) {
		struct pollfd fd = { .fd = loader_fd(m->loader), .events = POLLIN };
		__u64 now = monotonic_ns();

		if (now >= end)
			return true;
		poll(&fd, 1, (int)((end - now) / 1000000) + 1);
		modules_loaded(m);
	}
	return false;
}

int modules_vaddr(const struct modules *m, __u32 number, __u64 file_offset, __u64 *vaddr)
{
	const struct entry *e = find(m, number);

	if (!e || !e->module)
		return -ENOENT;
	return module_vaddr(e->module, file_offset, vaddr);
}

const char *modules_name(const struct modules *m, __u32 number)
{
	const struct entry *e = find(m, number);

	return e ? e->name : number ? "[unknown]" : "[anon]";
}

int modules_take_dwarf(struct modules *m, __u32 number)
{
	const struct entry *e = find(m, number);

	return e && e->module && e->state == ENTRY_DONE ? module_take_dwarf(e->module) : -1;
}

void modules_print(struct modules *m, FILE *f)
{
	fprintf(f, "  %-28s %12zu  in %.3f s, %.1f MiB of tables\n", "files read", m->n_read,
		m->read_ns / 1e9, m->read_bytes / 1048576.0);
	for (size_t i = 0; i < m->n; i++) {
		const struct entry *e = m->entries[i];
		struct module_report report = { 0 };
		const char *why = e->why;
		char *name;

		if (e->module && e->state == ENTRY_DONE) {
			module_report(e->module, &report);
			why = report.n_symbols ? NULL : report.why_none;
		}
		if (!why || e->path[0] != '/')
			continue;
		name = escape_string(e->name, strlen(e->name));
		fprintf(f, "  no symbols: %s: %s\n", name ? name : "?", why);
		free(name);
	}
}
