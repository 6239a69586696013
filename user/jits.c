// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "jits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "jit.h"
#include "located.h"
#include "log.h"
#include "modules.h"
#include "proc.h"
#include "spaces.h"

#define MAX_KEPT 16384	/* stacks: 30 MB */

struct item {
	__u32 tgid;
	struct jit *jit;
	__u32 dump;		/* number of the file that was given to it last */
	__u64 drain;		/* when .changes was read */
	__u64 changes;		/* of jit_changes() */
};

struct kept {
	struct located *stack;
	__u64 changes;		/* of its process when its names were looked up */
};

struct jits {
	struct spaces *spaces;
	struct modules *modules;
	struct item *items;
	size_t n, cap;
	struct idmap by_tgid;
	__u64 drain;
	struct kept *kept;
	size_t n_kept, cap_kept;
	struct idmap by_id;	/* of the stack, to an index of kept */
	bool full;		/* said so */
};

struct jits *jits_new(struct spaces *spaces, struct modules *modules)
{
	struct jits *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->spaces = spaces;
	j->modules = modules;
	idmap_init(&j->by_tgid);
	idmap_init(&j->by_id);
	return j;
}

void jits_free(struct jits *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		jit_free(j->items[i].jit);
	for (size_t i = 0; i < j->n_kept; i++)
		located_free(j->kept[i].stack);
	free(j->kept);
	free(j->items);
	idmap_fini(&j->by_tgid);
	idmap_fini(&j->by_id);
	free(j);
}

static struct item *find(const struct jits *j, __u32 tgid)
{
	__u32 i;

	return idmap_find(&j->by_tgid, tgid, 0, &i) ? &j->items[i] : NULL;
}

static struct item *get(struct jits *j, __u32 tgid)
{
	struct item *item = find(j, tgid), *grown;

	if (item)
		return item;
	grown = array_grow(j->items, &j->cap, j->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	j->items = grown;
	grown += j->n;
	*grown = (struct item){ .tgid = tgid, .jit = jit_new() };
	if (!grown->jit || idmap_put(&j->by_tgid, tgid, 0, (__u32)j->n)) {
		jit_free(grown->jit);
		return NULL;
	}
	j->n++;
	return grown;
}

/* "jit-1234.dump": a process maps one page of it executable, so that profilers see where it is. */
static bool is_dump_name(const char *name)
{
	if (strncmp(name, "jit-", 4) != 0 || !isdigit((unsigned char)name[4]))
		return false;
	name += 4;
	while (isdigit((unsigned char)*name))
		name++;
	return !strcmp(name, ".dump");
}

static void look_for_dump(struct jits *j, struct item *item)
{
	const struct space *space = spaces_newest(j->spaces, item->tgid);

	for (size_t i = 0; space && i < space->n_mappings; i++) {
		__u32 module = space->mappings[i].module;
		int fd;

		if (!module || module == item->dump ||
		    !is_dump_name(modules_name(j->modules, module)))
			continue;
		item->dump = module;
		fd = modules_open(j->modules, module);
		if (fd >= 0)
			jit_set_dump(item->jit, fd);
	}
}

char *jits_find(struct jits *j, __u32 tgid, __u64 addr, __u64 time_ns)
{
	struct item *item = get(j, tgid);
	const char *name;
	char *copy;
	int dir;

	if (!item)
		return NULL;
	look_for_dump(j, item);
	dir = proc_open(tgid);
	name = jit_find(item->jit, dir < 0 ? -1 : dir, addr, time_ns);
	copy = name ? strdup(name) : NULL;
	if (dir >= 0)
		close(dir);
	return copy;
}

void jits_begin_drain(struct jits *j)
{
	j->drain++;
}

static __u64 changes_of(struct jits *j, struct item *item)
{
	if (item->drain != j->drain)
		item->changes = jit_changes(item->jit);
	item->drain = j->drain;
	return item->changes;
}

bool jits_keep(struct jits *j, struct located *l)
{
	struct item *item = find(j, l->tgid);
	__u64 changes = item ? changes_of(j, item) : 0;
	struct kept *grown;

	if (!changes)
		return false;
	if (j->n_kept >= MAX_KEPT) {
		if (!j->full)
			log_warn("more than %d stacks with code that processes made: further ones "
				 "keep the names they had at first",
				 MAX_KEPT);
		j->full = true;
		return false;
	}
	grown = array_grow(j->kept, &j->cap_kept, j->n_kept + 1, sizeof(*grown));
	if (!grown)
		return false;
	j->kept = grown;
	if (idmap_put(&j->by_id, l->id, 0, (__u32)j->n_kept))
		return false;
	grown[j->n_kept++] = (struct kept){ .stack = l, .changes = changes };
	if (!l->kept_by)
		located_keep(l, j->modules);
	return true;
}

/* Has any name become another? */
static bool look_again(struct jits *j, struct located *l, __u64 time_ns)
{
	bool changed = false;

	for (size_t i = 0; i < l->n_native; i++) {
		struct located_frame *f = &l->native[i];
		char *name;

		if (f->kind != LOCATED_ANON)
			continue;
		name = jits_find(j, l->tgid, f->vaddr, time_ns);
		if (!name != !f->name || (name && strcmp(name, f->name) != 0))
			changed = true;
		free(f->name);
		f->name = name;
	}
	return changed;
}

const struct located *jits_changed(struct jits *j, __u64 id, __u32 tgid, __u64 time_ns)
{
	struct item *item = find(j, tgid);
	struct kept *kept;
	__u32 i;

	if (!item || !idmap_find(&j->by_id, id, 0, &i))
		return NULL;
	kept = &j->kept[i];
	if (kept->changes == changes_of(j, item))
		return NULL;
	kept->changes = item->changes;
	return look_again(j, kept->stack, time_ns) ? kept->stack : NULL;
}

static void forget_kept(struct jits *j, __u32 tgid)
{
	for (size_t i = 0; i < j->n_kept;) {
		struct located *l = j->kept[i].stack;

		if (l->tgid != tgid) {
			i++;
			continue;
		}
		idmap_remove(&j->by_id, l->id, 0);
		located_free(l);
		j->kept[i] = j->kept[--j->n_kept];
		if (i < j->n_kept)
			idmap_put(&j->by_id, j->kept[i].stack->id, 0, (__u32)i);
	}
}

void jits_forget(struct jits *j, __u32 tgid)
{
	__u32 i;

	if (!idmap_find(&j->by_tgid, tgid, 0, &i))
		return;
	forget_kept(j, tgid);
	jit_free(j->items[i].jit);
	idmap_remove(&j->by_tgid, tgid, 0);
	j->items[i] = j->items[--j->n];
	if (i < j->n)
		idmap_put(&j->by_tgid, j->items[i].tgid, 0, i);
}
