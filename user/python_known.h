/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is known of code objects, by (process, address, fingerprint). Each is charged to its process;
 * when all are too much, the process that holds the most is forgotten.
 */
#ifndef RPROF_PYTHON_KNOWN_H
#define RPROF_PYTHON_KNOWN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "python_lines.h"

#define PYTHON_KNOWN_BYTES ((size_t)256 << 20)	/* of all processes */

struct python_known {
	__u64 code;
	__u32 tgid;
	__u32 fingerprint;
	__u32 execs;			/* of the image that its record is of */
	__u32 next;			/* the table's */
	bool is_known;			/* false: it was looked for, and is gone */
	char *name, *file;		/* malloc; .file NULL: not known */
	struct python_lines lines;	/* .bytes: malloc */
	struct python_lines_mark *marks; /* malloc */
	size_t n_marks;
	size_t bytes;			/* of what is behind the pointers */
};

struct python_known_table;

struct python_known_table *python_known_new(void);
void python_known_free(struct python_known_table *t);

/* Valid until the next call that changes the table; NULL: nothing is known, not even that it is gone. */
const struct python_known *python_known_find(const struct python_known_table *t, __u32 tgid,
					     __u64 code, __u32 fingerprint);

/*
 * python_known_keep() - take @k in, in place of what there is of its key.
 * Return: 0: the table owns what it points to; -ENOMEM: the caller still does.
 */
int python_known_keep(struct python_known_table *t, const struct python_known *k);

/* Frees what @k points to, which no table owns. */
void python_known_drop(const struct python_known *k);

void python_known_forget(struct python_known_table *t, __u32 tgid);

/* How many are known now, those that are gone not counted. */
size_t python_known_count(const struct python_known_table *t);

#endif
