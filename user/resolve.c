/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From located frames to what is printed: names (codes.c), and marks (marks.c) in words. */
#include "resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"
#include "located.h"
#include "marks.h"
#include "stop.h"
#include "strset.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* As debuggers call the frame of the sigreturn trampoline. */
#define SIGNAL_FRAME_NAME "<signal handler called>"

struct resolver {
	struct strset strings;
	struct codes *codes;
	struct idmap by_mark;		/* (kind, module), interned, to an index of marks */
	struct resolve_mark **marks;	/* each its own allocation: callers keep pointers */
	size_t n_marks;
	size_t cap_marks;
	struct marks_frame judged[RPROF_MAX_NATIVE];	/* of the stack at hand: */
	struct marks_verdict verdicts[RPROF_MAX_NATIVE];
	struct code native[RPROF_MAX_NATIVE];
};

struct resolver *resolver_new(const struct resolver_config *config)
{
	struct resolver *r = calloc(1, sizeof(*r));
	struct codes_config codes = {
		.modules = config->modules,
		.ksyms = config->ksyms,
		.demangle = config->demangle,
		.inlines = config->inlines,
	};

	if (!r)
		return NULL;
	strset_init(&r->strings);
	idmap_init(&r->by_mark);
	codes.strings = &r->strings;
	r->codes = codes_new(&codes);
	if (!r->codes) {
		free(r);
		return NULL;
	}
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_marks; i++)
		free(r->marks[i]);
	free(r->marks);
	codes_free(r->codes);
	idmap_fini(&r->by_mark);
	strset_fini(&r->strings);
	free(r);
}

const struct codes *resolver_codes(const struct resolver *r)
{
	return r->codes;
}

