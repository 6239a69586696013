// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Code objects: what tells one from another, and what one says. Captured at first sight, in the
 * interrupt that met it, since a moment later it may be gone. The memory is the target's: a word of
 * it is a length or an address only after a bound, and what is too long or not there is left to user
 * space, which may wait for it.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "python.bpf.h"
#include "rprof/hash.h"

extern const volatile struct rprof_config rprof_config;

/*
 * The start of every PyUnicodeObject from .str_length on, of 3.9 to 3.15, with and without the GIL:
 * Include/cpython/unicodeobject.h, PyASCIIObject.
 */
struct text_head {
	u64 length;
	u64 hash;
	u32 state;
	u32 reserved;
};

/* What of a text goes into fingerprints. Lies in py_scratch.text, which has no other use meanwhile. */
struct text_tail {
	u64 time_ns;			/* of the sample that it was read in, */
	u64 object;			/* of the string at this address */
	u32 has_head, has_words;
	struct text_head head;
	u64 words[RPROF_TEXT_TAIL / 8];
};

struct text_tails {
	struct text_tail of[2];		/* name, file name */
};

/* Where a text is, and how much of it. */
struct text_place {
	u64 addr;			/* 0: it is no compact string */
	u64 size;			/* bytes */
	u32 kind, ascii;
};

__noinline int text_tail(u32 slot, u32 which, u64 object);
__noinline int code_part(u32 slot, u32 which);
__noinline int code_send(u32 slot, u64 code, u32 fingerprint);

static __always_inline u64 co_word(struct py_scratch *ps, u64 offset)
{
	u64 at = offset - ps->p.co_type;

	/* As in emit.bpf.c: the bound that clang proves is the one the verifier needs. */
	asm volatile("" : "+r"(at));
	if (at > PY_CODE_BYTES)
		return 0;
	return *(u64 *)(ps->co + (at & ~7ULL));
}

static __always_inline u32 co_half(struct py_scratch *ps, u64 offset)
{
	u64 at = offset - ps->p.co_type;

	asm volatile("" : "+r"(at));
	if (at > PY_CODE_BYTES)
		return 0;
	return *(u32 *)(ps->co + (at & ~3ULL));
}

static __always_inline struct text_place text_place(struct py_scratch *ps, u64 object,
						    const struct text_head *head)
{
	const struct rprof_python *p = &ps->p;
	struct text_place place = {};
	u32 kind = head->state >> (p->str_kind_shift & 31) & 7;
	u32 ascii = head->state >> (p->str_ascii_bit & 31) & 1;

	if (!(head->state >> (p->str_compact_bit & 31) & 1))
		return place;
	if (kind != 1 && (ascii || (kind != 2 && kind != 4)))
		return place;
	/* A length that no record has room to say is none. */
	if (head->length > 0xffffffffULL)
		return place;
	place.addr = object + (ascii ? p->str_ascii : p->str_compact);
	place.size = head->length * kind;
	place.kind = kind;
	place.ascii = ascii;
	return place;
}

/* The object's part that py_scratch.co takes. */
static __always_inline int code_read(struct py_scratch *ps, u64 code)
{
	u64 size = ps->p.co_read;

	asm volatile("" : "+r"(size));
	if (size > PY_CODE_BYTES)
		return -1;
	return py_read(ps, ps->co, size, code + ps->p.co_type) ? 0 : -1;
}

/* Fill text_tails.of[@which]. Programs have one file for many functions, and recursion one name. */
__noinline int text_tail(u32 slot, u32 which, u64 object)
{
	struct py_scratch *ps = py_at(slot);
	struct scratch *s = scratch_at(slot);
	struct text_place place;
	struct text_tail *t;
	u64 size;

	asm volatile("" : "+r"(which), "+r"(object));
	if (!ps || !s)
		return 0;
	t = &((struct text_tails *)ps->text)->of[which & 1];
	if (!ps->compare && t->time_ns == s->time_ns && t->object == object)
		return 0;
	t->time_ns = s->time_ns;
	t->object = object;
	t->has_head = t->has_words = 0;
	if (!py_read(ps, &t->head, sizeof(t->head), object + ps->p.str_length))
		return 0;
	place = text_place(ps, object, &t->head);
	if (!place.addr)
		return 0;
	t->has_head = 1;
	__builtin_memset(t->words, 0, sizeof(t->words));
	size = place.size;
	if (size > RPROF_TEXT_TAIL)
		size = RPROF_TEXT_TAIL;
	place.addr += place.size - size;
	asm volatile("" : "+r"(size));
	if (size > RPROF_TEXT_TAIL)
		return 0;
	t->has_words = py_read(ps, t->words, size, place.addr);
	return 0;
}

