// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_files.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "elf_file.h"
#include "idmap.h"
#include "modules.h"
#include "proc.h"
#include "proc_maps.h"
#include "rprof/config.h"
#include "spaces.h"

#define MAX_KNOWN 65536		/* files; then all are looked at anew */
#define NOT_OPENED (~0u)	/* only memory can say */

struct python_files {
	struct modules *modules;
	struct idmap known;	/* a module's number to 0: no Python, an index + 1, or NOT_OPENED */
	struct python_file *items;
	size_t n, cap;
	struct proc_maps maps;	/* for files that cannot be opened */
};

struct python_files *python_files_new(struct modules *modules)
{
	struct python_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->modules = modules;
	idmap_init(&f->known);
	proc_maps_init(&f->maps);
	return f;
}

void python_files_free(struct python_files *f)
{
	if (!f)
		return;
	idmap_fini(&f->known);
	proc_maps_fini(&f->maps);
	free(f->items);
	free(f);
}

/* Return: value for .known. */
static __u32 keep(struct python_files *f, const struct python_file *file)
{
	struct python_file *grown;

	if (file->kind == PYTHON_NONE && !file->asyncio)
		return 0;
	grown = array_grow(f->items, &f->cap, f->n + 1, sizeof(*grown));
	if (!grown)
		return 0;
	f->items = grown;
	grown[f->n++] = *file;
	return (__u32)f->n;
}

static __u32 read_file(struct python_files *f, __u32 module)
{
	int fd = modules_open(f->modules, module);
	struct python_file found = { 0 };
	struct elf_file elf;
	struct stat st;

	/* -ENOENT: "[vdso]", no file. What is on a network's file system is not waited for. */
	if (fd < 0)
		return fd == -ENOENT ? 0 : NOT_OPENED;
	if (!fstat(fd, &st) && !elf_file_open(&elf, fd, (__u64)st.st_size)) {
		python_find_file(&elf, &found);
		elf_file_fini(&elf);
	}
	close(fd);
	return keep(f, &found);
}

static __u32 look_up(struct python_files *f, __u32 module)
{
	__u32 value;

	if (idmap_find(&f->known, module, 0, &value))
		return value;
	if (f->known.n_used >= MAX_KNOWN) {
		idmap_fini(&f->known);
		f->n = 0;
	}
	value = read_file(f, module);
	/* Another process may let it be opened. Without memory it is read again. */
	if (value != NOT_OPENED)
		idmap_put(&f->known, module, 0, value);
	return value;
}

static bool same_file(const struct maps_entry *a, const struct maps_entry *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor;
}

static void find_by_cookie(const struct python_files *f, const struct python_memory *m,
			   const struct maps_entry *of, __u64 bias, struct python_file *out)
{
	for (size_t i = 0; i < f->maps.n && out->kind == PYTHON_NONE; i++) {
		const struct maps_entry *e = &f->maps.entries[i];
		__u64 at;

		if (!e->writable || !same_file(e, of))
			continue;
		at = python_find_cookie(m, e->start, e->end);
		if (at)
			*out = (struct python_file){ .kind = PYTHON_CPYTHON, .runtime = at - bias };
	}
}

/* The entry of the last reading of maps that holds @addr. */
static const struct maps_entry *entry_at(const struct python_files *f, __u64 addr)
{
	for (size_t i = 0; i < f->maps.n; i++) {
		if (addr >= f->maps.entries[i].start && addr < f->maps.entries[i].end)
			return &f->maps.entries[i];
	}
	return NULL;
}

/* The file that is mapped at @addr, from memory. */
static bool read_memory(struct python_files *f, __u32 tgid, __u64 addr,
			struct python_candidate *out)
{
	const struct python_memory m = python_memory_of(tgid);
	const struct maps_entry *of = entry_at(f, addr), *first = of;

	if (!of || !of->inode)
		return false;
	/* Below it is what the loader mapped before; a file may be mapped twice. */
	while (first->pgoff && first > f->maps.entries && same_file(first - 1, of) &&
	       first[-1].pgoff <= first->pgoff)
		first--;
	if (first->pgoff || python_find_memory(&m, first->start, &out->file, &out->bias))
		return false;
	if (out->file.kind == PYTHON_NONE)
		find_by_cookie(f, &m, of, out->bias, &out->file);
	return out->file.kind != PYTHON_NONE;
}

static bool read_maps(struct python_files *f, __u32 tgid)
{
	int dir = proc_open(tgid);
	bool ok = dir >= 0 && !proc_maps_read(&f->maps, dir);

	if (dir >= 0)
		close(dir);
	return ok;
}

static bool is_known(const struct python_candidate *c, size_t n, __u32 module, __u64 bias)
{
	for (size_t i = 0; i < n; i++) {
		if (c[i].module == module && c[i].bias == bias)
			return true;
	}
	return false;
}

size_t python_files_find(struct python_files *f, const struct space *space,
			 struct python_candidate out[PYTHON_MAX_CANDIDATES])
{
	bool has_maps = false, is_gone = false;
	size_t n = 0;

	for (size_t i = 0; i < space->n_mappings && n < PYTHON_MAX_CANDIDATES; i++) {
		const struct rprof_mapping *map = &space->mappings[i];
		struct python_candidate c = { .module = map->module, .bias = map->bias };
		__u32 value;

		if (!(map->flags & RPROF_MAPPING_EXEC) || !map->module)
			continue;
		value = look_up(f, map->module);
		if (value == NOT_OPENED) {
			if (!has_maps)
				is_gone = !read_maps(f, space->tgid);
			has_maps = true;
			if (is_gone || !read_memory(f, space->tgid, map->start, &c))
				continue;
		} else if (value) {
			c.file = f->items[value - 1];
		} else {
			continue;
		}
		if (!is_known(out, n, c.module, c.bias))
			out[n++] = c;
	}
	return n;
}
