/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From located frames to what is printed: names (codes.c), marks (marks.c) in words, and Python frames
 * where they stand among the others (merge.c).
 */
#include "resolve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "located.h"
#include "mark_table.h"
#include "marks.h"
#include "merge.h"
#include "modules.h"
#include "stop.h"
#include "strset.h"

/* As debuggers call the frame of the sigreturn trampoline. */
#define SIGNAL_FRAME_NAME "<signal handler called>"
/* As CPython's own profiler does. */
#define COLLECTION_NAME "<GC>"
#define UNKNOWN_PYTHON "[unknown Python function]"

struct resolver {
	struct resolver_config config;
	struct strset strings;
	struct codes *codes;
	struct mark_table marks;
	struct marks_frame judged[RPROF_MAX_NATIVE];	/* of the stack at hand: */
	struct marks_verdict verdicts[RPROF_MAX_NATIVE];
	struct code native[RPROF_MAX_NATIVE];
	struct merge_native merged[RPROF_MAX_NATIVE];
	struct merge_item items[2 * (RPROF_MAX_NATIVE + RPROF_MAX_PYTHON) + 2]; /* merge_room() */
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
	r->config = *config;
	strset_init(&r->strings);
	mark_table_init(&r->marks, &r->strings);
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
	mark_table_fini(&r->marks);
	codes_free(r->codes);
	strset_fini(&r->strings);
	free(r);
}

const struct codes *resolver_codes(const struct resolver *r)
{
	return r->codes;
}

struct strset *resolver_strings(struct resolver *r)
{
	return &r->strings;
}

static int add_mark(struct resolver *r, struct resolved_stack *out, const char *text,
		    const char *kind, const char *module)
{
	const char *name = strset_add(&r->strings, text);

	if (!name)
		return -ENOMEM;
	out->frames[out->n_frames++] = (struct frame){ .name = name, .kind = FRAME_MARK };
	return mark_table_note(&r->marks, out, kind, module);
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
		snprintf(text, sizeof(text), "[truncated: no " ARCH_LINK " in %s]", module);
		return add_mark(r, out, text, "no " ARCH_LINK, module);
	case MARK_NOT_LINKED:
		return add_truncated(r, out, "frame not linked yet", module);
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
		/* Only where it knew that this is the vDSO did the kernel side step over a wrapper. */
		if (l->native[i].unchecked && r->native[i].rule.wrapper)
			r->native[i].rule.state = CFI_FP_LOST;
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

/* What merge.c is to know of the native frames. */
static void judge_natives(struct resolver *r, const struct located *l)
{
	marks_judge(r->judged, l->n_native, l->stop_native, r->verdicts);
	for (size_t i = 0; i < l->n_native; i++) {
		const struct located_frame *f = &l->native[i];
		const enum cfi_state state = r->native[i].rule.state;
		const bool own = l->interpreter && f->kind == LOCATED_FILE &&
				 f->module == l->interpreter;
		const char *symbol = own && r->native[i].symbolized ? r->native[i].name : "";

		r->merged[i] = (struct merge_native){
			.shown = r->verdicts[i].shown,
			.above = r->verdicts[i].above,
			.up = state == CFI_FP_UP || state == CFI_END,
			.word = marks_is_word(f->how) || r->verdicts[i].stands_in,
			.interpreter = own,
			.evaluator = merge_is_evaluator(symbol),
			.collector = merge_is_collector(symbol),
			.root = merge_is_root(symbol),
		};
	}
}

/* A Python frame, or what else has no code of its own. */
static int add_text(struct resolver *r, const char *text, bool symbolized,
		    struct resolved_stack *out)
{
	const char *name = strset_add(&r->strings, text);

	if (name)
		add_frame(out, name, symbolized, FRAME_PYTHON);
	return name ? 0 : -ENOMEM;
}

static int add_python_mark(struct resolver *r, const struct located *l, enum merge_kind kind,
			   struct resolved_stack *out)
{
	const char *file = l->interpreter ? modules_name(r->config.modules, l->interpreter) : "";

	if (kind == MERGE_MISMATCH)
		return add_mark(r, out, "[merge mismatch]", "merge mismatch", file);
	if (l->stop_python == RPROF_STOP_STATE_LOST)
		return add_mark(r, out, "[Python frames not found]", "Python frames not found",
				file);
	return add_truncated(r, out, stop_name(l->stop_python), file);
}

static int add_item(struct resolver *r, const struct located *l, const struct merge_item *item,
		    struct resolved_stack *out)
{
	switch (item->kind) {
	case MERGE_NATIVE:
		return add_native_frame(r, l, item->at, out);
	case MERGE_MARK:
		return add_verdict(r, &r->verdicts[item->at], out);
	case MERGE_PYTHON:
		if (!l->python_names[item->at])
			return add_text(r, UNKNOWN_PYTHON, false, out);
		add_frame(out, l->python_names[item->at], true, FRAME_PYTHON);
		return 0;
	case MERGE_COLLECTION:
		return add_text(r, COLLECTION_NAME, true, out);
	default:
		return add_python_mark(r, l, item->kind, out);
	}
}

/*
 * Sampled before its interpreter was found: what ran in the interpreter's own code may have run
 * Python code, of which nothing is said.
 */
static bool lacks_python(const struct resolver *r, const struct located *l, size_t n_native)
{
	if (l->stop_python != RPROF_STOP_NONE)
		return false;
	for (size_t i = 0; i < n_native; i++) {
		if (r->merged[i].shown && r->merged[i].interpreter)
			return true;
	}
	return false;
}

static int add_user(struct resolver *r, const struct located *l, struct resolved_stack *out)
{
	struct merge_input in = {
		.native = r->merged,
		.python = l->python,
		.n_python = l->n_python,
		.stop_python = l->stop_python,
		.all = r->config.native_all,
	};
	size_t n;
	int err = 0;

	if (r->config.no_native) {
		/* What the native walk says is not asked for. */
	} else if (!l->n_native) {
		err = add_absence(r, l->stop_native, out);
	} else if (!l->space) {
		err = add_unmapped(r, out);
	} else {
		judge_natives(r, l);
		in.n_native = l->n_native;
	}
	n = err ? 0 : merge_stacks(&in, r->items);
	for (size_t i = 0; i < n && !err; i++)
		err = add_item(r, l, &r->items[i], out);
	if (!err && lacks_python(r, l, in.n_native))
		err = add_mark(r, out, "[Python not known yet]", "Python not known yet",
			       modules_name(r->config.modules, l->interpreter));
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
	int err = 0;

	if (l->n_native > RPROF_MAX_NATIVE || l->n_python > RPROF_MAX_PYTHON)
		return -EINVAL;
	if (l->space && !r->config.no_native)
		err = look_up(r, l, force, &n_inlined);
	if (err)
		return err;
	/* A mark may follow the kernel part, and an absent user part. */
	if (begin(out, l->n_kernel + merge_room(l->n_native, l->n_python) + n_inlined + 3))
		return -ENOMEM;
	err = add_kernel(r, l, out);
	if (!err)
		err = add_user(r, l, out);
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
