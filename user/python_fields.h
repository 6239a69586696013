/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows behind python_offsets.h and python_asyncio.h: one per field of the structs of CPython that
 * we know, and what is done with all of them. A table's words are the target's: each is checked
 * before anything is computed from it.
 */
#ifndef RPROF_PYTHON_FIELDS_H
#define RPROF_PYTHON_FIELDS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "rprof/config.h"

#include "python_offsets.h"

#define PYTHON_FIELDS_MAX 160	/* rows */
#define PYTHON_ABSENT (~0u)	/* word of a built-in table: this version has no such field */

/* Which tables have the field. The words of a debug table are in the order of the rows. */
#define PYTHON_IN_3_13 1u
#define PYTHON_IN_3_14 2u
#define PYTHON_IN_3_15 4u
#define PYTHON_IN_BUILTIN 8u	/* one word per row */

enum python_section {
	PYTHON_RUNTIME,
	PYTHON_INTERPRETER,
	PYTHON_THREAD,
	PYTHON_EXC_ITEM,
	PYTHON_CFRAME,
	PYTHON_FRAME,
	PYTHON_CODE,
	PYTHON_OBJECT,
	PYTHON_TYPE,
	PYTHON_HEAP_TYPE,
	PYTHON_TUPLE,
	PYTHON_LIST,
	PYTHON_SET,
	PYTHON_DICT,
	PYTHON_FLOAT,
	PYTHON_LONG,
	PYTHON_BYTES,
	PYTHON_UNICODE,
	PYTHON_GC,
	PYTHON_GEN,
	PYTHON_LLIST,
	PYTHON_DEBUGGER,
	PYTHON_TASK,		/* of .AsyncioDebug, */
	PYTHON_ASYNC_INTERPRETER,
	PYTHON_ASYNC_THREAD,
	PYTHON_SECTIONS,
};

/* Bits of python_field.flags. */
#define PYTHON_SIZE 1u		/* sizeof the section's struct: bounds the rows that follow */
#define PYTHON_ZERO 2u		/* 0 is a place like any other */
#define PYTHON_ELSEWHERE 4u	/* not a place in the section's struct: only not absurd */
#define PYTHON_OPTIONAL 8u	/* of rprof_python: 0 where it is not known */

struct python_field {
	__u8 section;		/* enum python_section */
	const char *name;
	__u8 in;		/* PYTHON_IN_* */
	__u8 width;		/* bytes that are read there */
	__u8 flags;		/* PYTHON_* */
	__u16 needs;		/* RPROF_PYTHON_*: all of them and */
	__u16 unless;		/* none of these, or the field is absent, and its word 0 */
	__u16 to;		/* where it goes: byte of struct rprof_python, */
	__u8 to_size;		/* and bytes; 0: nowhere */
};

extern const struct python_field python_fields[];
extern const size_t n_python_fields;

/* The words of one table, by row; of a row that is not in the table (!has) 0. */
struct python_words {
	const char *source;	/* "debug offsets" */
	__u16 flags;		/* RPROF_PYTHON_* */
	__u64 value[PYTHON_FIELDS_MAX];
	bool has[PYTHON_FIELDS_MAX];
};

/* Is the field of this row there in a version with @flags? */
bool python_field_exists(const struct python_field *row, __u16 flags);

/* Bytes of a debug table @in, with its head of @head bytes. */
size_t python_fields_size(const struct python_field *rows, size_t n, __u8 in, size_t head);

/*
 * python_fields_read() - the words of a debug table.
 * @in: PYTHON_IN_* of the table; @bytes are at least python_fields_size()
 */
void python_fields_read(const struct python_field *rows, size_t n, __u8 in, size_t head,
			const void *bytes, struct python_words *w);

/*
 * python_fields_check() - every word: alignment, inside its struct, apart from the others of it,
 * below the ceilings, 0 where it must be.
 * Return: 0 or -EINVAL, with the reason in @why.
 */
int python_fields_check(const struct python_field *rows, size_t n, const struct python_words *w,
			char why[PYTHON_WHY]);

/* The word of @section's @name; 0 if it is absent. */
__u64 python_fields_value(const struct python_words *w, enum python_section section,
			  const char *name);

/* Copies the words that have a place in @p. They were checked. */
void python_fields_copy(const struct python_words *w, struct rprof_python *p);

/* The member of @p that @row goes to. */
__u32 python_field_get(const struct python_field *row, const struct rprof_python *p);

/* "interpreter_frame" */
const char *python_section_name(enum python_section section);

#endif
