/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spaces are kept for ever: stacks refer to them after their process is gone. Of the mappings those
 * are kept that a walker asks about: executable memory, and memory that a stack may lie in.
 */
#include "spaces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "modules.h"
#include "proc_maps.h"

/* Which mappings to keep when there are more than RPROF_MAX_MAPPINGS. */
enum use {
	USE_EXEC,
	USE_MAIN_STACK,
	USE_GUARDED,		/* above a mapping without any access, as thread stacks lie */
	USE_WRITABLE,		/* heaps, other stacks */
	USE_DATA,		/* writable data of files */
	USE_NONE
};

struct view {
	struct rprof_mapping *mappings;
	__u64 *offsets;		/* of mappings[i].start in its file */
	size_t n;
	size_t cap;
};

struct entry {
	struct space pub;	/* .mappings is view.mappings */
	struct view view;
	__u64 start_time;
};

struct spaces {
	struct modules *modules;
	struct entry **entries;	/* each its own allocation: callers hold pointers */
	size_t n;
	size_t cap;
	struct idmap by_number;	/* (tgid, number), and (tgid, 0) for the newest */
	struct proc_maps maps;	/* the last reading */
	struct view view;	/* what it means */
};

struct spaces *spaces_new(void)
{
	struct spaces *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->modules = modules_new();
	if (!s->modules) {
		free(s);
		return NULL;
	}
	idmap_init(&s->by_number);
	proc_maps_init(&s->maps);
	return s;
}

static void view_fini(struct view *v)
{
	free(v->mappings);
	free(v->offsets);
}

void spaces_free(struct spaces *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		view_fini(&s->entries[i]->view);
		free(s->entries[i]);
	}
	free(s->entries);
	idmap_fini(&s->by_number);
	proc_maps_fini(&s->maps);
	view_fini(&s->view);
	modules_free(s->modules);
	free(s);
}

static int view_reserve(struct view *v, size_t n)
{
	size_t cap = v->cap;
	struct rprof_mapping *mappings = array_grow(v->mappings, &cap, n, sizeof(*mappings));
	__u64 *offsets;

	if (!mappings)
		return -ENOMEM;
	v->mappings = mappings;
	offsets = array_grow(v->offsets, &v->cap, n, sizeof(*offsets));
	if (!offsets)
		return -ENOMEM;
	v->offsets = offsets;
	return 0;
}

static bool is_main_stack(const struct maps_entry *e)
{
	return e->path_len == strlen("[stack]") && !memcmp(e->path, "[stack]", e->path_len);
}

static enum use use_of(const struct proc_maps *p, size_t i)
{
	const struct maps_entry *e = &p->entries[i];
	const struct maps_entry *below = i ? e - 1 : NULL;

	if (e->executable)
		return USE_EXEC;
	if (!e->writable || e->shared)
		return USE_NONE;
	if (is_main_stack(e))
		return USE_MAIN_STACK;
	if (e->inode)
		return USE_DATA;
	if (below && below->end == e->start && !below->readable && !below->writable &&
	    !below->executable)
		return USE_GUARDED;
	return USE_WRITABLE;
}

/* How many mappings of each use fit; the first uses first. */
static void share_out(const struct proc_maps *p, size_t quota[USE_NONE], __u32 tgid)
{
	size_t have[USE_NONE + 1] = { 0 };
	size_t left = RPROF_MAX_MAPPINGS, skipped = 0;

	for (size_t i = 0; i < p->n; i++)
		have[use_of(p, i)]++;
	for (int c = 0; c < USE_NONE; c++) {
		quota[c] = have[c] < left ? have[c] : left;
		left -= quota[c];
		skipped += have[c] - quota[c];
	}
	if (skipped)
		log_debug("spaces: process %u: %zu of its mappings do not fit the table", tgid,
			  skipped);
}

static void describe(struct spaces *s, int proc_dir, __u32 tgid, const struct maps_entry *e,
		     struct rprof_mapping *m)
{
	__u64 vaddr;

	*m = (struct rprof_mapping){ .start = e->start, .end = e->end };
	if (e->writable && !e->shared)
		m->flags |= RPROF_MAPPING_STACK;
	if (is_main_stack(e))
		m->flags |= RPROF_MAPPING_GROWSDOWN;
	if (!e->executable)
		return;
	m->flags |= RPROF_MAPPING_EXEC;
	m->module = modules_add(s->modules, proc_dir, tgid, e);
	if (!modules_vaddr(s->modules, m->module, e->pgoff, &vaddr))
		m->bias = e->start - vaddr;
}

/*
 * The last reading as mappings, in s->view. Within a use that does not fit whole the higher
 * addresses are kept: mmap() grows down, so those are the older ones.
 */
static int make_view(struct spaces *s, int proc_dir, __u32 tgid)
{
	size_t quota[USE_NONE];
	size_t n = 0, at;

	share_out(&s->maps, quota, tgid);
	for (int c = 0; c < USE_NONE; c++)
		n += quota[c];
	if (view_reserve(&s->view, n))
		return -ENOMEM;
	s->view.n = n;
	at = n;
	for (size_t i = s->maps.n; i-- > 0;) {
		const struct maps_entry *e = &s->maps.entries[i];
		enum use u = use_of(&s->maps, i);

		if (u == USE_NONE || !quota[u])
			continue;
		quota[u]--;
		at--;
		describe(s, proc_dir, tgid, e, &s->view.mappings[at]);
		s->view.offsets[at] = e->pgoff;
	}
	return n ? 0 : -ENODATA;
}

