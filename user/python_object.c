// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_object.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rprof/hash.h"

#define MAX_CODE 192u	/* PY_CODE_BYTES of the kernel side */
#define AT_ONCE 16	/* code objects that are told apart by one call */
#define TAIL_WORDS (RPROF_TEXT_TAIL / 8)

/* The start of a PyUnicodeObject from .str_length on, 3.9 to 3.15; of a PyBytesObject its size alone. */
struct head {
	__u64 length;
	__u64 hash;
	__u32 state;
	__u32 reserved;
};

/* Where a part is. */
struct place {
	__u64 object;
	__u64 addr;	/* of its bytes; 0: it has none that are known */
	__u64 length;	/* code points */
	__u32 kind;
};

/* One attempt. */
struct reading {
	const struct rprof_python *p;
	const struct python_object_key *key;
	__u8 code[MAX_CODE]; /* from .co_type on */
	struct head heads[RPROF_CODE_PARTS];
	struct place places[RPROF_CODE_PARTS];
	__u8 tails[RPROF_CODE_PARTS][RPROF_TEXT_TAIL]; /* of names that are cut */
	struct python_object *out;
};

/* A member of the code object; 0: outside of what is read. */
static __u64 code_word(const struct reading *r, __u32 offset, size_t size)
{
	__u32 at = offset - r->p->co_type, half;
	__u64 word;

	if (at > MAX_CODE - size)
		return 0;
	if (size == sizeof(half)) {
		memcpy(&half, r->code + at, sizeof(half));
		return half;
	}
	memcpy(&word, r->code + at, sizeof(word));
	return word;
}

static __u64 part_object(const struct reading *r, int part)
{
	switch (part) {
	case RPROF_CODE_NAME:
		return code_word(r, r->p->co_name, 8);
	case RPROF_CODE_FILE:
		return code_word(r, r->p->co_filename, 8);
	default:
		return code_word(r, r->p->co_lines, 8);
	}
}

/* As the kernel side decides it (pycode.bpf.c): both must hash the same texts. */
static struct place part_place(const struct reading *r, int part, __u64 object,
			       const struct head *h)
{
	const struct rprof_python *p = r->p;
	struct place place = { .object = object };
	__u32 kind = h->state >> (p->str_kind_shift & 31) & 7;
	__u32 ascii = h->state >> (p->str_ascii_bit & 31) & 1;

	if (h->length > 0xffffffffULL)
		return place;
	if (part == RPROF_CODE_LINES) {
		place.addr = object + p->bytes_data;
		place.length = h->length;
		place.kind = 1;
		return place;
	}
	if (!(h->state >> (p->str_compact_bit & 31) & 1))
		return place;
	if (kind != 1 && (ascii || (kind != 2 && kind != 4)))
		return place;
	place.addr = object + (ascii ? p->str_ascii : p->str_compact);
	place.length = h->length;
	place.kind = kind;
	return place;
}

static __u64 part_bytes(const struct place *place)
{
	return place->addr ? place->length * place->kind : 0;
}

/* How many of @bytes are read. Without a line table there is a name all the same. */
static size_t wanted_bytes(int part, __u64 bytes)
{
	if (part == RPROF_CODE_LINES)
		return bytes > PYTHON_OBJECT_LINES ? 0 : bytes;
	return bytes > PYTHON_OBJECT_TEXT ? PYTHON_OBJECT_CUT : bytes;
}

static struct python_range head_range(const struct reading *r, int part, __u64 object,
				      struct head *to)
{
	if (part == RPROF_CODE_LINES)
		return (struct python_range){ object + r->p->bytes_size, &to->length,
					      sizeof(to->length) };
	return (struct python_range){ object + r->p->str_length, to, sizeof(*to) };
}

static struct python_range code_range(struct reading *r)
{
	return (struct python_range){ r->key->code + r->p->co_type, r->code, r->p->co_read };
}

