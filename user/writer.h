/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Output formats. A format is one file and one line of the table in writer.c. A writer never sees
 * an address without a name, never talks to the kernel, never exits.
 */
#ifndef RPROF_WRITER_H
#define RPROF_WRITER_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "resolve.h"

struct writer_options {
	bool annotate;		/* kernel frames get the suffix _[k] */
};

/* A line of the profile. */
struct writer_stack {
	const char *comm;	/* raw bytes, NUL-terminated */
	__u32 pid;		/* 0: not part of the first field (comm alone) */
	__u32 tid;		/* 0: comm-pid, else comm-pid/tid */
	const struct frame *frames; /* leaf first */
	size_t n_frames;
	__u64 count;
};

struct writer {
	const char *name;	/* value of --format */
	const char *help;	/* one line for --help and the man page */
	/* Return: 0 or -errno; I/O errors may also be left to ferror(). */
	int (*begin)(FILE *f, const struct writer_options *o);
	int (*stack)(FILE *f, const struct writer_options *o, const struct writer_stack *s);
	int (*end)(FILE *f, const struct writer_options *o);
};

extern const struct writer writer_folded;

const struct writer *writer_find(const char *name);	/* NULL: no such format */
const struct writer *writer_at(size_t i);		/* the i-th, NULL past the end */

#endif
