/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Python code objects: names, files and lines, from the CODE records of the kernel side. One is
 * (process, address, fingerprint): what gets its address later has another fingerprint, so that no
 * name is lent. What the kernel side could not capture is read from the process, and counts only if
 * its fingerprint is the one that was sampled. What is read of one process has its share of the time:
 * what is more keeps what was captured of it.
 */
#ifndef RPROF_PYTHON_CODES_H
#define RPROF_PYTHON_CODES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"
#include "python_memory.h"

struct python_codes;
struct rprof_python;

struct python_codes_config {
	__u64 hash_seed, hash_key;	/* of the kernel side: hash.h */
	void *ctx;
	/* How to read the interpreter of @tgid, and its memory; NULL: not any more. */
	const struct rprof_python *(*offsets)(void *ctx, __u32 tgid, struct python_memory *memory);
};

struct python_codes *python_codes_new(const struct python_codes_config *config);
void python_codes_free(struct python_codes *c);

/* A CODE record that record_check() accepted. Return: 0 or -ENOMEM. */
int python_codes_add(struct python_codes *c, const struct rprof_code *code);

/* Of one Python frame. */
struct python_place {
	const char *function;	/* qualified name; UTF-8; valid until the next call: intern it */
	const char *file;	/* as the code object has it; "[unknown file]" if it is no string */
	__s32 line;		/* 0: the table gives none, or the instruction is not known */
	bool coarse;		/* .line is that of an earlier instruction: jitted code */
};

/*
 * python_codes_find() - name and line of a frame.
 * Return: 0; -ENOENT: its code object is not known, and gone; -ENOMEM.
 */
int python_codes_find(struct python_codes *c, __u32 tgid, const struct rprof_python_frame *f,
		      struct python_place *out);

/* A new image, or the end: its addresses mean nothing any more. */
void python_codes_forget(struct python_codes *c, __u32 tgid);

/* Another number when a frame may have another name than before. */
__u64 python_codes_changes(const struct python_codes *c);

struct python_codes_stats {
	__u64 records;		/* CODE records taken */
	__u64 completed;	/* whose long parts were read from the process, */
	__u64 repaired;		/* read from the process as a whole, */
	__u64 unknown;		/* and frames whose code object stayed unknown */
	__u64 without_lines;	/* code objects with a name whose line table was not read */
	size_t known;		/* code objects now */
};
void python_codes_stats(const struct python_codes *c, struct python_codes_stats *out);

#endif
