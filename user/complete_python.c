// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The interpreter's frames from where the kernel side stopped, with its stops: the same steps as in
 * bpf/python.bpf.c. Which frame started a collection is not asked for.
 */
#include "complete_parts.h"

#include <string.h>

#include "python_object.h"

#define OWNER_GENERATOR 1	/* enum _frameowner, Include/internal/pycore_frame.h, 3.11 on */
#define OWNER_ENTRY 3		/* and above: the interpreter's own entry frames, 3.12 on */
#define FRAME_BYTES 128u	/* PY_FRAME_BYTES of the kernel side */
#define MAX_TLBC 65536		/* copies of bytecode, one per thread */
#define SEEN 256u		/* code objects that are met again: recursion, mostly */

struct walk {
	struct complete_memory *memory;
	const struct rprof_python *p;
	struct complete_tail *tail;
	struct rprof_python_frame *out;
	__u64 frame;
	__u32 where;		/* of the last entry */
	__u8 bytes[FRAME_BYTES];
};

static __u64 word_at(const __u8 *frame, __u32 offset)
{
	__u64 word;

	memcpy(&word, frame + (offset & (FRAME_BYTES - 8)), sizeof(word));
	return word;
}

static __u32 half_at(const __u8 *frame, __u32 offset)
{
	__u32 half;

	memcpy(&half, frame + (offset & (FRAME_BYTES - 4)), sizeof(half));
	return half;
}

static __u8 byte_at(const __u8 *frame, __u32 offset)
{
	return frame[offset & (FRAME_BYTES - 1)];
}

/* A tagged integer or an error is no code object; a deferred reference has bit 0. 0: it is none. */
static __u64 code_of(const __u8 *frame, const struct rprof_python *p)
{
	const __u64 code = word_at(frame, p->f_code), tags = p->f_tags & 7;

	return (code & tags) > 1 || (code & ~tags & 7) ? 0 : code & ~tags;
}

bool complete_python_links(const __u8 *frame, const struct complete_edge *e,
			   const struct rprof_python *p)
{
	return word_at(frame, p->f_previous) == e->python_next &&
	       (!e->python_code || code_of(frame, p) == e->python_code);
}

static bool put(struct walk *w, __u64 code, __u32 where)
{
	if (w->tail->n_python == RPROF_MAX_PYTHON)
		return false;
	w->out[w->tail->n_python++] = (struct rprof_python_frame){ .code = code, .where = where };
	w->where = where;
	return true;
}

/* Where this thread's copy of the bytecode begins; 0: not known. FT builds, 3.14 on: co_tlbc. */
static __u64 bytecode(struct walk *w, __u64 code)
{
	const __u32 index = w->p->f_tlbc ? half_at(w->bytes, w->p->f_tlbc) : 0;
	__u64 array = 0, entry = 0;

	if (!index)
		return code + w->p->co_code;
	if (index > MAX_TLBC ||
	    !complete_memory_read(w->memory, code + w->p->co_tlbc, &array, sizeof(array), 1) ||
	    !array ||
	    !complete_memory_read(w->memory, array + 8 + 8 * (__u64)index, &entry, sizeof(entry),
				  1))
		return 0;
	return entry;
}

static __u32 instruction(struct walk *w, __u64 code)
{
	__u64 start, instr, index;
	__s32 lasti;

	if (w->p->flags & RPROF_PYTHON_FRAME_OBJECTS) {
		lasti = (__s32)half_at(w->bytes, w->p->f_instr);
		if (lasti < 0)
			return RPROF_PY_NOT_STARTED;
		index = w->p->flags & RPROF_PYTHON_LASTI_BYTES ? lasti / 2 : lasti;
	} else {
		instr = word_at(w->bytes, w->p->f_instr);
		start = bytecode(w, code);
		if (start && instr == start - 2)
			return RPROF_PY_NOT_STARTED;
		if (!start || instr < start)
			return RPROF_PY_NO_INSTR;
		index = (instr - start) / 2;
	}
	return index > RPROF_PY_INSTR ? RPROF_PY_NO_INSTR : (__u32)index;
}

/* Return: RPROF_STOP_NONE, or why the walk is over. */
static unsigned int put_frame(struct walk *w, __u8 owner)
{
	const struct rprof_python *p = w->p;
	const __u64 code = code_of(w->bytes, p);
	__u32 where;

	if (!code)
		return RPROF_STOP_BAD_FRAME;
	where = instruction(w, code);
	if (owner == OWNER_GENERATOR)
		where |= RPROF_PY_GENERATOR;
	if (p->flags & RPROF_PYTHON_FRAME_OBJECTS)
		where |= RPROF_PY_ENTRY;
	if (!put(w, code, where))
		return RPROF_STOP_DEPTH;
	/* 3.11: where its _PyCFrame lies is what the kernel side alone knows. */
	if (p->flags & RPROF_PYTHON_IS_ENTRY && byte_at(w->bytes, p->f_entry) &&
	    !put(w, 0, RPROF_PY_SHIM))
		return RPROF_STOP_DEPTH;
	return RPROF_STOP_NONE;
}

