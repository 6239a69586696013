// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a code object says, from its CODE record, and the rest of it from the process. That one is
 * gone is remembered as well: it does not come back.
 */
#include "python_codes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "idmap.h"
#include "monotonic.h"
#include "python_known.h"
#include "python_lines.h"
#include "python_object.h"
#include "python_text.h"
#include "record.h"

#define MARK_STEP 4096u	/* bytes of a line table that one search may read, about */

/*
 * A process can make code objects as fast, and tables as long, as it likes: what reading them may cost
 * us. All at once, since a deep stack of an honest one may need a thousand of them.
 */
#define READ_NS 500000000ULL
#define PERIOD_NS 10000000000ULL

struct python_codes {
	struct python_codes_config config;
	struct python_known_table *known;
	struct python_codes_stats stats;
	struct idmap spent;	/* tgid -> ns that its objects took in this period */
	__u64 period_ns;	/* its begin */
	__u64 changes;
};

struct python_codes *python_codes_new(const struct python_codes_config *config)
{
	struct python_codes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->config = *config;
	idmap_init(&c->spent);
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
	idmap_fini(&c->spent);
	free(c);
}

void python_codes_forget(struct python_codes *c, __u32 tgid)
{
	python_known_forget(c->known, tgid);
	c->changes++;
}

__u64 python_codes_changes(const struct python_codes *c)
{
	return c->changes;
}

static __u32 spent(const struct python_codes *c, __u32 tgid)
{
	__u32 ns = 0;

	idmap_find(&c->spent, tgid, 0, &ns);
	return ns;
}

static void spend(struct python_codes *c, __u32 tgid, __u64 begin_ns)
{
	const __u64 ns = spent(c, tgid) + (monotonic_ns() - begin_ns);

	idmap_put(&c->spent, tgid, 0, ns < ~0U ? (__u32)ns : ~0U);
}

static bool may_read(struct python_codes *c, __u32 tgid, __u64 now)
{
	if (now - c->period_ns >= PERIOD_NS) {
		c->period_ns = now;
		idmap_fini(&c->spent);
	}
	return spent(c, tgid) <= READ_NS;
}

static int take_text(const struct python_object_part *part, char **text, size_t *bytes)
{
	char *whole;

	if (!part->bytes)
		return 0;
	whole = python_text(part->bytes, part->size, part->kind);
	if (whole && part->is_cut) {
		if (asprintf(text, "%s...", whole) < 0)
			*text = NULL;
		free(whole);
	} else {
		*text = whole;
	}
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
	else if (k->is_known && !o->parts[RPROF_CODE_LINES].bytes)
		c->stats.without_lines++;
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

/* Remember what @captured lacks as well, if it can still be read. */
static int complete(struct python_codes *c, struct python_known *k,
		    const struct rprof_code_text *where, const struct python_object *captured)
{
	const unsigned int version = k->lines.version;
	struct python_object read;
	int err = read_object(c, k, where, &read);

	if (err == -ENOMEM)
		return err;
	k->lines.version = version;
	if (err)
		return remember(c, k, captured);
	c->stats.completed++;
	err = remember(c, k, &read);
	python_object_free(&read);
	return err;
}

int python_codes_add(struct python_codes *c, const struct rprof_code *code)
{
	const struct python_known *before =
		python_known_find(c->known, code->tgid, code->code, code->fingerprint);
	struct python_known k = {
		.code = code->code,
		.tgid = code->tgid,
		.fingerprint = code->fingerprint,
		.execs = code->execs,
		.lines.version = code->version,
	};
	const __u64 now = monotonic_ns();
	struct python_object captured;
	bool whole, placed;
	int err;

	c->stats.records++;
	if (before && before->is_known && before->execs == code->execs)
		return 0;
	c->changes += before != NULL;
	captured = parts_of(code, &whole, &placed);
	if (whole)
		return remember(c, &k, &captured);
	if (!may_read(c, k.tgid, now))
		return captured.parts[RPROF_CODE_NAME].bytes ? remember(c, &k, &captured) : 0;
	err = complete(c, &k, placed ? code->parts : NULL, &captured);
	spend(c, k.tgid, now);
	return err;
}

/* One whose record never came, or came when there was no time for it. */
static int repair(struct python_codes *c, __u32 tgid, const struct rprof_python_frame *f)
{
	const __u64 now = monotonic_ns();
	struct python_known k = { .code = f->code, .tgid = tgid, .fingerprint = f->fingerprint };
	struct python_object object = { 0 };
	int err;

	if (!may_read(c, tgid, now))
		return 0;
	err = read_object(c, &k, NULL, &object);
	if (err == -ENOMEM)
		return err;
	/* The process is gone: there will be no more to ask for. */
	if (err == -ESRCH)
		return 0;
	c->stats.repaired += !err;
	err = remember(c, &k, &object);
	python_object_free(&object);
	spend(c, tgid, now);
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
