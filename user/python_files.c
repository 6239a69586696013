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
#include "monotonic.h"
#include "proc.h"
#include "proc_maps.h"
#include "rprof/config.h"
#include "spaces.h"

#define MAX_KNOWN 65536		/* files; then all are looked at anew */
#define NOT_OPENED (~0u)	/* only memory can say */
#define NOT_READ (~1u)		/* for want of memory of ours */

/*
 * How long counts what memory said, and that a file cannot be opened: another process may let it be,
 * and one that starts maps code before data.
 */
#define MEMORY_NS 1000000000ULL
#define MAX_DOUBLED 10

/* A file that cannot be opened, as a process has it mapped. */
struct in_memory {
	__u64 until_ns;
	unsigned int n_readings;
	bool found;
	struct python_candidate c;
};

struct python_files {
	struct modules *modules;
	struct idmap known;	/* a module's number to 0: no Python, or an index + 1 */
	struct python_file *items;
	size_t n, cap;
	struct idmap by_place;	/* (module and process, address) to an index */
	struct in_memory *in_memory;
	size_t n_in_memory, cap_in_memory;
	struct proc_maps maps;	/* for those */
};

/* One call of python_files_find(). */
struct search {
	struct python_files *f;
	const struct space *space;
	__u64 now, deadline_ns, again_ns;
	bool has_read;		/* a file */
	bool has_maps, is_gone;
};

struct python_files *python_files_new(struct modules *modules)
{
	struct python_files *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->modules = modules;
	idmap_init(&f->known);
	idmap_init(&f->by_place);
	proc_maps_init(&f->maps);
	return f;
}

void python_files_free(struct python_files *f)
{
	if (!f)
		return;
	idmap_fini(&f->known);
	idmap_fini(&f->by_place);
	proc_maps_fini(&f->maps);
	free(f->in_memory);
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
		return NOT_READ;
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
	int err = -EIO;

	/* -ENOENT: "[vdso]", no file. What is on a network's file system is not waited for. */
	if (fd < 0)
		return fd == -ENOENT ? 0 : NOT_OPENED;
	if (!fstat(fd, &st))
		err = elf_file_open(&elf, fd, (__u64)st.st_size);
	if (!err) {
		python_find_file(&elf, &found);
		elf_file_fini(&elf);
	}
	close(fd);
	return err == -ENOMEM ? NOT_READ : keep(f, &found);
}

static void ask_again(struct search *s, __u64 time_ns)
{
	if (time_ns < s->again_ns)
		s->again_ns = time_ns;
}

/* May one more file be read in this call? One always, so that all are in the end. */
static bool may_read(struct search *s)
{
	const bool may = !s->has_read || monotonic_ns() < s->deadline_ns;

	s->has_read = true;
	if (!may)
		ask_again(s, 0);
	return may;
}

static __u32 look_up(struct search *s, __u32 module)
{
	struct python_files *f = s->f;
	__u32 value;

	if (idmap_find(&f->known, module, 0, &value))
		return value;
	if (!may_read(s))
		return 0;
	if (f->known.n_used >= MAX_KNOWN) {
		idmap_fini(&f->known);
		f->n = 0;
	}
	value = read_file(f, module);
	if (value == NOT_READ) {
		ask_again(s, s->now + MEMORY_NS);
		return 0;
	}
	/* Another process may let it be opened. */
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
	__u64 left = PYTHON_FIND_BYTES;

	for (size_t i = 0; i < f->maps.n && left && out->kind == PYTHON_NONE; i++) {
		const struct maps_entry *e = &f->maps.entries[i];
		__u64 at;

		if (!e->writable || !same_file(e, of))
			continue;
		at = python_find_cookie(m, e->start, e->end, &left);
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

/* The entry of a place; a new one counts no longer than now. NULL: no memory. */
static struct in_memory *remembered(struct python_files *f, __u64 file_of, __u64 start)
{
	struct in_memory *grown;
	__u32 i;

	if (idmap_find(&f->by_place, file_of, start, &i))
		return &f->in_memory[i];
	if (f->n_in_memory >= MAX_KNOWN) {
		idmap_fini(&f->by_place);
		f->n_in_memory = 0;
	}
	grown = array_grow(f->in_memory, &f->cap_in_memory, f->n_in_memory + 1, sizeof(*grown));
	if (grown)
		f->in_memory = grown;
	if (!grown || idmap_put(&f->by_place, file_of, start, (__u32)f->n_in_memory))
		return NULL;
	grown[f->n_in_memory] = (struct in_memory){ 0 };
	return &grown[f->n_in_memory++];
}

static void read_again(struct search *s, struct in_memory *r, __u32 module,
		       const struct rprof_mapping *map)
{
	if (!s->has_maps)
		s->is_gone = !read_maps(s->f, s->space->tgid);
	s->has_maps = true;
	r->c = (struct python_candidate){ .module = module, .bias = map->bias };
	r->found = !s->is_gone && read_memory(s->f, s->space->tgid, map->start, &r->c);
	/* Longer each time: however many there are, all are read in the end. */
	r->until_ns = monotonic_ns() + (MEMORY_NS << r->n_readings);
	r->n_readings += r->n_readings < MAX_DOUBLED;
}

/* Is there a Python in a file that may not be opened? */
static bool look_in_memory(struct search *s, const struct rprof_mapping *map,
			   struct python_candidate *out)
{
	const __u64 file_of = (__u64)map->module << 32 | s->space->tgid;
	struct in_memory *r = remembered(s->f, file_of, map->start);

	if (!r)
		return false;
	if (s->now >= r->until_ns && may_read(s))
		read_again(s, r, map->module, map);
	/* Once more, as it may have been too early. */
	if (!r->found && r->n_readings == 1)
		ask_again(s, r->until_ns);
	*out = r->c;
	return r->found;
}

static bool look_at(struct search *s, const struct rprof_mapping *map, struct python_candidate *out)
{
	__u32 value, i;

	if (!(map->flags & RPROF_MAPPING_EXEC) || !map->module)
		return false;
	/* What could not be opened a moment ago is not tried again yet. */
	if (idmap_find(&s->f->by_place, (__u64)map->module << 32 | s->space->tgid, map->start,
		       &i) &&
	    s->now < s->f->in_memory[i].until_ns)
		return look_in_memory(s, map, out);
	value = look_up(s, map->module);
	if (value == NOT_OPENED)
		return look_in_memory(s, map, out);
	*out = (struct python_candidate){ .module = map->module, .bias = map->bias };
	if (value)
		out->file = s->f->items[value - 1];
	return value;
}

size_t python_files_find(struct python_files *f, const struct space *space, __u64 deadline_ns,
			 struct python_candidate out[PYTHON_MAX_CANDIDATES], __u64 *again_ns)
{
	struct search s = { .f = f,
			    .space = space,
			    .now = monotonic_ns(),
			    .deadline_ns = deadline_ns,
			    .again_ns = PYTHON_FILES_NEVER };
	struct python_candidate c;
	size_t n = 0;

	for (size_t i = 0; i < space->n_mappings && n < PYTHON_MAX_CANDIDATES; i++) {
		if (look_at(&s, &space->mappings[i], &c) && !is_known(out, n, c.module, c.bias))
			out[n++] = c;
	}
	*again_ns = s.again_ns;
	return n;
}