/* The parts by the object itself. */
static int look_for_parts(const struct python_memory *m, struct reading *r)
{
	struct python_range ranges[RPROF_CODE_PARTS] = { code_range(r) };

	if (m->read(m->ctx, ranges, 1) != 1)
		return -EFAULT;
	if (code_word(r, r->p->co_type, 8) != r->p->code_type)
		return -ESTALE;
	for (int i = 0; i < RPROF_CODE_PARTS; i++)
		ranges[i] = head_range(r, i, part_object(r, i), &r->heads[i]);
	if (m->read(m->ctx, ranges, RPROF_CODE_PARTS) != RPROF_CODE_PARTS)
		return -EFAULT;
	for (int i = 0; i < RPROF_CODE_PARTS; i++)
		r->places[i] = part_place(r, i, part_object(r, i), &r->heads[i]);
	return 0;
}

/* The parts as the kernel side saw them. */
static void take_parts(struct reading *r, const struct rprof_code_text *where)
{
	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		__u64 data = where[i].ascii ? r->p->str_ascii : r->p->str_compact;

		if (i == RPROF_CODE_LINES)
			data = r->p->bytes_data;
		r->places[i] = (struct place){
			.object = where[i].addr - data,
			.addr = where[i].addr,
			.length = where[i].length,
			.kind = where[i].kind,
		};
	}
}

static int allocate(struct reading *r)
{
	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		struct python_object_part *part = &r->out->parts[i];
		__u64 bytes = part_bytes(&r->places[i]);

		part->kind = r->places[i].kind;
		part->size = wanted_bytes(i, bytes);
		part->is_cut = part->size && part->size < bytes;
		if (!r->places[i].addr || (!part->size && bytes))
			continue;
		part->bytes = malloc(part->size ? part->size : 1);
		if (!part->bytes)
			return -ENOMEM;
	}
	return 0;
}

static struct python_range tail_range(struct reading *r, int part)
{
	const struct place *place = &r->places[part];

	return (struct python_range){ place->addr + part_bytes(place) - RPROF_TEXT_TAIL,
				      r->tails[part], RPROF_TEXT_TAIL };
}

/* Heads, bytes, and behind them the object, all at once. */
static int read_all(const struct python_memory *m, struct reading *r)
{
	struct python_range ranges[3 * RPROF_CODE_PARTS + 1];
	size_t n = 0;

	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		struct python_object_part *part = &r->out->parts[i];

		ranges[n++] = head_range(r, i, r->places[i].object, &r->heads[i]);
		if (part->size)
			ranges[n++] =
				(struct python_range){ r->places[i].addr, part->bytes, part->size };
		if (part->is_cut)
			ranges[n++] = tail_range(r, i);
	}
	ranges[n++] = code_range(r);
	return m->read(m->ctx, ranges, n) == n ? 0 : -EFAULT;
}

static __u64 mix_text(const struct reading *r, __u64 h, int part)
{
	const struct python_object_part *text = &r->out->parts[part];
	size_t n = text->size < RPROF_TEXT_TAIL ? text->size : RPROF_TEXT_TAIL;
	const __u64 key = r->key->hash_key;
	__u64 words[TAIL_WORDS] = { 0 };

	if (!text->bytes)
		return h;
	memcpy(words, text->is_cut ? r->tails[part] : (const __u8 *)text->bytes + text->size - n,
	       n);
	h = rprof_mix(h, r->heads[part].length, key);
	h = rprof_mix(h, r->heads[part].hash, key);
	for (size_t i = 0; i < TAIL_WORDS; i++)
		h = rprof_mix(rprof_mix(h, words[i], key), ~h, key);
	return h;
}

static __u32 fingerprint(const struct reading *r)
{
	const struct rprof_python *p = r->p;
	__u64 h = r->key->hash_seed;

	for (__u32 at = p->co_from; at + 8 <= (__u32)p->co_type + p->co_read; at += 8)
		h = rprof_mix(h, code_word(r, at, 8), r->key->hash_key);
	if (!(p->flags & RPROF_PYTHON_CODE_VERSION) || !code_word(r, p->co_version, 4)) {
		h = mix_text(r, h, RPROF_CODE_NAME);
		h = mix_text(r, h, RPROF_CODE_FILE);
	}
	return rprof_fingerprint(h);
}