static bool is_exec(const struct rprof_mapping *m)
{
	return m->flags & RPROF_MAPPING_EXEC;
}

/*
 * Does @v keep the meaning of every executable address of @old? A file's mapping must be there as
 * it was (its index is then kept too, also if the file was renamed or unlinked); memory without a
 * file may do what it likes, but no file may be where it was.
 */
static bool keeps_meaning(const struct spaces *s, const struct view *old, struct view *v)
{
	size_t j = 0;

	for (size_t i = 0; i < old->n; i++) {
		const struct rprof_mapping *was = &old->mappings[i];

		if (!is_exec(was))
			continue;
		while (j < v->n && v->mappings[j].end <= was->start)
			j++;
		if (was->module) {
			struct rprof_mapping *is = &v->mappings[j];

			if (j == v->n || !is_exec(is) || is->start != was->start ||
			    is->end != was->end || v->offsets[j] != old->offsets[i] ||
			    !modules_same_file(s->modules, is->module, was->module))
				return false;
			is->module = was->module;
			if (!is->bias)
				is->bias = was->bias;
			continue;
		}
		for (size_t k = j; k < v->n && v->mappings[k].start < was->end; k++) {
			if (v->mappings[k].module)
				return false;
		}
	}
	return true;
}

static bool equal_views(const struct view *a, const struct view *b)
{
	return a->n == b->n && !memcmp(a->mappings, b->mappings, a->n * sizeof(*a->mappings)) &&
	       !memcmp(a->offsets, b->offsets, a->n * sizeof(*a->offsets));
}

static int store_view(struct entry *e, const struct view *v)
{
	if (equal_views(&e->view, v))
		return 0;
	if (view_reserve(&e->view, v->n))
		return -ENOMEM;
	memcpy(e->view.mappings, v->mappings, v->n * sizeof(*v->mappings));
	memcpy(e->view.offsets, v->offsets, v->n * sizeof(*v->offsets));
	e->view.n = v->n;
	e->pub.mappings = e->view.mappings;
	e->pub.n_mappings = e->view.n;
	return 0;
}

static struct entry *find(const struct spaces *s, __u32 tgid, __u32 number)
{
	__u32 i;

	return idmap_find(&s->by_number, tgid, number, &i) ? s->entries[i] : NULL;
}

static int add_space(struct spaces *s, __u32 tgid, __u32 number, struct entry **out)
{
	struct entry **grown = array_grow(s->entries, &s->cap, s->n + 1, sizeof(*grown));
	struct entry *e;

	if (!grown)
		return -ENOMEM;
	s->entries = grown;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	e->pub.tgid = tgid;
	e->pub.number = number;
	e->start_time = s->maps.start_time;
	s->entries[s->n++] = e;
	if (store_view(e, &s->view) || idmap_put(&s->by_number, tgid, number, (__u32)s->n - 1) ||
	    idmap_put(&s->by_number, tgid, 0, (__u32)s->n - 1))
		return -ENOMEM;
	*out = e;
	return 0;
}

static int read_into(struct spaces *s, int proc_dir, __u32 tgid, __u32 number, struct entry **out)
{
	struct entry *newest = find(s, tgid, 0);
	int err = proc_maps_read(&s->maps, proc_dir);

	if (!err)
		err = make_view(s, proc_dir, tgid);
	if (err)
		return err;
	if (!newest)
		return add_space(s, tgid, number ? number : 1, out);
	if (number > newest->pub.number)
		return add_space(s, tgid, number, out);
	if (newest->start_time != s->maps.start_time || !keeps_meaning(s, &newest->view, &s->view))
		return add_space(s, tgid, newest->pub.number + 1, out);
	*out = newest;
	return store_view(newest, &s->view);
}

int spaces_read(struct spaces *s, __u32 tgid, __u32 number, const struct space **out)
{
	struct entry *e = NULL;
	char proc[32];
	int dir, err;

	/* The directory stands for this very process, whoever gets its number next. */
	snprintf(proc, sizeof(proc), "/proc/%u", tgid);
	dir = open(proc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = read_into(s, dir, tgid, number, &e);
	close(dir);
	if (!err)
		*out = &e->pub;
	return err;
}

const struct space *spaces_find(const struct spaces *s, __u32 tgid, __u32 number)
{
	struct entry *e = find(s, tgid, number);

	return e ? &e->pub : NULL;
}

const struct rprof_mapping *space_mapping(const struct space *sp, __u64 addr)
{
	size_t lo = 0, hi = sp->n_mappings;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (sp->mappings[mid].end <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == sp->n_mappings || addr < sp->mappings[lo].start)
		return NULL;
	return &sp->mappings[lo];
}

__u64 space_file_offset(const struct space *sp, const struct rprof_mapping *m, __u64 addr)
{
	const struct entry *e = (const struct entry *)sp; /* pub is its first member */

	return e->view.offsets[m - sp->mappings] + (addr - m->start);
}

int spaces_vaddr(struct spaces *s, const struct space *sp, const struct rprof_mapping *m,
		 __u64 addr, __u64 *vaddr)
{
	return modules_vaddr(s->modules, m->module, space_file_offset(sp, m, addr), vaddr);
}

struct module *spaces_module(struct spaces *s, __u32 module)
{
	return modules_get(s->modules, module);
}

const char *spaces_module_name(const struct spaces *s, __u32 module)
{
	return modules_name(s->modules, module);
}
