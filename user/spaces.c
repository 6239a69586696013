/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Of the mappings those are kept that a walker asks about: executable memory, and memory that a
 * stack may lie in. Of a process's spaces the last two: records come a little out of order.
 */
#include "spaces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "log.h"
#include "modules.h"
#include "monotonic.h"
#include "proc.h"
#include "proc_maps.h"
#include "view.h"

/* Which mappings to keep when there are more than RPROF_MAX_MAPPINGS. */
enum use {
	USE_EXEC,
	USE_MAIN_STACK,
	USE_GUARDED,		/* above a mapping without any access, as thread stacks lie */
	USE_WRITABLE,		/* heaps, other stacks */
	USE_DATA,		/* writable data of files */
	USE_NONE
};

struct entry {
	struct space pub;	/* .mappings is view.mappings */
	struct view view;	/* has a reference to each module */
};

struct process {
	__u32 tgid;
	__u64 start_time;	/* 0: not known */
	struct entry *newest, *older; /* older: may be NULL */
};

struct spaces {
	struct modules *modules;
	struct process *items;
	size_t n, cap;
	struct idmap by_tgid;
	__u32 last_number;
	struct proc_maps maps;	/* the last reading */
	struct view view;	/* what it means */
};

struct spaces *spaces_new(struct modules *modules)
{
	struct spaces *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->modules = modules;
	idmap_init(&s->by_tgid);
	proc_maps_init(&s->maps);
	return s;
}

static void unref_view(struct spaces *s, const struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		modules_unref(s->modules, v->mappings[i].module);
}

static void ref_view(struct spaces *s, const struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		modules_ref(s->modules, v->mappings[i].module);
}

static void free_entry(struct spaces *s, struct entry *e)
{
	if (!e)
		return;
	unref_view(s, &e->view);
	view_fini(&e->view);
	free(e);
}

void spaces_free(struct spaces *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free_entry(s, s->items[i].newest);
		free_entry(s, s->items[i].older);
	}
	free(s->items);
	idmap_fini(&s->by_tgid);
	proc_maps_fini(&s->maps);
	unref_view(s, &s->view);
	view_fini(&s->view);
	free(s);
}

static bool is_named(const struct maps_entry *e, const char *name)
{
	return e->path_len == strlen(name) && !memcmp(e->path, name, e->path_len);
}

static bool is_main_stack(const struct maps_entry *e)
{
	return is_named(e, "[stack]");
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
	m->flags |= RPROF_MAPPING_EXEC | (is_named(e, "[vdso]") ? RPROF_MAPPING_VDSO : 0);
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

	unref_view(s, &s->view);
	s->view.n = 0;
	share_out(&s->maps, quota, tgid);
	for (int c = 0; c < USE_NONE; c++)
		n += quota[c];
	if (view_reserve(&s->view, n))
		return -ENOMEM;
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
	s->view.n = n;
	return n ? 0 : -ENODATA;
}

static bool is_exec(const struct rprof_mapping *m)
{
	return m->flags & RPROF_MAPPING_EXEC;
}

/* Does the part of mapping @i of @v that @m overlaps mean the same code? */
static bool same_code(const struct spaces *s, const struct view *v, size_t i,
		      const struct rprof_mapping *m, __u64 offset)
{
	const struct rprof_mapping *have = &v->mappings[i];

	if (!have->module && !m->module)
		return true;
	return have->start - v->offsets[i] == m->start - offset &&
	       modules_same_file(s->modules, have->module, m->module);
}

/* One number for one file: that of the space that was, also if the file was renamed since. */
static void rename_module(struct spaces *s, struct rprof_mapping *m,
			  const struct rprof_mapping *was)
{
	if (m->module == was->module)
		return;
	modules_ref(s->modules, was->module);
	modules_unref(s->modules, m->module);
	m->module = was->module;
	if (!m->bias)
		m->bias = was->bias;
}

/*
 * Does @v keep the meaning of every executable address of @old? Code of a file must be there as it
 * was; memory without a file may do what it likes, but no file may be where it was.
 */
static bool keeps_meaning(struct spaces *s, const struct view *old, struct view *v)
{
	for (size_t i = 0; i < old->n; i++) {
		const struct rprof_mapping *was = &old->mappings[i];
		__u64 at = was->start;

		if (!is_exec(was))
			continue;
		for (size_t j = view_search(v, at); j < v->n && v->mappings[j].start < was->end;
		     j++) {
			struct rprof_mapping *is = &v->mappings[j];

			if (!was->module && !is->module)
				continue;
			if (!is_exec(is) || is->start > at ||
			    !same_code(s, old, i, is, v->offsets[j]))
				return false;
			rename_module(s, is, was);
			at = is->end;
		}
		if (was->module && at < was->end)
			return false;
	}
	return true;
}

