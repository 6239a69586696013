/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reading the files of the table: by the thread, or at once. */
#include "modules_table.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
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

static bool is_again(const struct entry *e, const struct stat *st, bool growing)
{
	return growing ? st->st_size >= e->size : modules_equal_stat(e, st);
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
		modules_attach(m, e, f.fd);
	else
		module_reopen_file(e->module, f.fd);
}

int modules_open(struct modules *m, __u32 number)
{
	const struct entry *e = modules_find(m, number);
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
		 name ? name : "?", (unsigned long long)(modules_table_budget() >> 20));
	free(name);
}

/* @taken: bytes, off the budget already */
static void loaded(struct modules *m, struct entry *e, int result, __u64 taken)
{
	struct module_report report;

	e->state = ENTRY_DONE;
	e->taken = taken;
	modules_let_file_go(m, e);
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
	while (m->oldest && size < MODULES_MAX_TABLES &&
	       size > __atomic_load_n(&m->budget, __ATOMIC_RELAXED))
		modules_evict(m, m->oldest);
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
	struct entry *e = modules_find(m, number);
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
