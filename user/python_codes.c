// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a code object says, from its CODE record, and the rest of it from the process. That one is
 * gone is remembered as well: it does not come back.
 */
#include "python_codes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python_known.h"
#include "python_lines.h"
#include "python_object.h"
#include "python_text.h"
#include "record.h"

#define MARK_STEP 4096u	/* bytes of a line table that one search may read, about */

struct python_codes {
	struct python_codes_config config;
	struct python_known_table *known;
	struct python_codes_stats stats;
};

struct python_codes *python_codes_new(const struct python_codes_config *config)
{
	struct python_codes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->config = *config;
	c->known = python_known_new();
	if (!c->known) {
		free(c);
		return NULL;
	}
	return c;
}

void python_codes_free(struct python_codes *c)
{
	if (!c)
		return;
	python_known_free(c->known);
	free(c);
}

void python_codes_forget(struct python_codes *c, __u32 tgid)
{
	python_known_forget(c->known, tgid);
}

static int take_text(const struct python_object_part *part, char **text, size_t *bytes)
{
	if (!part->bytes)
		return 0;
	*text = python_text(part->bytes, part->size, part->kind);
	if (!*text)
		return -ENOMEM;
	*bytes += strlen(*text) + 1;
	return 0;
}

static int take_lines(const struct python_object_part *part, struct python_known *k)
{
	size_t n = part->size / MARK_STEP;
	__u8 *copy;

	if (!part->bytes || !part->size)
		return 0;
	copy = malloc(part->size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, part->bytes, part->size);
	k->lines.bytes = copy;
	k->lines.size = part->size;
	k->bytes += part->size + n * sizeof(*k->marks);
	if (!n)
		return 0;
	k->marks = malloc(n * sizeof(*k->marks));
	if (!k->marks)
		return -ENOMEM;
	k->n_marks = python_lines_marks(&k->lines, MARK_STEP, k->marks, n);
	return 0;
}

/* Remember @k with the texts of @o, whose name may be missing: then it stays unknown. */
static int remember(struct python_codes *c, struct python_known *k, const struct python_object *o)
{
	int err;

	k->lines.firstlineno = o->firstlineno;
	err = take_text(&o->parts[RPROF_CODE_NAME], &k->name, &k->bytes);
	k->is_known = k->name;
	if (!err)
		err = take_text(&o->parts[RPROF_CODE_FILE], &k->file, &k->bytes);
	if (!err)
		err = take_lines(&o->parts[RPROF_CODE_LINES], k);
	if (!err)
		err = python_known_keep(c->known, k);
	if (err)
		python_known_drop(k);
	return err;
}

/* From the process itself. Return: 0: .version and @out are set; else why not, -ENOMEM among others. */
static int read_object(struct python_codes *c, struct python_known *k,
		       const struct rprof_code_text *where, struct python_object *out)
{
	const struct python_object_key key = {
		.hash_seed = c->config.hash_seed,
		.hash_key = c->config.hash_key,
		.code = k->code,
		.fingerprint = k->fingerprint,
	};
	const struct rprof_python *p;
	struct python_memory memory;

	p = c->config.offsets(c->config.ctx, k->tgid, &memory);
	if (!p)
		return -ESRCH;
	k->lines.version = p->version;
	return python_object_read(&memory, p, &key, where, out);
}

/* The parts of a record; whole: nothing is missing. placed: it says where all of them are. */
static struct python_object parts_of(const struct rprof_code *code, bool *whole, bool *placed)
{
	struct python_object o = { .firstlineno = code->firstlineno };

	*whole = *placed = true;
	for (int i = 0; i < RPROF_CODE_PARTS; i++) {
		const struct rprof_code_text *t = &code->parts[i];

		*placed &= !!t->addr;
		if (!t->captured && (!t->addr || t->length)) {
			*whole = false;
			continue;
		}
		o.parts[i] = (struct python_object_part){
			.bytes = (void *)record_code_part(code, i),
			.size = t->captured,
			.kind = t->kind,
		};
	}
	return o;
}

int python_codes_add(struct python_codes *c, const struct rprof_code *code)
{
	const struct python_known *before =
		python_known_find(c->known, code->tgid, code->code, code->fingerprint);
	struct python_known k = {
		.code = code->code,
		.tgid = code->tgid,
		.fingerprint = code->fingerprint,
		.lines.version = code->version,
	};
	struct python_object captured, read;
	bool whole, placed;
	int err;

	c->stats.records++;
	if (before && before->is_known)
		return 0;
	captured = parts_of(code, &whole, &placed);
	if (whole)
		return remember(c, &k, &captured);
	err = read_object(c, &k, placed ? code->parts : NULL, &read);
	if (err == -ENOMEM)
		return err;
	k.lines.version = code->version;
	if (err)
		return remember(c, &k, &captured);
	c->stats.completed++;
	err = remember(c, &k, &read);
	python_object_free(&read);
	return err;
}

/* One whose record never came. */
static int repair(struct python_codes *c, __u32 tgid, const struct rprof_python_frame *f)
{
	struct python_known k = { .code = f->code, .tgid = tgid, .fingerprint = f->fingerprint };
	struct python_object object = { 0 };
	int err = read_object(c, &k, NULL, &object);

	if (err == -ENOMEM)
		return err;
	/* The process is gone: there will be no more to ask for. */
	if (err == -ESRCH)
		return 0;
	c->stats.repaired += !err;
	err = remember(c, &k, &object);
	python_object_free(&object);
	return err;
}

/* The last mark that is not behind the instruction; NULL: none. */
static const struct python_lines_mark *mark_before(const struct python_known *k, __u32 unit)
{
	/* Up to 3.10 tables count bytes. */
	__u64 want = k->lines.version <= 0x030a ? 2ULL * unit : unit;
	size_t lo = 0, hi = k->n_marks;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (k->marks[mid].end <= want)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &k->marks[lo - 1] : NULL;
}

static __s32 line_of(const struct python_known *k, __u32 where)
{
	__s32 line, first = k->lines.firstlineno > 0 ? k->lines.firstlineno : 0;
	__u32 unit = where & RPROF_PY_INSTR;
	bool prologue;

	if (where & RPROF_PY_NOT_STARTED)
		return first;
	if (where & RPROF_PY_NO_INSTR)
		return 0;
	line = python_lines_find(&k->lines, mark_before(k, unit), unit, &prologue);
	/* What comes before the first line of a function is done on behalf of its "def". */
	return prologue ? first : line;
}

int python_codes_find(struct python_codes *c, __u32 tgid, const struct rprof_python_frame *f,
		      struct python_place *out)
{
	const struct python_known *k = NULL;
	int err;

	if (f->fingerprint) {
		k = python_known_find(c->known, tgid, f->code, f->fingerprint);
		if (!k) {
			err = repair(c, tgid, f);
			if (err)
				return err;
			k = python_known_find(c->known, tgid, f->code, f->fingerprint);
		}
	}
	if (!k || !k->is_known) {
		c->stats.unknown++;
		return -ENOENT;
	}
	*out = (struct python_place){
		.function = k->name,
		.file = k->file ? k->file : "[unknown file]",
		.line = line_of(k, f->where),
		.coarse = f->where & RPROF_PY_COARSE,
	};
	return 0;
}

void python_codes_stats(const struct python_codes *c, struct python_codes_stats *out)
{
	*out = c->stats;
	out->known = python_known_count(c->known);
}