static __always_inline u64 mix_text(struct py_scratch *ps, u64 h, u32 which)
{
	const u64 key = rprof_config.hash_key;
	struct text_tail *t = &((struct text_tails *)ps->text)->of[which];

	if (!t->has_head)
		return h;
	h = rprof_mix(h, t->head.length, key);
	h = rprof_mix(h, t->head.hash, key);
	if (!t->has_words)
		return h;
	for (int i = 0; i < RPROF_TEXT_TAIL / 8; i++)
		h = rprof_mix(rprof_mix(h, t->words[i], key), ~h, key);
	return h;
}

__noinline int code_fingerprint(u32 slot, u64 code)
{
	struct py_scratch *ps = py_at(slot);
	u64 h = rprof_config.hash_seed;
	u64 at;

	asm volatile("" : "+r"(code));
	if (!ps || code_read(ps, code))
		return 1;
	if (*(u64 *)ps->co != ps->p.code_type)
		return 2;
	at = (u64)ps->p.co_from - ps->p.co_type;
	for (u32 i = 0; i < PY_CODE_BYTES / 8; i++) {
		if (at + 8 > ps->p.co_read)
			break;
		asm volatile("" : "+r"(at));
		if (at > PY_CODE_BYTES - 8)
			break;
		h = rprof_mix(h, *(u64 *)(ps->co + (at & ~7ULL)), rprof_config.hash_key);
		at += 8;
	}
	if (!(ps->p.flags & RPROF_PYTHON_CODE_VERSION) || !co_half(ps, ps->p.co_version)) {
		text_tail(slot, 0, co_word(ps, ps->p.co_name));
		h = mix_text(ps, h, 0);
		text_tail(slot, 1, co_word(ps, ps->p.co_filename));
		h = mix_text(ps, h, 1);
	}
	ps->code = code;
	ps->fingerprint = rprof_fingerprint(h);
	return 0;
}

/* Where the bytes of a part are; place.addr 0: that is not known. */
static __always_inline struct text_place part_place(struct py_scratch *ps, u32 which)
{
	const struct rprof_python *p = &ps->p;
	struct text_place place = {};
	struct text_head head;
	u64 object;

	if (which != RPROF_CODE_LINES) {
		object = co_word(ps, which == RPROF_CODE_NAME ? p->co_name : p->co_filename);
		if (!py_read(ps, &head, sizeof(head), object + p->str_length))
			return place;
		return text_place(ps, object, &head);
	}
	object = co_word(ps, p->co_lines);
	if (!py_read(ps, &head.length, sizeof(head.length), object + p->bytes_size) ||
	    head.length > 0xffffffffULL)
		return place;
	place.addr = object + p->bytes_data;
	place.size = head.length;
	place.kind = 1;
	return place;
}

static __always_inline u64 part_limit(u32 which)
{
	if (which == RPROF_CODE_NAME)
		return RPROF_MAX_CODE_NAME;
	return which == RPROF_CODE_FILE ? RPROF_MAX_CODE_FILE : RPROF_MAX_CODE_LINES;
}

/* Describe the next part, and append its bytes to the record, all of them or none. */
__noinline int code_part(u32 slot, u32 which)
{
	struct py_scratch *ps = py_at(slot);
	struct text_place place;
	struct rprof_code_text *t;
	u64 at, size, pad;

	asm volatile("" : "+r"(which));
	if (!ps || which >= RPROF_CODE_PARTS)
		return 0;
	place = part_place(ps, which);
	t = &ps->record.parts[which];
	t->addr = place.addr;
	t->length = place.addr ? place.size / place.kind : 0;
	t->kind = place.kind;
	t->ascii = place.ascii;
	t->captured = 0;
	at = ps->record.h.len - sizeof(ps->record);
	size = place.size;
	if (!place.addr || size > part_limit(which))
		return 0;
	asm volatile("" : "+r"(at), "+r"(size));
	if (at > RPROF_MAX_CODE_NAME + RPROF_MAX_CODE_FILE || size > RPROF_MAX_CODE_LINES || !size)
		return 0;
	/* The last word first: what follows the bytes in it stays 0. */
	pad = at + ((size - 1) & ~7ULL);
	asm volatile("" : "+r"(pad));
	if (pad > sizeof(ps->text) - 8)
		return 0;
	*(u64 *)(ps->text + (pad & ~7ULL)) = 0;
	if (!py_read(ps, ps->text + at, size, place.addr))
		return 0;
	t->captured = size;
	ps->record.h.len += (size + 7) & ~7ULL;
	return 0;
}

