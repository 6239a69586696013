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
	struct resolved_stack **reads;	/* what stacks read, shared by texts */
	size_t n_reads, cap_reads;
	struct idmap read_of_hash;	/* (hash, probe) -> read */
	struct profile_line **texts;
	size_t n_texts, cap_texts;
	struct profile_line **lines;	/* own copies */
	size_t n_lines, cap_lines;
	struct profile_stack *stacks;
	size_t n_stacks, cap_stacks;
	struct waiting *waiting;
	size_t n_waiting, cap_waiting;
	__u32 free_waiting;	/* list of those that may be used again */
	__u64 waiting_value;
	struct idmap stack_of_id;
	struct idmap stack_of_process;	/* tgid -> its newest stack; NONE */
	__u32 free_stack;		/* list of places that may be used again */
	size_t n_ids;			/* ids that ever were */
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
	p->free_stack = NONE;
	idmap_init(&p->stack_of_id);
	idmap_init(&p->stack_of_process);
	idmap_init(&p->read_of_hash);
	idmap_init(&p->text_of_hash);
	idmap_init(&p->line_of_text);
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_reads; i++) {
		free(p->reads[i]->frames);
		free(p->reads[i]);
	}
	for (size_t i = 0; i < p->n_texts; i++)
		free(p->texts[i]);
	free(p->reads);
	idmap_fini(&p->read_of_hash);
	idmap_fini(&p->stack_of_process);
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