static int intern_mark(struct resolver *r, const char *kind, const char *module,
		       const struct resolve_mark **out)
{
	struct resolve_mark **grown;
	struct resolve_mark *mark;
	__u32 i;

	kind = strset_add(&r->strings, kind);
	module = strset_add(&r->strings, module);
	if (!kind || !module)
		return -ENOMEM;
	if (idmap_find(&r->by_mark, (size_t)kind, (size_t)module, &i)) {
		*out = r->marks[i];
		return 0;
	}
	grown = array_grow(r->marks, &r->cap_marks, r->n_marks + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->marks = grown;
	mark = malloc(sizeof(*mark));
	if (!mark)
		return -ENOMEM;
	*mark = (struct resolve_mark){ .kind = kind, .module = module };
	*out = r->marks[r->n_marks] = mark;
	return idmap_put(&r->by_mark, (size_t)kind, (size_t)module, (__u32)r->n_marks++);
}

/* For the account: a set. When it is full the last place is the latest mark's, the deciding one. */
static void count_mark(struct resolved_stack *out, const struct resolve_mark *mark)
{
	for (size_t i = 0; i < out->n_marks; i++) {
		if (out->marks[i] == mark)
			return;
	}
	if (out->n_marks < ARRAY_SIZE(out->marks))
		out->n_marks++;
	out->marks[out->n_marks - 1] = mark;
}

static int add_mark(struct resolver *r, struct resolved_stack *out, const char *text,
		    const char *kind, const char *module)
{
	const char *name = strset_add(&r->strings, text);
	const struct resolve_mark *mark;
	int err;

	if (!name)
		return -ENOMEM;
	err = intern_mark(r, kind, module, &mark);
	if (err)
		return err;
	out->frames[out->n_frames++] = (struct frame){ .name = name, .kind = FRAME_MARK };
	count_mark(out, mark);
	return 0;
}

static int add_truncated(struct resolver *r, struct resolved_stack *out, const char *reason,
			 const char *module)
{
	char text[128];

	snprintf(text, sizeof(text), "[truncated: %s]", reason);
	return add_mark(r, out, text, reason, module);
}

static void add_frame(struct resolved_stack *out, const char *name, bool symbolized,
		      enum frame_kind kind)
{
	out->frames[out->n_frames++] = (struct frame){ .name = name, .kind = kind };
	out->n_named++;
	out->n_symbolized += symbolized;
}

static int add_kernel(struct resolver *r, const struct located *l, struct resolved_stack *out)
{
	for (size_t i = 0; i < l->n_kernel; i++) {
		struct code code;
		/* The first is where the kernel was; the others are return addresses. */
		int err = codes_kernel(r->codes, i ? l->kernel[i] - 1 : l->kernel[i], &code);

		if (err)
			return err;
		add_frame(out, code.name, code.symbolized, FRAME_KERNEL);
	}
	switch (l->stop_kernel) {
	case RPROF_STOP_END:
	case RPROF_STOP_NONE:
		return 0;
	default:
		return add_truncated(r, out, stop_name(l->stop_kernel), "");
	}
}

/* A sample without any user frame. */
static int add_absence(struct resolver *r, unsigned int stop, struct resolved_stack *out)
{
	char text[128];

	switch (stop) {
	case RPROF_STOP_END:
	case RPROF_STOP_NONE:
	case RPROF_STOP_NO_MM:
		return 0;
	case RPROF_STOP_NO_REGS:
		snprintf(text, sizeof(text), "[%s]", stop_name(stop));
		return add_mark(r, out, text, stop_name(stop), "");
	case RPROF_STOP_COMPAT:
		snprintf(text, sizeof(text), "[unsupported: %s]", stop_name(stop));
		return add_mark(r, out, text, stop_name(stop), "");
	default:
		return add_truncated(r, out, stop_name(stop), "");
	}
}

static int add_verdict(struct resolver *r, const struct marks_verdict *v,
		       struct resolved_stack *out)
{
	const char *module = r->native[v->blame].module;
	char text[512];

	switch (v->above) {
	case MARK_CALLER_UNKNOWN:
		return add_mark(r, out, "[caller unknown]", "caller unknown", module);
	case MARK_NO_FRAME_POINTER:
		snprintf(text, sizeof(text), "[truncated: no frame pointer in %s]", module);
		return add_mark(r, out, text, "no frame pointer", module);
	case MARK_NO_RULE:
		snprintf(text, sizeof(text), "[truncated: no unwind rule in %s]", module);
		return add_mark(r, out, text, "no unwind rule", module);
	case MARK_SIGNAL_FRAME:
		return add_truncated(r, out, "signal frame", module);
	case MARK_STOP:
		return add_truncated(r, out, stop_name(v->stop), module);
	default:
		return 0;
	}
}

/* The process was gone before its mappings were known: one frame, and nothing about it. */
static int add_unmapped(struct resolver *r, struct resolved_stack *out)
{
	const char *name = strset_add(&r->strings, "[unknown]");

	if (!name)
		return -ENOMEM;
	add_frame(out, name, false, FRAME_NATIVE);
	return add_truncated(r, out, "mappings not known", "");
}

/* Codes and rules of all frames. @n_inlined: names to be shown besides */
static int look_up(struct resolver *r, const struct located *l, bool force, size_t *n_inlined)
{
	for (size_t i = 0; i < l->n_native; i++) {
		int err = codes_native(r->codes, &l->native[i], force, &r->native[i]);

		/* All files are asked for at once. */
		for (size_t k = i + 1; err == -EAGAIN && k < l->n_native; k++)
			codes_want(r->codes, &l->native[k]);
		if (err)
			return err;
		*n_inlined += r->native[i].n_inlined;
		r->judged[i] = (struct marks_frame){
			.how = l->native[i].how,
			.executable = l->native[i].executable,
			.rule = r->native[i].rule,
		};
	}
	return 0;
}

/* What a handler returns to is no function that anybody called. */
static bool is_trampoline(const struct located *l, size_t i)
{
	return i + 1 < l->n_native && l->native[i + 1].how == RPROF_HOW_SIGNAL;
}

static int add_native_frame(struct resolver *r, const struct located *l, size_t i,
			    struct resolved_stack *out)
{
	struct code code;
	int err;

	if (is_trampoline(l, i)) {
		const char *name = strset_add(&r->strings, SIGNAL_FRAME_NAME);

		if (name)
			add_frame(out, name, true, FRAME_NATIVE);
		return name ? 0 : -ENOMEM;
	}
	if (!r->native[i].n_inlined) {
		add_frame(out, r->native[i].name, r->native[i].symbolized, FRAME_NATIVE);
		return 0;
	}
	/* Their array may have moved since look_up(); this one is remembered. */
	err = codes_native(r->codes, &l->native[i], true, &code);
	if (err)
		return err;
	for (size_t j = 0; j < code.n_inlined; j++)
		add_frame(out, code.inlined[j], true, FRAME_INLINED);
	add_frame(out, code.name, code.symbolized, FRAME_NATIVE);
	return 0;
}

static int add_native(struct resolver *r, const struct located *l, struct resolved_stack *out)
{
	int err = 0;

	marks_judge(r->judged, l->n_native, l->stop_native, r->verdicts);
	for (size_t i = 0; i < l->n_native && !err; i++) {
		if (!r->verdicts[i].shown)
			continue;
		err = add_native_frame(r, l, i, out);
		if (!err)
			err = add_verdict(r, &r->verdicts[i], out);
	}
	return err;
}

static int begin(struct resolved_stack *out, size_t room)
{
	memset(out, 0, sizeof(*out));
	out->frames = calloc(room, sizeof(*out->frames));
	return out->frames ? 0 : -ENOMEM;
}

static int end(struct resolved_stack *out, int err)
{
	if (err) {
		free(out->frames);
		memset(out, 0, sizeof(*out));
	}
	return err;
}

int resolve_stack(struct resolver *r, const struct located *l, bool force,
		  struct resolved_stack *out)
{
	size_t n_inlined = 0;
	int err;

	if (l->n_native > RPROF_MAX_NATIVE)
		return -EINVAL;
	err = l->space ? look_up(r, l, force, &n_inlined) : 0;
	if (err)
		return err;
	/* A mark may follow each user frame, the kernel part, and an absent user part. */
	if (begin(out, l->n_kernel + 2 * l->n_native + n_inlined + 3))
		return -ENOMEM;
	err = add_kernel(r, l, out);
	if (!err && !l->n_native)
		err = add_absence(r, l->stop_native, out);
	else if (!err)
		err = l->space ? add_native(r, l, out) : add_unmapped(r, out);
	return end(out, err);
}

int resolve_mark_alone(struct resolver *r, const char *kind, struct resolved_stack *out)
{
	char text[128];

	if (begin(out, 1))
		return -ENOMEM;
	snprintf(text, sizeof(text), "[%s]", kind);
	return end(out, add_mark(r, out, text, kind, ""));
}
