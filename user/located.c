// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "located.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jits.h"
#include "marks.h"
#include "modules.h"
#include "python_codes.h"
#include "python_names.h"
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
	/* The kernel side looked already, unless it had no table yet; 0 stands for what is no code. */
	f->unchecked = native->flags & RPROF_NATIVE_UNCHECKED;
	f->executable = native->pc && (!f->unchecked || is_exec(space_mapping(space, native->pc)));
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
	l->stop_python = s->stop_python;
	l->n_kernel = s->n_kernel;
	l->kernel = calloc(l->n_kernel + 1, sizeof(*l->kernel));
	l->native = calloc((size_t)s->n_native + 1, sizeof(*l->native));
	if (!l->kernel || !l->native) {
		located_free(l);
		return NULL;
	}
	memcpy(l->kernel, record_kernel(s), l->n_kernel * sizeof(*l->kernel));
	l->n_native = record_n_native(s);
	for (size_t i = 0; space && i < l->n_native; i++) {
		locate_frame(&l->native[i], s, &record_native(s)[i], space, modules, jits);
		l->has_jit |= l->native[i].kind == LOCATED_ANON;
	}
	return l;
}

/* Return: 1: it is not to be shown; 0: its name is @name, or it has none (NULL); -ENOMEM. */
static int name_python(const struct located *l, const struct rprof_python_frame *f,
		       const struct located_python *python, const char **name)
{
	struct python_recent_name *at;
	struct python_place place;
	int err;

	*name = NULL;
	if (f->where & RPROF_PY_NEXT)
		return 1;
	if (f->where & RPROF_PY_SHIM)
		return 0;
	at = python_recent_at(python->recent, l->tgid, f, name);
	if (*name)
		return 0;
	err = python_codes_find(python->codes, l->tgid, f, &place);
	if (err)
		return err == -ENOMEM ? err : 0;
	if (python_is_cleanup(&place))
		return 1;
	*name = python_name(python->strings, python->style, &place);
	python_recent_put(at, l->tgid, f, *name);
	return *name ? 0 : -ENOMEM;
}

static void drop_python(struct located *l)
{
	free(l->python);
	free(l->python_names);
	l->python = NULL;
	l->python_names = NULL;
	l->n_python = 0;
}

int located_add_python(struct located *l, const struct rprof_stack *s,
		       const struct located_python *python)
{
	const struct rprof_python_frame *frames = record_python(s);

	l->interpreter = python->interpreter;
	l->python = calloc((size_t)s->n_python + 1, sizeof(*l->python));
	l->python_names = calloc((size_t)s->n_python + 1, sizeof(*l->python_names));
	if (!l->python || !l->python_names) {
		drop_python(l);
		return -ENOMEM;
	}
	python_recent_begin(python->recent, python_codes_changes(python->codes));
	for (size_t i = 0; i < s->n_python; i++) {
		int err = name_python(l, &frames[i], python, &l->python_names[l->n_python]);

		if (err < 0) {
			drop_python(l);
			return err;
		}
		if (!err)
			l->python[l->n_python++] = frames[i];
	}
	return 0;
}

void located_keep(struct located *l, struct modules *modules)
{
	l->kept_by = modules;
	modules_ref(modules, l->interpreter);
	for (size_t i = 0; i < l->n_native; i++)
		modules_ref(modules, l->native[i].module);
}

void located_free(struct located *l)
{
	if (!l)
		return;
	if (l->kept_by)
		modules_unref(l->kept_by, l->interpreter);
	for (size_t i = 0; l->native && i < l->n_native; i++) {
		if (l->kept_by)
			modules_unref(l->kept_by, l->native[i].module);
		free(l->native[i].name);
	}
	free(l->kernel);
	free(l->native);
	free(l->python);
	free(l->python_names);
	free(l);
}