static struct process *find(const struct spaces *s, __u32 tgid)
{
	__u32 i;

	return idmap_find(&s->by_tgid, tgid, 0, &i) ? &s->items[i] : NULL;
}

static struct process *get(struct spaces *s, __u32 tgid)
{
	struct process *p = find(s, tgid), *grown;

	if (p)
		return p;
	grown = array_grow(s->items, &s->cap, s->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	s->items = grown;
	if (idmap_put(&s->by_tgid, tgid, 0, (__u32)s->n))
		return NULL;
	grown[s->n] = (struct process){ .tgid = tgid };
	return &grown[s->n++];
}

void spaces_end(struct spaces *s, __u32 tgid)
{
	struct process *p = find(s, tgid);
	size_t i;

	if (!p)
		return;
	free_entry(s, p->newest);
	free_entry(s, p->older);
	i = (size_t)(p - s->items);
	idmap_remove(&s->by_tgid, tgid, 0);
	s->items[i] = s->items[--s->n];
	/* The last one moved into the gap. */
	if (i < s->n)
		idmap_put(&s->by_tgid, s->items[i].tgid, 0, (__u32)i);
}

static void publish_view(struct entry *e)
{
	e->pub.mappings = e->view.mappings;
	e->pub.n_mappings = e->view.n;
}

/* The mappings of @e are those of @v from now on, which gets its own references. */
static int store_view(struct spaces *s, struct entry *e, const struct view *v)
{
	if (view_equal(&e->view, v))
		return 0;
	ref_view(s, v);
	unref_view(s, &e->view);
	e->view.n = 0;
	if (view_copy(&e->view, v)) {
		unref_view(s, v);
		publish_view(e);
		return -ENOMEM;
	}
	publish_view(e);
	return 0;
}

/* A new space of @tgid, a copy of @v (NULL: empty). */
static int add_space(struct spaces *s, __u32 tgid, __u64 from_ns, const struct view *v,
		     struct entry **out)
{
	struct process *p = get(s, tgid);
	struct entry *e = p ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return -ENOMEM;
	e->pub.tgid = tgid;
	e->pub.number = ++s->last_number;
	e->pub.from_ns = from_ns;
	if (v && store_view(s, e, v)) {
		free(e);
		return -ENOMEM;
	}
	free_entry(s, p->older);
	p->older = p->newest;
	p->newest = e;
	if (out)
		*out = e;
	return 0;
}

/* Take [@start, @end) out of @v, with the references of what goes. */
static int cut(struct spaces *s, struct view *v, __u64 start, __u64 end)
{
	for (size_t i = view_search(v, start); i < v->n && v->mappings[i].start < end; i++) {
		const struct rprof_mapping *m = &v->mappings[i];
		int left = (m->start < start) + (m->end > end);

		if (!left)
			modules_unref(s->modules, m->module);
		else if (left == 2)
			modules_ref(s->modules, m->module);
	}
	return view_cut(v, start, end);
}

/* What the reading shows of @r too early is as it was in @now. */
static int leave_range(struct spaces *s, const struct entry *now, const struct spaces_range *r)
{
	int err = cut(s, &s->view, r->start, r->end);

	if (!now)
		return err;
	for (size_t i = view_search(&now->view, r->start);
	     !err && i < now->view.n && now->view.mappings[i].start < r->end; i++) {
		struct rprof_mapping m = now->view.mappings[i];
		__u64 skip = m.start < r->start ? r->start - m.start : 0;

		m.start += skip;
		if (m.end > r->end)
			m.end = r->end;
		if (!is_exec(&m))
			continue;
		modules_ref(s->modules, m.module);
		err = view_insert(&s->view, &m, now->view.offsets[i] + skip);
	}
	return err;
}

static int take_reading(struct spaces *s, __u32 tgid, __u64 read_ns,
			const struct spaces_pending *pending, struct entry **out)
{
	struct process *p = find(s, tgid);
	struct entry *now = p ? p->newest : NULL;
	__u64 from_ns = now ? read_ns : 0;
	int err = 0;

	if (pending && pending->image)
		return -EAGAIN;
	/* A number that another process had, whose end we were not told: it has nothing to lend. */
	if (p && p->start_time && p->start_time != s->maps.start_time) {
		spaces_end(s, tgid);
		now = NULL;
	}
	for (size_t i = 0; pending && i < pending->n_ranges && !err; i++)
		err = leave_range(s, now, &pending->ranges[i]);
	if (err)
		return err;
	if (now && keeps_meaning(s, &now->view, &s->view)) {
		*out = now;
		err = store_view(s, now, &s->view);
	} else if (now && pending && pending->n_ranges) {
		/* In a space that begins with the reading they would come too late to count. */
		err = -EAGAIN;
	} else {
		err = add_space(s, tgid, from_ns, &s->view, out);
	}
	p = find(s, tgid);
	if (p)
		p->start_time = s->maps.start_time;
	return err;
}

int spaces_read(struct spaces *s, __u32 tgid,
		const struct spaces_pending *(*pending)(void *ctx, __u32 tgid), void *ctx,
		const struct space **out)
{
	__u64 read_ns = monotonic_ns();
	struct entry *e = NULL;
	int dir = proc_open(tgid), err;

	if (dir < 0)
		return dir;
	err = proc_maps_read(&s->maps, dir);
	if (!err)
		err = make_view(s, dir, tgid);
	close(dir);
	if (!err)
		err = take_reading(s, tgid, read_ns, pending ? pending(ctx, tgid) : NULL, &e);
	if (!err)
		*out = &e->pub;
	return err;
}

/* Is all executable memory that @m overlaps the same code, and which file's number has it? */
static bool extends(struct spaces *s, const struct view *v, struct rprof_mapping *m, __u64 offset)
{
	for (size_t i = view_search(v, m->start); i < v->n && v->mappings[i].start < m->end; i++) {
		if (!is_exec(&v->mappings[i]))
			continue;
		if (!same_code(s, v, i, m, offset))
			return false;
		rename_module(s, m, &v->mappings[i]);
	}
	return true;
}

/* Is all of @m there, as it was? Code that a process makes itself is made executable again and again. */
static bool is_there(const struct spaces *s, const struct view *v, const struct rprof_mapping *m,
		     __u64 offset)
{
	size_t i = view_search(v, m->start);

	return i < v->n && v->mappings[i].start <= m->start && v->mappings[i].end >= m->end &&
	       is_exec(&v->mappings[i]) && same_code(s, v, i, m, offset);
}

int spaces_map(struct spaces *s, __u32 tgid, __u64 time_ns, const struct rprof_mapping *m,
	       __u64 offset)
{
	struct process *p = find(s, tgid);
	struct rprof_mapping mapping = *m;
	struct entry *e = p ? p->newest : NULL;
	int err = 0;

	if (!e || time_ns < e->pub.from_ns || e->view.n >= RPROF_MAX_MAPPINGS ||
	    is_there(s, &e->view, m, offset)) {
		modules_unref(s->modules, m->module);
		return 0;
	}
	if (!extends(s, &e->view, &mapping, offset))
		err = add_space(s, tgid, time_ns, &e->view, &e);
	if (!err)
		err = cut(s, &e->view, m->start, m->end);
	if (!err)
		err = view_insert(&e->view, &mapping, offset);
	publish_view(e);
	return err;
}

int spaces_exec(struct spaces *s, __u32 tgid, __u64 time_ns)
{
	return add_space(s, tgid, time_ns, NULL, NULL);
}

int spaces_fork(struct spaces *s, __u32 child, __u32 parent, __u64 time_ns)
{
	const struct space *was;

	/* A number that was used before. */
	spaces_end(s, child);
	was = spaces_at(s, parent, time_ns);
	if (!was)
		return 0;
	/* pub is its first member */
	return add_space(s, child, time_ns, &((const struct entry *)was)->view, NULL);
}

const struct space *spaces_newest(const struct spaces *s, __u32 tgid)
{
	const struct process *p = find(s, tgid);

	return p && p->newest ? &p->newest->pub : NULL;
}

const struct space *spaces_at(const struct spaces *s, __u32 tgid, __u64 time_ns)
{
	const struct process *p = find(s, tgid);

	if (!p || !p->newest)
		return NULL;
	if (time_ns >= p->newest->pub.from_ns)
		return &p->newest->pub;
	return p->older && time_ns >= p->older->pub.from_ns ? &p->older->pub : NULL;
}

const struct rprof_mapping *space_mapping(const struct space *sp, __u64 addr)
{
	const struct entry *e = (const struct entry *)sp; /* pub is its first member */
	size_t i = view_search(&e->view, addr);

	return i < sp->n_mappings && addr >= sp->mappings[i].start ? &sp->mappings[i] : NULL;
}

__u64 space_file_offset(const struct space *sp, const struct rprof_mapping *m, __u64 addr)
{
	const struct entry *e = (const struct entry *)sp;

	return e->view.offsets[m - sp->mappings] + (addr - m->start);
}

size_t spaces_n(const struct spaces *s)
{
	return s->n;
}