/*
 * 3.15: the base frame of a thread state is the end, and no activation. It has no instruction, while
 * every other entry frame points to the trampoline's (Python/pystate.c, init_threadstate();
 * Python/ceval.c).
 */
static bool is_base(const struct walk *w)
{
	const struct rprof_python *p = w->p;

	return p->flags & RPROF_PYTHON_BASE_FRAME && byte_at(w->bytes, p->f_owner) >= OWNER_ENTRY &&
	       !word_at(w->bytes, p->f_previous) && !word_at(w->bytes, p->f_instr);
}

/* A base frame is what it is as long as its thread lives: it does not matter when it is read. */
static bool read_frame(struct walk *w)
{
	/* Parents have lower addresses. */
	if (complete_memory_read(w->memory, w->frame, w->bytes, w->p->f_read, -1))
		return true;
	return w->memory->closed &&
	       python_read(&w->memory->source, w->frame, w->bytes, w->p->f_read) && is_base(w);
}

static unsigned int put_entry(struct walk *w, __u64 previous)
{
	if (is_base(w))
		return RPROF_STOP_END;
	if (!put(w, w->frame, RPROF_PY_SHIM))
		return RPROF_STOP_DEPTH;
	return previous ? RPROF_STOP_NONE : RPROF_STOP_END;
}

/* At 0 a chain ends only behind an entry frame, where there are such, and never in 3.15. */
static unsigned int end_of(const struct walk *w)
{
	if (w->p->flags & RPROF_PYTHON_BASE_FRAME)
		return RPROF_STOP_BAD_FRAME;
	return w->p->flags & RPROF_PYTHON_FRAME_OBJECTS || w->where & RPROF_PY_SHIM ?
		       RPROF_STOP_END :
		       RPROF_STOP_BAD_FRAME;
}

static unsigned int step(struct walk *w)
{
	const struct rprof_python *p = w->p;
	unsigned int stop;
	__u64 previous;
	__u8 owner = 0;

	if (!w->frame)
		return end_of(w);
	if (w->frame & 7)
		return RPROF_STOP_UNALIGNED;
	if (!read_frame(w))
		return RPROF_STOP_FAULT;
	previous = word_at(w->bytes, p->f_previous);
	if (!(p->flags & RPROF_PYTHON_FRAME_OBJECTS))
		owner = byte_at(w->bytes, p->f_owner);
	stop = owner >= OWNER_ENTRY ? put_entry(w, previous) : put_frame(w, owner);
	if (stop != RPROF_STOP_NONE)
		return stop;
	if (previous == w->frame)
		return RPROF_STOP_BAD_FRAME;
	w->frame = previous;
	return RPROF_STOP_NONE;
}

/* Fingerprints of all frames, each code object read once. What is none ends the stack before it. */
static void identify(struct walk *w, const struct python_object_key *key)
{
	static __u64 codes[RPROF_MAX_PYTHON];	/* the main thread's alone */
	static __s64 found[RPROF_MAX_PYTHON];
	static __u16 of[RPROF_MAX_PYTHON];
	__u16 seen[SEEN] = { 0 };		/* 1 + index in codes[] */
	size_t n = 0;

	for (size_t i = 0; i < w->tail->n_python; i++) {
		const __u64 code = w->out[i].code;
		__u16 *met = &seen[((code >> 4) ^ (code >> 12)) % SEEN];

		if (w->out[i].where & RPROF_PY_SHIM)
			continue;
		if (!*met || codes[*met - 1] != code) {
			codes[n] = code;
			*met = (__u16)++n;
		}
		of[i] = *met - 1;
	}
	python_object_fingerprints(&w->memory->source, w->p, key, codes, n, found);
	for (size_t i = 0; i < w->tail->n_python; i++) {
		if (w->out[i].where & RPROF_PY_SHIM)
			continue;
		if (found[of[i]] == PYTHON_OBJECT_NONE) {
			w->tail->n_python = (__u16)i;
			w->tail->stop_python = RPROF_STOP_BAD_FRAME;
			return;
		}
		w->out[i].fingerprint = (__u32)found[of[i]];
	}
}

void complete_python(struct complete_memory *m, const struct complete_edge *e,
		     const struct rprof_python *p, __u64 seed, __u64 key, struct complete_tail *t)
{
	const struct python_object_key id = { .hash_seed = seed, .hash_key = key };
	struct walk w = {
		.memory = m,
		.p = p,
		.tail = t,
		.out = complete_tail_python(t),
		.frame = e->python_next,
		.where = e->python_code ? 0 : RPROF_PY_SHIM,
	};

	t->stop_python = RPROF_STOP_FAULT;
	if (p->f_read > FRAME_BYTES)
		return;
	do
		t->stop_python = step(&w);
	while (t->stop_python == RPROF_STOP_NONE);
	identify(&w, &id);
}
