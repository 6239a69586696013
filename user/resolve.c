/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From addresses to what is printed. No name without proof: an address beyond the end of every
 * known function is "module+0xADDRESS" (as addr2line -e takes it), code without a file "[anon]",
 * and an address in no mapping "[unknown]".
 */
#include "resolve.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"
#include "ksyms.h"
#include "marks.h"
#include "module.h"
#include "spaces.h"
#include "stop.h"
#include "strset.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* What there is to know of one address of one space. */
struct code {
	const char *name;
	const char *module;	/* for marks */
	bool symbolized;
	struct cfi_rule rule;
};

struct resolver {
	struct spaces *spaces;
	struct ksyms *ksyms;	/* may be NULL */
	struct strset strings;
	struct idmap by_address;	/* (address, space) to an index of codes */
	struct code *codes;
	size_t n_codes;
	size_t cap_codes;
	struct idmap by_mark;		/* (kind, module), interned, to an index of marks */
	struct resolve_mark **marks;	/* each its own allocation: callers keep pointers */
	size_t n_marks;
	size_t cap_marks;
	struct marks_frame judged[RPROF_MAX_NATIVE];	/* of the stack at hand: */
	struct marks_verdict verdicts[RPROF_MAX_NATIVE];
	struct code native[RPROF_MAX_NATIVE];
};

struct resolver *resolver_new(struct spaces *spaces, struct ksyms *ksyms)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->spaces = spaces;
	r->ksyms = ksyms;
	strset_init(&r->strings);
	idmap_init(&r->by_address);
	idmap_init(&r->by_mark);
	return r;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_marks; i++)
		free(r->marks[i]);
	free(r->marks);
	free(r->codes);
	idmap_fini(&r->by_mark);
	idmap_fini(&r->by_address);
	strset_fini(&r->strings);
	free(r);
}

