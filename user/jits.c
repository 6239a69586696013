// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "jits.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "idmap.h"
#include "jit.h"
#include "modules.h"
#include "proc.h"
#include "spaces.h"

struct item {
	__u32 tgid;
	struct jit *jit;
	__u32 dump;		/* number of the file that was given to it last */
	__u32 space;		/* that was looked at for one, */
	size_t n_mappings;	/* and what it had */
	int dir;		/* /proc/PID; -1 */
	__u64 drain;		/* when .changes was read */
	__u64 changes;		/* of jit_changes() */
};

struct jits {
	struct spaces *spaces;
	struct modules *modules;
	struct item *items;
	size_t n, cap;
	struct idmap by_tgid;
	__u64 drain;
};

struct jits *jits_new(struct spaces *spaces, struct modules *modules)
{
	struct jits *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->spaces = spaces;
	j->modules = modules;
	idmap_init(&j->by_tgid);
	return j;
}

static void free_item(struct item *item)
{
	jit_free(item->jit);
	if (item->dir >= 0)
		close(item->dir);
}

void jits_free(struct jits *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n; i++)
		free_item(&j->items[i]);
	free(j->items);
	idmap_fini(&j->by_tgid);
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
	*grown = (struct item){ .tgid = tgid, .jit = jit_new(), .dir = proc_open(tgid) };
	if (!grown->jit || idmap_put(&j->by_tgid, tgid, 0, (__u32)j->n)) {
		free_item(grown);
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

	if (!space || (space->number == item->space && space->n_mappings == item->n_mappings))
		return;
	item->space = space->number;
	item->n_mappings = space->n_mappings;
	for (size_t i = 0; i < space->n_mappings; i++) {
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

	if (!item)
		return NULL;
	look_for_dump(j, item);
	name = jit_find(item->jit, item->dir < 0 ? -1 : item->dir, addr, time_ns);
	return name ? strdup(name) : NULL;
}

void jits_begin_drain(struct jits *j)
{
	j->drain++;
}

__u64 jits_changes(struct jits *j, __u32 tgid)
{
	struct item *item = find(j, tgid);

	if (!item)
		return 0;
	if (item->drain != j->drain)
		item->changes = jit_changes(item->jit);
	item->drain = j->drain;
	return item->changes;
}

void jits_forget(struct jits *j, __u32 tgid)
{
	__u32 i;

	if (!idmap_find(&j->by_tgid, tgid, 0, &i))
		return;
	free_item(&j->items[i]);
	idmap_remove(&j->by_tgid, tgid, 0);
	j->items[i] = j->items[--j->n];
	if (i < j->n)
		idmap_put(&j->by_tgid, j->items[i].tgid, 0, i);
}
