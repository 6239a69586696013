/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From the words of a table to struct rprof_python: what follows from them, and what the programs
 * rely on. Must never pass a place on that was not checked.
 */
#include "python_offsets.h"

#include <errno.h>
#include <string.h>

#include "python_builtin.h"
#include "python_fields.h"
#include "python_table.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MAX_STATE 512u		/* PY_STATE_BYTES, */
#define MAX_FRAME 128u		/* PY_FRAME_BYTES, */
#define MAX_CODE 192u		/* PY_CODE_BYTES of bpf/python.bpf.h */

void python_offsets_set_bits(struct rprof_python *p, bool big_endian)
{
	/* The free-threaded 3.14 made .interned a byte, cpython/unicodeobject.h. */
	const unsigned int kind = (p->flags & RPROF_PYTHON_FREE_THREADED) &&
						  (p->flags & RPROF_PYTHON_GENERATION) ?
					  8 :
					  2;

	/* Compilers allot bit-fields from the first byte on: there the least significant one. */
	p->str_kind_shift = big_endian ? 32 - kind - 3 : kind;
	p->str_compact_bit = big_endian ? 31 - (kind + 3) : kind + 3;
	p->str_ascii_bit = big_endian ? 31 - (kind + 4) : kind + 4;
	p->status_bit = big_endian ? 31 - 3 : 3;
}

/* Code objects are 8-aligned: up to three bits of a _PyStackRef are tags, pycore_stackref.h. */
static __u16 tags_of(const struct rprof_python *p)
{
	if (p->flags & RPROF_PYTHON_GENERATION)
		return 7;
	return p->flags & RPROF_PYTHON_FREE_THREADED ? 1 : 0;
}

/* The words from here to the line table's never change: what is before them may (3.11: co_warmup). */
static __u16 code_from(const struct rprof_python *p)
{
	if (p->flags & RPROF_PYTHON_FRAME_OBJECTS)
		return p->co_type + 8;
	if (p->flags & RPROF_PYTHON_IS_ENTRY)
		return p->co_firstlineno;
	return p->co_firstlineno - 4; /* co_stacksize */
}

/* Where what is read of a section's struct ends, in whole words. */
static __u16 read_end(const struct rprof_python *p, enum python_section section)
{
	__u32 end = 0;

	for (size_t i = 0; i < n_python_fields; i++) {
		const struct python_field *row = &python_fields[i];
		__u32 at = row->to_size ? python_field_get(row, p) : 0;

		if (row->section == section && row->to_size && python_field_exists(row, p->flags) &&
		    at + row->width > end)
			end = at + row->width;
	}
	return (end + 7) & ~7u;
}

/* What is in no table, but follows from it. All words were checked: no sum overflows. */
static void derive(const struct python_version *v, const struct python_words *w,
		   struct rprof_python *p)
{
	const __u32 gc = (__u32)python_fields_value(w, PYTHON_INTERPRETER, "gc");