/* Send the code object. 1: the ring had no room; 2: it is not that of the frame any more. */
__noinline int code_send(u32 slot, u64 code, u32 fingerprint)
{
	struct py_scratch *ps = py_at(slot);
	struct scratch *s = scratch_at(slot);
	struct rprof_cpu *cpu = this_cpu();
	u64 len;
	int err;

	asm volatile("" : "+r"(code), "+r"(fingerprint));
	if (!ps || !s || !cpu)
		return 1;
	if (code_fingerprint(slot, code) || ps->fingerprint != fingerprint)
		return 2;
	ps->record = (struct rprof_code){
		.h = { .type = RPROF_RECORD_CODE, .len = sizeof(ps->record) },
		.time_ns = s->time_ns,
		.code = code,
		.fingerprint = fingerprint,
		.tgid = s->stack.tgid,
		.execs = ps->execs,
		.firstlineno = co_half(ps, ps->p.co_firstlineno),
		.version = ps->p.version,
	};
	for (u32 i = 0; i < RPROF_CODE_PARTS; i++)
		code_part(slot, i);
	len = ps->record.h.len;
	asm volatile("" : "+r"(len));
	if (len > sizeof(ps->record) + sizeof(ps->text))
		return 1;
	err = bpf_ringbuf_output(&rprof_ring, &ps->record, len, BPF_RB_NO_WAKEUP);
	/* The bytes lie where the tails are remembered: nothing is. */
	((struct text_tails *)ps->text)->of[0].time_ns = 0;
	((struct text_tails *)ps->text)->of[1].time_ns = 0;
	cpu->counters[err ? RPROF_STOP_LOST_CODE : RPROF_COUNT_CODES]++;
	return !!err;
}

/* The frame @i of the record; NULL: there is none. */
static __always_inline struct rprof_python_frame *python_frame(struct scratch *s, u32 i)
{
	u64 at = (u64)s->stack.n_kernel + 2 * s->stack.n_native + 2 * (u64)i;

	asm volatile("" : "+r"(at));
	if (i >= s->stack.n_python || at > RECORD_WORDS - 2)
		return NULL;
	return (struct rprof_python_frame *)&s->words[at];
}

/* Send what the ring has not had of the code object of a frame. 1: there is no room for more. */
static __always_inline int code_of_frame(struct scratch *s, struct py_scratch *ps, u32 slot,
					 const struct rprof_python_frame *f)
{
	struct code_key key = { .code = f->code, .tgid = s->stack.tgid, .execs = ps->execs };
	struct code_known *known, now = {};
	u32 fingerprint = f->fingerprint;
	int sent;

	if (!fingerprint || f->where & (RPROF_PY_SHIM | RPROF_PY_NEXT))
		return 0;
	known = bpf_map_lookup_elem(&rprof_code, &key);
	if (known && known->sent && known->fingerprint == fingerprint)
		return 0;
	if (!ps->sent_budget)
		return 1;
	ps->sent_budget--;
	sent = code_send(slot, key.code, fingerprint);
	if (sent == 1)
		return 1;
	/* What is gone is not asked for again, but tells nothing of what is there now. */
	now.generation = sent == 2 ? 0 : ps->generation;
	now.fingerprint = fingerprint;
	now.sent = 1;
	bpf_map_update_elem(&rprof_code, &key, &now, BPF_ANY);
	return 0;
}

__noinline int code_chunk(u32 slot, u32 from)
{
	struct py_scratch *ps = py_at(slot);
	struct scratch *s = scratch_at(slot);

	asm volatile("" : "+r"(from));
	if (!ps || !s)
		return 1;
	for (u32 i = 0; i < RPROF_CHUNK; i++) {
		struct rprof_python_frame *f = python_frame(s, from + i);

		if (!f || code_of_frame(s, ps, slot, f))
			return 1;
	}
	return 0;
}
