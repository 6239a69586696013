// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "profile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "idmap.h"

#define NONE ~0U

/*
 * Texts: what stacks read, without a count. Lines: a text with a count, and a thread when lines are
 * kept apart by thread. idmaps lead from stack id to stack, and from (text, tid) to line. What is
 * counted before a stack has its text waits in a list.
 */
struct waiting {
	__u32 tid;
	__u32 next;		/* of the same stack, or free; NONE */
	__u64 value;
};

struct profile {
	bool by_process, by_thread;
	struct profile_line **texts;
	size_t n_texts, cap_texts;
	struct profile_line **lines;	/* own copies; ->stack.frames belongs to the text */
	size_t n_lines, cap_lines;
	struct profile_stack *stacks;
	size_t n_stacks, cap_stacks;
	struct waiting *waiting;
	size_t n_waiting, cap_waiting;
	__u32 free_waiting;	/* list of those that may be used again */
	__u64 waiting_value;
	struct idmap stack_of_id;
	struct idmap text_of_hash;	/* (hash of text, probe) -> text */
	struct idmap line_of_text;
	__u64 n_samples;
};

struct profile *profile_new(bool by_process, bool by_thread)
{
	struct profile *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->by_process = by_process;
	p->by_thread = by_thread;
	p->free_waiting = NONE;
	idmap_init(&p->stack_of_id);
	idmap_init(&p->text_of_hash);
	idmap_init(&p->line_of_text);
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_texts; i++) {
		free(p->texts[i]->stack.frames);
		free(p->texts[i]);
	}
	for (size_t i = 0; i < p->n_lines; i++)
		free(p->lines[i]);
	free(p->texts);
	free(p->lines);
	free(p->stacks);
	free(p->waiting);
	idmap_fini(&p->stack_of_id);
	idmap_fini(&p->text_of_hash);
	idmap_fini(&p->line_of_text);
	free(p);
}

static struct profile_stack *find(const struct profile *p, __u64 id)
{
	__u32 i;

	return idmap_find(&p->stack_of_id, id, 0, &i) ? &p->stacks[i] : NULL;
}

const struct profile_stack *profile_find(const struct profile *p, __u64 id)
{
	return find(p, id);
}