	p->interp_collecting += gc;
	if (p->flags & RPROF_PYTHON_GC_FRAME)
		p->interp_gc_frame += gc;
	if (v->in != PYTHON_IN_BUILTIN) {
		p->str_hash = p->str_length + 8;
		p->co_version = p->co_firstlineno + 24;
		if (!p->str_compact)
			p->str_compact = p->str_ascii + 16;
	}
	if (v->executor && p->ts_chunk == v->chunk && !(p->flags & RPROF_PYTHON_FREE_THREADED))
		p->ts_executor = v->executor;
	p->f_tags = tags_of(p);
	python_offsets_set_bits(p, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	p->ts_read = read_end(p, PYTHON_THREAD);
	p->f_read = read_end(p, PYTHON_FRAME);
	p->co_from = code_from(p);
	p->co_read = p->co_lines + 8 - p->co_type;
}

/* What we rely on besides: of two words, that one is where the other says. */
static int check_relied(const struct python_words *w, const struct rprof_python *p,
			char why[PYTHON_WHY])
{
	const struct {
		enum python_section section;
		const char *name;
		__u32 expected;
		bool in_builtin;
	} relied[] = {
		{ PYTHON_TYPE, "tp_name", p->co_type + 16u, true },	/* ob_size, then it */
		{ PYTHON_CODE, "localsplusnames", p->co_firstlineno + 28u, false },
		{ PYTHON_UNICODE, "state", p->str_length + 16u, true },	/* hash between them */
	};

	for (size_t i = 0; i < ARRAY_SIZE(relied); i++) {
		__u64 value = python_fields_value(w, relied[i].section, relied[i].name);

		if (value == relied[i].expected || (!value && !relied[i].in_builtin))
			continue;
		snprintf(why, PYTHON_WHY, "%s: %s.%s %llu is not at %u", w->source,
			 python_section_name(relied[i].section), relied[i].name,
			 (unsigned long long)value, relied[i].expected);
		return -EINVAL;
	}
	return 0;
}

static int from_words(const struct python_words *w, __u32 version, struct rprof_python *out,
		      char why[PYTHON_WHY])
{
	struct rprof_python p = { .version = version >> 16, .flags = w->flags };
	int err;

	python_fields_copy(w, &p);
	err = check_relied(w, &p, why);
	if (err)
		return err;
	derive(python_version_of(version), w, &p);
	err = python_offsets_validate(&p, why);
	if (!err)
		*out = p;
	return err;
}

int python_offsets_parse(const void *bytes, size_t size, struct rprof_python *out,
			 char why[PYTHON_WHY])
{
	struct python_words w;
	__u32 version;
	int err = python_table_read(bytes, size, &w, &version, why);

	return err ? err : from_words(&w, version, out, why);
}

int python_offsets_builtin(const struct python_build *build, struct rprof_python *out,
			   char why[PYTHON_WHY])
{
	const unsigned int minor = build->version >> 16 & 0xff;
	struct python_words w = { .source = "built-in offsets" };
	int err = python_version_check(build->version, why);

	if (err)
		return err;
	if (build->trace_refs || build->free_threaded) {
		snprintf(why, PYTHON_WHY, "Python 3.%u built with %s is not supported", minor,
			 build->trace_refs ? "Py_TRACE_REFS" : "Py_GIL_DISABLED");
		return -ENOTSUP;
	}
	if (python_builtin_words(minor, &w)) {
		snprintf(why, PYTHON_WHY, "Python 3.%u has a table of its own, but it is not there",
			 minor);
		return -ENOTSUP;
	}
	w.flags = python_version_of(build->version)->flags;
	err = python_fields_check(python_fields, n_python_fields, &w, why);
	return err ? err : from_words(&w, build->version, out, why);
}

/* The places that struct rprof_python has, as if they were a table's. */
static void words_of(const struct rprof_python *p, struct python_words *w)
{
	w->source = "offsets";
	w->flags = p->flags;
	for (size_t i = 0; i < n_python_fields; i++) {
		const struct python_field *row = &python_fields[i];

		w->value[i] = row->to_size ? python_field_get(row, p) : 0;
		w->has[i] = row->to_size && (w->value[i] || !(row->flags & PYTHON_OPTIONAL));
	}
}

/* Where the programs find the fields of @section that they read at once: [*from, *end). */
static bool window_of(const struct rprof_python *p, const struct python_field *row, __u32 *from,
		      __u32 *end)
{
	*from = 0;
	switch (row->section) {
	case PYTHON_THREAD:
		*end = p->ts_read;
		return true;
	case PYTHON_FRAME:
		*end = p->f_read;
		return true;
	case PYTHON_CODE:
		*from = p->co_from;
		*end = p->co_type + p->co_read;
		/* These two have reads of their own. */
		return row->to != offsetof(struct rprof_python, co_code) &&
		       row->to != offsetof(struct rprof_python, co_tlbc);
	default:
		return false;
	}
}

static int check_windows(const struct rprof_python *p, char why[PYTHON_WHY])
{
	for (size_t i = 0; i < n_python_fields; i++) {
		const struct python_field *row = &python_fields[i];
		__u32 from, end, at;

		if (!row->to_size || !python_field_exists(row, p->flags) ||
		    !window_of(p, row, &from, &end))
			continue;
		at = python_field_get(row, p);
		if (!at && (row->flags & PYTHON_OPTIONAL))
			continue;
		if (at < from || at + row->width > end) {
			snprintf(why, PYTHON_WHY,
				 "offsets: %s.%s %u is outside [%u, %u), which is read",
				 python_section_name(row->section), row->name, at, from, end);
			return -EINVAL;
		}
	}
	return 0;
}

/* Sizes of what is read, and the words that identify a code object. */
static int check_reads(const struct rprof_python *p, char why[PYTHON_WHY])
{
	const __u32 co_end = p->co_type + p->co_read;

	if (p->ts_read > MAX_STATE || p->f_read > MAX_FRAME || p->co_read > MAX_CODE) {
		snprintf(why, PYTHON_WHY,
			 "offsets: reads of %u, %u and %u bytes are more than %u, %u and %u",
			 p->ts_read, p->f_read, p->co_read, MAX_STATE, MAX_FRAME, MAX_CODE);
		return -EINVAL;
	}
	if (p->co_from <= p->co_type || p->co_from >= co_end || p->co_from % 8 || co_end % 8) {
		snprintf(why, PYTHON_WHY, "offsets: code_object: [%u, %u) are no words of it",
			 p->co_from, co_end);
		return -EINVAL;
	}
	return 0;
}

static int check_version(const struct rprof_python *p, char why[PYTHON_WHY])
{
	const struct python_version *v = python_version_of((__u32)p->version << 16);
	const __u16 either = RPROF_PYTHON_FREE_THREADED | RPROF_PYTHON_NATIVE_TID;
	struct rprof_python expected = *p;

	python_offsets_set_bits(&expected, __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
	expected.f_tags = tags_of(p);
	if (v && (p->flags & ~either) == v->flags && !memcmp(&expected, p, sizeof(expected)))
		return 0;
	snprintf(why, PYTHON_WHY, "offsets: Python %u.%u with flags %#x is not known",
		 p->version >> 8, p->version & 0xff, p->flags);
	return -EINVAL;
}

int python_offsets_validate(const struct rprof_python *p, char why[PYTHON_WHY])
{
	struct python_words w;
	int err = check_version(p, why);

	words_of(p, &w);
	if (!err)
		err = python_fields_check(python_fields, n_python_fields, &w, why);
	if (!err)
		err = check_reads(p, why);
	return err ? err : check_windows(p, why);
}

void python_offsets_print(const struct rprof_python *p, FILE *f)
{
	const struct {
		const char *name;
		__u32 value;
	} others[] = {
		{ "read of a thread state", p->ts_read },
		{ "read of a frame", p->f_read },
		{ "read of a code object", p->co_read },
		{ "code object: identity from", p->co_from },
		{ "tag bits", p->f_tags },
		{ "string: bit of kind", p->str_kind_shift },
		{ "string: bit of compact", p->str_compact_bit },
		{ "string: bit of ascii", p->str_ascii_bit },
		{ "bit of bound_gilstate", p->status_bit },
	};

	fprintf(f, "%-42s %u.%u\n", "version", p->version >> 8, p->version & 0xff);
	fprintf(f, "%-42s %#x\n", "flags", p->flags);
	for (size_t i = 0; i < n_python_fields; i++) {
		const struct python_field *row = &python_fields[i];
		char name[64];

		if (!row->to_size || !python_field_exists(row, p->flags))
			continue;
		snprintf(name, sizeof(name), "%s.%s", python_section_name(row->section), row->name);
		fprintf(f, "%-42s %u\n", name, python_field_get(row, p));
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		fprintf(f, "%-42s %u\n", others[i].name, others[i].value);
}