static int remember(struct resolver *r, __u64 addr, __u64 space, const struct code *code)
{
	struct code *grown = array_grow(r->codes, &r->cap_codes, r->n_codes + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	r->codes = grown;
	r->codes[r->n_codes] = *code;
	return idmap_put(&r->by_address, addr, space, (__u32)r->n_codes++);
}

static bool recall(const struct resolver *r, __u64 addr, __u64 space, struct code *code)
{
	__u32 i;

	if (!idmap_find(&r->by_address, addr, space, &i))
		return false;
	*code = r->codes[i];
	return true;
}

static int kernel_code(struct resolver *r, __u64 addr, struct code *code)
{
	const char *name;

	if (recall(r, addr, 0, code))
		return 0;
	memset(code, 0, sizeof(*code));
	name = r->ksyms ? ksyms_look(r->ksyms, addr) : NULL;
	code->symbolized = name;
	code->name = strset_add(&r->strings, name ? name : "[unknown]");
	if (!code->name)
		return -ENOMEM;
	/* A name stays; what has none may be too new for the table, and get one yet. */
	return name ? remember(r, addr, 0, code) : 0;
}

/* Code of a file. */
static int file_code(struct resolver *r, const struct space *sp, const struct rprof_mapping *m,
		     __u64 addr, struct code *code)
{
	struct module *module = spaces_module(r->spaces, m->module);
	__u64 vaddr, start;
	const char *name = NULL;
	char text[512];

	code->module = strset_add(&r->strings, spaces_module_name(r->spaces, m->module));
	if (!code->module)
		return -ENOMEM;
	if (module && !spaces_vaddr(r->spaces, sp, m, addr, &vaddr)) {
		name = module_symbol(module, vaddr, &start);
		cfi_rule_at(module, vaddr, &code->rule);
	} else {
		vaddr = space_file_offset(sp, m, addr);
	}
	code->symbolized = name;
	if (!name) {
		snprintf(text, sizeof(text), "%s+0x%llx", code->module, vaddr);
		name = text;
	}
	code->name = strset_add(&r->strings, name);
	return code->name ? 0 : -ENOMEM;
}

/* Memory without a file, or no memory: what is there later need not be what is there now. */
static int nameless_code(struct resolver *r, const char *name, struct code *code)
{
	code->name = code->module = strset_add(&r->strings, name);
	return code->name ? 0 : -ENOMEM;
}

static int native_code(struct resolver *r, const struct space *sp, __u64 addr, struct code *code)
{
	__u64 space = (__u64)sp->tgid << 32 | sp->number;
	const struct rprof_mapping *m;
	int err;

	if (recall(r, addr, space, code))
		return 0;
	memset(code, 0, sizeof(*code));
	m = space_mapping(sp, addr);
	if (!m || !(m->flags & RPROF_MAPPING_EXEC))
		return nameless_code(r, "[unknown]", code);
	if (!m->module)
		return nameless_code(r, "[anon]", code);
	err = file_code(r, sp, m, addr, code);
	return err ? err : remember(r, addr, space, code);
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

static void add_frame(struct resolved_stack *out, const struct code *code, enum frame_kind kind)
{
	out->frames[out->n_frames++] = (struct frame){ .name = code->name, .kind = kind };
	out->n_named++;
	out->n_symbolized += code->symbolized;
}

static int add_kernel(struct resolver *r, const struct rprof_stack *s, const __u64 *kernel,
		      struct resolved_stack *out)
{
	for (size_t i = 0; i < s->n_kernel; i++) {
		struct code code;
		/* The first is where the kernel was; the others are return addresses. */
		int err = kernel_code(r, i ? kernel[i] - 1 : kernel[i], &code);

		if (err)
			return err;
		add_frame(out, &code, FRAME_KERNEL);
	}
	switch (s->stop_kernel) {
	case RPROF_STOP_END:
	case RPROF_STOP_NONE:
		return 0;
	default:
		return add_truncated(r, out, stop_name(s->stop_kernel), "");
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

/* The process was gone before its mappings were read: one frame, and nothing about it. */
static int add_unmapped(struct resolver *r, struct resolved_stack *out)
{
	struct code code = { 0 };
	int err = nameless_code(r, "[unknown]", &code);

	if (err)
		return err;
	add_frame(out, &code, FRAME_NATIVE);
	return add_truncated(r, out, "mappings not known", "");
}

static bool executable(const struct space *sp, const struct rprof_native_frame *f)
{
	const struct rprof_mapping *m;

	/* The kernel side looked already, unless it had no table yet. */
	if (!(f->flags & RPROF_NATIVE_UNCHECKED))
		return true;
	m = space_mapping(sp, f->pc);
	return m && (m->flags & RPROF_MAPPING_EXEC);
}

static int add_native(struct resolver *r, const struct rprof_stack *s, const struct space *sp,
		      const struct rprof_native_frame *native, struct resolved_stack *out)
{
	int err = 0;

	if (!s->n_native)
		return add_absence(r, s->stop_native, out);
	if (!sp)
		return add_unmapped(r, out);
	for (size_t i = 0; i < s->n_native && !err; i++) {
		unsigned int how = native[i].flags & RPROF_NATIVE_HOW;

		/* A return address may be the first byte of what follows its function. */
		err = native_code(r, sp, how == RPROF_HOW_PC ? native[i].pc : native[i].pc - 1,
				  &r->native[i]);
		r->judged[i] = (struct marks_frame){
			.how = how,
			.executable = executable(sp, &native[i]),
			.rule = r->native[i].rule,
		};
	}
	if (!err)
		marks_judge(r->judged, s->n_native, s->stop_native, r->verdicts);
	for (size_t i = 0; i < s->n_native && !err; i++) {
		if (!r->verdicts[i].shown)
			continue;
		add_frame(out, &r->native[i], FRAME_NATIVE);
		err = add_verdict(r, &r->verdicts[i], out);
	}
	return err;
}

int resolve_stack(struct resolver *r, const struct rprof_stack *s, const struct space *space,
		  const __u64 *kernel, const struct rprof_native_frame *native,
		  struct resolved_stack *out)
{
	/* A mark may follow each user frame, the kernel part, and an absent user part. */
	size_t room = s->n_kernel + 2 * (size_t)s->n_native + 2;
	int err;

	if (s->n_native > RPROF_MAX_NATIVE)
		return -EINVAL;
	memset(out, 0, sizeof(*out));
	out->frames = calloc(room, sizeof(*out->frames));
	if (!out->frames)
		return -ENOMEM;
	err = add_kernel(r, s, kernel, out);
	if (!err)
		err = add_native(r, s, space, native, out);
	if (err) {
		free(out->frames);
		memset(out, 0, sizeof(*out));
	}
	return err;
}
