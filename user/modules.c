/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "modules_table.h"

#include <errno.h>
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

__u64 modules_table_budget(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	__u64 quarter = pages > 0 && size > 0 ? (__u64)pages * (__u64)size / 4 : MODULES_MAX_TABLES;

	return quarter < MODULES_MAX_TABLES ? quarter : MODULES_MAX_TABLES;
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
	m->budget = modules_table_budget();
	m->max_open = MAX_OPEN;
	/* Half of what we may have is for others: events, maps, output. */
	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur / 2 < m->max_open)
		m->max_open = limit.rlim_cur / 2;
	/* Without it everything is read at once. */
	if (config->keep_going)
		m->loader = loader_new();
	return m;
}

struct entry *modules_find(const struct modules *m, __u32 number)
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
void modules_let_file_go(struct modules *m, struct entry *e)
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
	for (at = modules_find(m, first); at && at->next != e->number;)
		at = modules_find(m, at->next);
	if (at)
		at->next = e->next;
}

void modules_evict(struct modules *m, struct entry *e)
{
	__u32 i = 0;

	unlink_idle(m, e);
	unlink_file(m, e);
	modules_let_file_go(m, e);
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
	struct entry *e = modules_find(m, number);

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
	struct entry *e = modules_find(m, number);

	if (!e || --e->refs)
		return;
	become_idle(m, e);
	if (m->n_idle > MAX_IDLE)
		modules_evict(m, m->oldest);
}

/* Takes @fd. */
void modules_attach(struct modules *m, struct entry *e, int fd)
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

bool modules_equal_stat(const struct entry *e, const struct stat *st)
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
	return modules_equal_stat(e, st) && !strcmp(base_name(e->path), base_name(path));
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
	for (at = modules_find(m, number); at; at = modules_find(m, at->next)) {
		if (is_file(at, path, st))
			return at;
	}
	return NULL;
}

static bool has_room(struct modules *m)
{
	struct entry **grown;

	if (m->n >= MAX_MODULES && m->oldest)
		modules_evict(m, m->oldest);
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
		modules_attach(m, e, f->fd);
		f->fd = -1;
		if (!e->module)
			modules_let_file_go(m, e);
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
	const struct entry *x = modules_find(m, a), *y = modules_find(m, b);

	if (a == b)
		return true;
	if (!x || !y || x->inode != y->inode || x->dev != y->dev || !x->inode)
		return false;
	return !x->has_stat || !y->has_stat ||
	       (x->size == y->size && x->mtime.tv_sec == y->mtime.tv_sec &&
		x->mtime.tv_nsec == y->mtime.tv_nsec);
}

/* Is it the file that was seen first? A @growing one need not be as it was. */
int modules_vaddr(const struct modules *m, __u32 number, __u64 file_offset, __u64 *vaddr)
{
	const struct entry *e = modules_find(m, number);

	if (!e || !e->module)
		return -ENOENT;
	return module_vaddr(e->module, file_offset, vaddr);
}

const char *modules_name(const struct modules *m, __u32 number)
{
	const struct entry *e = modules_find(m, number);

	return e ? e->name : number ? "[unknown]" : "[anon]";
}

int modules_take_dwarf(struct modules *m, __u32 number)
{
	const struct entry *e = modules_find(m, number);

	return e && e->module && e->state == ENTRY_DONE ? module_take_dwarf(e->module) : -1;
}

void modules_tick(struct modules *m)
{
	idmap_fini(&m->by_device);
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
