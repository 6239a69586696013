/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A code object read from a process, when the kernel side could not capture it, or not all of it. What
 * was read counts only if the object, read once more behind its parts, has the fingerprint that was
 * sampled: then it was alive all the while, and so were they.
 */
#ifndef RPROF_PYTHON_OBJECT_H
#define RPROF_PYTHON_OBJECT_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"

#include "python_memory.h"

#define PYTHON_OBJECT_TEXT (8u << 10)	/* bytes of a name; a longer one is cut to */
#define PYTHON_OBJECT_CUT 512u		/* so many */
#define PYTHON_OBJECT_LINES (1u << 20)	/* of a line table; a longer one is left out */

struct python_object_key {
	__u64 hash_seed, hash_key;	/* hash.h */
	__u64 code;
	__u32 fingerprint;
};

struct python_object_part {
	void *bytes;		/* malloc; NULL: not a compact string, or too long a line table */
	size_t size;
	unsigned int kind;	/* bytes per code point */
	bool is_cut;		/* a name that has more bytes */
};

struct python_object {
	__s32 firstlineno;
	struct python_object_part parts[RPROF_CODE_PARTS];
};

/*
 * python_object_read() - read the code object @key.
 * @p: how the interpreter is read; validated, but every offset is checked again
 * @where: the parts as the kernel side saw them, RPROF_CODE_PARTS of them: read in one go, with the
 *         object. NULL: not known, three goes
 *
 * Return: 0, @out is freed by python_object_free(); -ESTALE: it is not the object that was sampled;
 * -EFAULT: it is not there; -ENOMEM.
 */
int python_object_read(const struct python_memory *m, const struct rprof_python *p,
		       const struct python_object_key *key, const struct rprof_code_text *where,
		       struct python_object *out);

#define PYTHON_OBJECT_NONE (-1)	/* something else lies there */

/*
 * python_object_fingerprints() - which code objects lie at @n addresses now.
 * @key: .code and .fingerprint are not looked at
 * @out: of each, as the kernel side has it: its fingerprint; 0: it could not be read;
 *       PYTHON_OBJECT_NONE
 */
void python_object_fingerprints(const struct python_memory *m, const struct rprof_python *p,
				const struct python_object_key *key, const __u64 *codes, size_t n,
				__s64 *out);
void python_object_free(struct python_object *o);

#endif