/* Names are interned, so pointers stand for texts. */
static __u64 hash_text(const struct profile_line *t)
{
	__u64 h = 0x9e3779b97f4a7c15ULL ^ t->tgid;

	for (size_t i = 0; i < sizeof(t->comm); i++)
		h = (h ^ (unsigned char)t->comm[i]) * 0x100000001b3ULL;
	for (size_t i = 0; i < t->stack.n_frames; i++) {
		h = (h ^ (__u64)(unsigned long)t->stack.frames[i].name ^ t->stack.frames[i].kind) *
		    0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	return h;
}

static bool same_text(const struct profile_line *a, const struct profile_line *b)
{
	if (a->tgid != b->tgid || memcmp(a->comm, b->comm, sizeof(a->comm)) ||
	    a->stack.n_frames != b->stack.n_frames || a->stack.n_marks != b->stack.n_marks)
		return false;
	for (size_t i = 0; i < a->stack.n_frames; i++)
		if (a->stack.frames[i].name != b->stack.frames[i].name ||
		    a->stack.frames[i].kind != b->stack.frames[i].kind)
			return false;
	for (size_t i = 0; i < a->stack.n_marks; i++)
		if (a->stack.marks[i] != b->stack.marks[i])
			return false;
	return true;
}

/* Index of the text equal to @t, adding a copy of it that takes over the frames; -ENOMEM. */
static int intern_text(struct profile *p, struct profile_line *t, __u32 *index)
{
	__u64 hash = hash_text(t), probe = 0;
	struct profile_line **texts, *copy;

	for (; idmap_find(&p->text_of_hash, hash, probe, index); probe++) {
		if (same_text(p->texts[*index], t)) {
			free(t->stack.frames);
			return 0;
		}
	}
	copy = malloc(sizeof(*copy));
	texts = array_grow(p->texts, &p->cap_texts, p->n_texts + 1, sizeof(*texts));
	if (texts)
		p->texts = texts;
	if (!copy || !texts || idmap_put(&p->text_of_hash, hash, probe, p->n_texts)) {
		free(copy);
		free(t->stack.frames);
		return -ENOMEM;
	}
	*copy = *t;
	*index = p->n_texts;
	p->texts[p->n_texts++] = copy;
	return 0;
}

int profile_add_stack(struct profile *p, __u64 id, const char comm[RPROF_COMM_LEN], __u32 tgid,
		      __u32 space)
{
	struct profile_stack *grown =
		array_grow(p->stacks, &p->cap_stacks, p->n_stacks + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	p->stacks = grown;
	grown += p->n_stacks;
	*grown = (struct profile_stack){
		.tgid = tgid,
		.space = space,
		.text = NONE,
		.waiting = NONE,
	};
	memcpy(grown->comm, comm, sizeof(grown->comm));
	return idmap_put(&p->stack_of_id, id, 0, (__u32)p->n_stacks++);
}

/* Takes over the frames of @stack. */
static int make_text(struct profile *p, const struct profile_stack *of,
		     struct resolved_stack *stack, __u32 *text)
{
	struct profile_line t = { .stack = *stack };

	if (p->by_process || p->by_thread)
		t.tgid = of->tgid;
	memcpy(t.comm, of->comm, strnlen(of->comm, RPROF_COMM_LEN));
	return intern_text(p, &t, text);
}

static int add_line(struct profile *p, __u32 text, __u32 tid, __u32 *index)
{
	struct profile_line **lines, *line;

	line = malloc(sizeof(*line));
	lines = array_grow(p->lines, &p->cap_lines, p->n_lines + 1, sizeof(*lines));
	if (lines)
		p->lines = lines;
	if (!line || !lines || idmap_put(&p->line_of_text, text, tid, p->n_lines)) {
		free(line);
		return -ENOMEM;
	}
	*line = *p->texts[text];
	line->tid = tid;
	line->count = 0;
	*index = p->n_lines;
	p->lines[p->n_lines++] = line;
	return 0;
}

void profile_set_may_change(struct profile *p, __u64 id)
{
	find(p, id)->may_change = true;
}

static int count(struct profile *p, __u32 text, __u32 tid, __u64 value)
{
	__u32 line;
	int err;

	if (!idmap_find(&p->line_of_text, text, tid, &line)) {
		err = add_line(p, text, tid, &line);
		if (err)
			return err;
	}
	p->lines[line]->count += value;
	return 0;
}

/* Count for a stack that has no text yet. */
static int wait_for_text(struct profile *p, struct profile_stack *s, __u32 tid, __u64 value)
{
	struct waiting *grown;
	__u32 i;

	p->waiting_value += value;
	for (i = s->waiting; i != NONE; i = p->waiting[i].next) {
		if (p->waiting[i].tid == tid) {
			p->waiting[i].value += value;
			return 0;
		}
	}
	i = p->free_waiting;
	if (i == NONE) {
		grown = array_grow(p->waiting, &p->cap_waiting, p->n_waiting + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->waiting = grown;
		i = (__u32)p->n_waiting++;
	} else {
		p->free_waiting = p->waiting[i].next;
	}
	p->waiting[i] = (struct waiting){ .tid = tid, .next = s->waiting, .value = value };
	s->waiting = i;
	return 0;
}

int profile_set_stack(struct profile *p, __u64 id, struct resolved_stack *stack)
{
	struct profile_stack *s = find(p, id);
	int err;

	if (!s) {
		free(stack->frames);
		return -ENOENT;
	}
	err = make_text(p, s, stack, &s->text);
	while (s->waiting != NONE && !err) {
		struct waiting *w = &p->waiting[s->waiting];
		__u32 i = s->waiting;

		err = count(p, s->text, w->tid, w->value);
		p->waiting_value -= w->value;
		s->waiting = w->next;
		w->next = p->free_waiting;
		p->free_waiting = i;
	}
	return err;
}

int profile_add_sample(struct profile *p, __u64 id, __u32 tid, __u64 value)
{
	struct profile_stack *s = find(p, id);
	int err;

	if (!s)
		return -ENOENT;
	if (!p->by_thread)
		tid = 0;
	err = s->text == NONE ? wait_for_text(p, s, tid, value) : count(p, s->text, tid, value);
	if (!err)
		p->n_samples++;
	return err;
}

int profile_add_other(struct profile *p, const struct profile_stack *of, __u32 tid, __u64 value,
		      struct resolved_stack *stack)
{
	__u32 text;
	int err = make_text(p, of, stack, &text);

	if (!err)
		err = count(p, text, p->by_thread ? tid : 0, value);
	if (!err)
		p->n_samples++;
	return err;
}

size_t profile_n_stacks(const struct profile *p)
{
	return p->n_stacks;
}

__u64 profile_n_waiting(const struct profile *p)
{
	return p->waiting_value;
}

__u64 profile_n_samples(const struct profile *p)
{
	return p->n_samples;
}

struct ranked {
	const struct profile_line *line;
	size_t order;
};

static int by_count(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->line->count != y->line->count)
		return x->line->count < y->line->count ? 1 : -1;
	return x->order < y->order ? -1 : x->order > y->order;
}

long profile_lines(const struct profile *p, const struct profile_line ***lines)
{
	struct ranked *ranked = calloc(p->n_lines + 1, sizeof(*ranked));
	const struct profile_line **out = calloc(p->n_lines + 1, sizeof(*out));

	if (!ranked || !out) {
		free(ranked);
		free(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->n_lines; i++)
		ranked[i] = (struct ranked){ p->lines[i], i };
	qsort(ranked, p->n_lines, sizeof(*ranked), by_count);
	for (size_t i = 0; i < p->n_lines; i++)
		out[i] = ranked[i].line;
	free(ranked);
	*lines = out;
	return p->n_lines;
}
