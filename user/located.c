// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "located.h"

#include <stdlib.h>
#include <string.h>

#include "jits.h"
#include "marks.h"
#include "modules.h"
#include "record.h"
#include "spaces.h"

static bool is_exec(const struct rprof_mapping *m)
{
	return m && (m->flags & RPROF_MAPPING_EXEC);
}

static void locate_frame(struct located_frame *f, const struct rprof_stack *s,
			 const struct rprof_native_frame *native, const struct space *space,
			 struct modules *modules, struct jits *jits)
{
	const struct rprof_mapping *m;
	__u64 pc;

	f->how = native->flags & RPROF_NATIVE_HOW;
	/* A return address may be the first byte of what follows its function. */
	pc = marks_is_interrupted(f->how) ? native->pc : native->pc - 1;
	m = space_mapping(space, pc);
	/* The kernel side looked already, unless it had no table yet. */
	f->executable = !(native->flags & RPROF_NATIVE_UNCHECKED) ||
			is_exec(space_mapping(space, native->pc));
	f->vaddr = pc;
	if (!is_exec(m)) {
		f->kind = LOCATED_UNKNOWN;
	} else if (!m->module) {
		f->kind = LOCATED_ANON;
		f->name = jits ? jits_find(jits, s->tgid, pc, s->time_ns) : NULL;
	} else {
		f->kind = LOCATED_FILE;
		f->module = m->module;
		f->vaddr = space_file_offset(space, m, pc);
		f->in_file = !modules_vaddr(modules, m->module, f->vaddr, &f->vaddr);
	}
}

struct located *locate_stack(const struct rprof_stack *s, const struct space *space,
			     struct modules *modules, struct jits *jits)
{
	struct located *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->id = s->stack;
	l->tgid = s->tgid;
	l->space = space ? space->number : 0;
	memcpy(l->comm, s->comm, sizeof(l->comm));
	l->stop_kernel = s->stop_kernel;
	l->stop_native = s->stop_native;
	l->n_kernel = s->n_kernel;
	l->kernel = calloc(l->n_kernel + 1, sizeof(*l->kernel));
	l->native = calloc((size_t)s->n_native + 1, sizeof(*l->native));
	if (!l->kernel || !l->native) {
		located_free(l);
		return NULL;
	}
	memcpy(l->kernel, record_kernel(s), l->n_kernel * sizeof(*l->kernel));
	l->n_native = s->n_native;
	for (size_t i = 0; space && i < l->n_native; i++) {
		locate_frame(&l->native[i], s, &record_native(s)[i], space, modules, jits);
		l->has_jit |= l->native[i].kind == LOCATED_ANON;
	}
	return l;
}

void located_keep(struct located *l, struct modules *modules)
{
	l->kept_by = modules;
	for (size_t i = 0; i < l->n_native; i++)
		modules_ref(modules, l->native[i].module);
}

void located_free(struct located *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->native && i < l->n_native; i++) {
		if (l->kept_by)
			modules_unref(l->kept_by, l->native[i].module);
		free(l->native[i].name);
	}
	free(l->kernel);
	free(l->native);
	free(l);
}