/* Is it the object that was sampled, and were its parts where we read? */
static bool is_the_one(const struct reading *r)
{
	if (code_word(r, r->p->co_type, 8) != r->p->code_type)
		return false;
	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		struct place now = part_place(r, i, part_object(r, i), &r->heads[i]);
		const struct place *then = &r->places[i];

		if (now.object != then->object || now.addr != then->addr ||
		    now.length != then->length || now.kind != then->kind)
			return false;
	}
	return fingerprint(r) == r->key->fingerprint;
}

int python_object_read(const struct python_memory *m, const struct rprof_python *p,
		       const struct python_object_key *key, const struct rprof_code_text *where,
		       struct python_object *out)
{
	struct python_object object = { 0 };
	struct reading r = { .p = p, .key = key, .out = &object };
	int err = 0;

	if (p->co_read > MAX_CODE)
		return -EFAULT;
	if (where)
		take_parts(&r, where);
	else
		err = look_for_parts(m, &r);
	if (!err)
		err = allocate(&r);
	if (!err)
		err = read_all(m, &r);
	if (!err && !is_the_one(&r))
		err = -ESTALE;
	if (err) {
		python_object_free(&object);
		return err;
	}
	object.firstlineno = (__s32)code_word(&r, p->co_firstlineno, 4);
	*out = object;
	return 0;
}

/* Without a version its texts say which one it is: they are read, and the object once more. */
static __u32 fingerprint_by_texts(const struct python_memory *m, struct reading *r)
{
	struct python_object object = { 0 };
	__u32 found = 0;

	r->out = &object;
	if (!look_for_parts(m, r)) {
		r->places[RPROF_CODE_LINES].addr = 0;
		if (!allocate(r) && !read_all(m, r))
			found = fingerprint(r);
	}
	python_object_free(&object);
	r->out = NULL;
	return found;
}

/* Of an object whose bytes are in @r. */
static __s64 identify(const struct python_memory *m, struct reading *r)
{
	const struct rprof_python *p = r->p;

	if (code_word(r, p->co_type, 8) != p->code_type)
		return PYTHON_OBJECT_NONE;
	if ((p->flags & RPROF_PYTHON_CODE_VERSION) && code_word(r, p->co_version, 4))
		return fingerprint(r);
	return fingerprint_by_texts(m, r);
}

/* At most AT_ONCE of them: one call, unless one cannot be read. */
static void identify_some(const struct python_memory *m, const struct python_object_key *keys,
			  const struct rprof_python *p, size_t n, __s64 *out)
{
	struct reading r[AT_ONCE];
	struct python_range ranges[AT_ONCE];
	size_t done = 0;

	for (size_t i = 0; i < n; i++) {
		r[i] = (struct reading){ .p = p, .key = &keys[i] };
		ranges[i] = code_range(&r[i]);
	}
	while (done < n) {
		const size_t more = m->read(m->ctx, ranges + done, n - done);

		for (size_t i = done; i < done + more; i++)
			out[i] = identify(m, &r[i]);
		done += more;
		if (done < n)
			out[done++] = 0;
	}
}

void python_object_fingerprints(const struct python_memory *m, const struct rprof_python *p,
				const struct python_object_key *key, const __u64 *codes, size_t n,
				__s64 *out)
{
	struct python_object_key keys[AT_ONCE];

	for (size_t at = 0; at < n; at += AT_ONCE) {
		const size_t some = n - at < AT_ONCE ? n - at : AT_ONCE;

		for (size_t i = 0; i < some; i++) {
			keys[i] = *key;
			keys[i].code = codes[at + i];
		}
		if (p->co_read <= MAX_CODE)
			identify_some(m, keys, p, some, out + at);
		else
			memset(out + at, 0, some * sizeof(*out));
	}
}

void python_object_free(struct python_object *o)
{
	for (int i = 0; i < RPROF_CODE_PARTS; i++)
		free(o->parts[i].bytes);
}