/* Names and marks are interned, so pointers stand for texts. */
static __u64 hash_read(const struct resolved_stack *r)
{
	__u64 h = 0x9e3779b97f4a7c15ULL;

	for (size_t i = 0; i < r->n_frames; i++) {
		h = (h ^ (__u64)(unsigned long)r->frames[i].name ^ r->frames[i].kind) *
		    0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	return h;
}

static bool same_read(const struct resolved_stack *a, const struct resolved_stack *b)
{
	if (a->n_frames != b->n_frames || a->n_marks != b->n_marks)
		return false;
	for (size_t i = 0; i < a->n_frames; i++)
		if (a->frames[i].name != b->frames[i].name ||
		    a->frames[i].kind != b->frames[i].kind)
			return false;
	for (size_t i = 0; i < a->n_marks; i++)
		if (a->marks[i] != b->marks[i])
			return false;
	return true;
}

/* The read equal to @r, adding a copy of it; takes over its frames. NULL: no memory. */
static const struct resolved_stack *intern_read(struct profile *p, struct resolved_stack *r)
{
	__u64 hash = hash_read(r), probe = 0;
	struct resolved_stack **reads, *copy;
	__u32 i;

	for (; idmap_find(&p->read_of_hash, hash, probe, &i); probe++) {
		if (same_read(p->reads[i], r)) {
			free(r->frames);
			return p->reads[i];
		}
	}
	copy = malloc(sizeof(*copy));
	reads = array_grow(p->reads, &p->cap_reads, p->n_reads + 1,
			   sizeof(struct resolved_stack *));
	if (reads)
		p->reads = reads;
	if (!copy || !reads || idmap_put(&p->read_of_hash, hash, probe, (__u32)p->n_reads)) {
		free(copy);
		free(r->frames);
		return NULL;
	}
	*copy = *r;
	p->reads[p->n_reads++] = copy;
	return copy;
}

static __u64 hash_text(const struct profile_line *t)
{
	__u64 h = ((__u64)(unsigned long)t->stack ^ t->tgid) * 0xff51afd7ed558ccdULL;

	for (size_t i = 0; i < sizeof(t->comm); i++)
		h = (h ^ (unsigned char)t->comm[i]) * 0x100000001b3ULL;
	return h ^ (h >> 32);
}

/* Index of the text equal to @t, adding a copy of it; -ENOMEM. */
static int intern_text(struct profile *p, const struct profile_line *t, __u32 *index)
{
	__u64 hash = hash_text(t), probe = 0;
	struct profile_line **texts, *copy;

	for (; idmap_find(&p->text_of_hash, hash, probe, index); probe++) {
		const struct profile_line *have = p->texts[*index];

		if (have->stack == t->stack && have->tgid == t->tgid &&
		    !memcmp(have->comm, t->comm, sizeof(t->comm)))
			return 0;
	}
	copy = malloc(sizeof(*copy));
	texts = array_grow(p->texts, &p->cap_texts, p->n_texts + 1, sizeof(struct profile_line *));
	if (texts)
		p->texts = texts;
	if (!copy || !texts || idmap_put(&p->text_of_hash, hash, probe, (__u32)p->n_texts)) {
		free(copy);
		return -ENOMEM;
	}
	*copy = *t;
	*index = (__u32)p->n_texts;
	p->texts[p->n_texts++] = copy;
	return 0;
}

/* A place for one more stack: its index, or NONE. */
static __u32 take_place(struct profile *p)
{
	__u32 i = p->free_stack;
	struct profile_stack *grown;

	if (i != NONE) {
		p->free_stack = p->stacks[i].next;
		return i;
	}
	grown = array_grow(p->stacks, &p->cap_stacks, p->n_stacks + 1, sizeof(*grown));
	if (!grown)
		return NONE;
	p->stacks = grown;
	return (__u32)p->n_stacks++;
}

int profile_add_stack(struct profile *p, __u64 id, const char comm[RPROF_COMM_LEN], __u32 tgid,
		      __u32 space)
{
	__u32 i = take_place(p), next = NONE;
	struct profile_stack *s;

	if (i == NONE)
		return -ENOMEM;
	idmap_find(&p->stack_of_process, tgid, 0, &next);
	s = &p->stacks[i];
	*s = (struct profile_stack){
		.tgid = tgid,
		.space = space,
		.id = id,
		.text = NONE,
		.waiting = NONE,
		.next = next,
	};
	memcpy(s->comm, comm, sizeof(s->comm));
	p->n_ids++;
	if (idmap_put(&p->stack_of_id, id, 0, i))
		return -ENOMEM;
	return idmap_put(&p->stack_of_process, tgid, 0, i);
}

void profile_forget_process(struct profile *p, __u32 tgid, void (*forgotten)(void *ctx, __u64 id),
			    void *ctx)
{
	__u32 i, next, kept = NONE;

	if (!idmap_find(&p->stack_of_process, tgid, 0, &i))
		return;
	for (; i != NONE; i = next) {
		struct profile_stack *s = &p->stacks[i];

		next = s->next;
		if (s->text == NONE) {
			/* What it reads is still to be told. */
			s->next = kept;
			kept = i;
			continue;
		}
		idmap_remove(&p->stack_of_id, s->id, 0);
		forgotten(ctx, s->id);
		s->next = p->free_stack;
		p->free_stack = i;
	}
	if (kept == NONE)
		idmap_remove(&p->stack_of_process, tgid, 0);
	else
		idmap_put(&p->stack_of_process, tgid, 0, kept);
}

/* Takes over the frames of @stack. */
static int make_text(struct profile *p, const struct profile_stack *of,
		     struct resolved_stack *stack, __u32 *text)
{
	struct profile_line t = { .stack = intern_read(p, stack) };

	if (!t.stack)
		return -ENOMEM;
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

void profile_set_may_change(struct profile *p, __u64 id, __u64 changes)
{
	struct profile_stack *s = find(p, id);

	s->may_change = true;
	s->changes = changes;
}

bool profile_has_text(const struct profile_stack *s)
{
	return s->text != NONE;
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

/* Where it was counted for a stack, with and without a text; NULL: nowhere. */
static __u64 *counted(struct profile *p, const struct profile_stack *s, __u32 tid)
{
	__u32 line;

	if (s->text != NONE)
		return idmap_find(&p->line_of_text, s->text, tid, &line) ? &p->lines[line]->count :
									   NULL;
	for (__u32 i = s->waiting; i != NONE; i = p->waiting[i].next) {
		if (p->waiting[i].tid == tid)
			return &p->waiting[i].value;
	}
	return NULL;
}

int profile_move_samples(struct profile *p, __u64 from, __u64 to, __u32 tid, __u64 value)
{
	struct profile_stack *s = find(p, from), *t = find(p, to);
	__u64 *have;
	int err;

	if (!p->by_thread)
		tid = 0;
	have = s && t ? counted(p, s, tid) : NULL;
	if (!have || *have < value)
		return -ENOENT;
	err = t->text == NONE ? wait_for_text(p, t, tid, value) : count(p, t->text, tid, value);
	if (err)
		return err;
	/* What waits may have moved. */
	*counted(p, s, tid) -= value;
	if (s->text == NONE)
		p->waiting_value -= value;
	return 0;
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
	return p->n_ids;
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
	size_t n = 0;

	if (!ranked || !out) {
		free(ranked);
		free(out);
		return -ENOMEM;
	}
	for (size_t i = 0; i < p->n_lines; i++) {
		if (p->lines[i]->count)
			ranked[n++] = (struct ranked){ p->lines[i], i };
	}
	qsort(ranked, n, sizeof(*ranked), by_count);
	for (size_t i = 0; i < n; i++)
		out[i] = ranked[i].line;
	free(ranked);
	*lines = out;
	return (long)n;
}
