/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the objects of a CPython are laid out: from the target's own _Py_DebugOffsets (3.13 and later)
 * or from built-in tables (3.9 to 3.12), both through the same validator and the same probe of a
 * live frame. Everything here is the target's word: unknown is refused by name, never guessed.
 */
#ifndef RPROF_PYTHON_OFFSETS_H
#define RPROF_PYTHON_OFFSETS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "rprof/config.h"

#include "python_memory.h"

#define PYTHON_WHY 160		/* bytes of a reason, one line */
#define PYTHON_OFFSETS_MAX 1024	/* bytes of the largest table */

/* What is known of a build before its table is read. */
struct python_build {
	__u32 version;		/* PY_VERSION_HEX; of 3.9, 3.10 the minor version alone is sure */
	bool free_threaded;	/* the file says so */
	bool debug;		/* Py_DEBUG */
	bool trace_refs;	/* Py_TRACE_REFS: objects of up to 3.12 have two more words */
};

/*
 * python_offsets_parse() - the table at the start of .PyRuntime.
 * @bytes: PYTHON_OFFSETS_MAX bytes of the runtime, or as many as there are
 * @out: .execs, .runtime, .code_type and RPROF_PYTHON_NATIVE_TID are left to the caller
 * @why: on failure, a reason such as
 *       "debug offsets: interpreter_frame.owner 4096 is outside the 88-byte frame"
 * Return: 0, -ENOENT (no cookie: older than 3.13), -ENOTSUP (a version that is not known) or -EINVAL.
 */
int python_offsets_parse(const void *bytes, size_t size, struct rprof_python *out,
			 char why[PYTHON_WHY]);

/* The built-in table of a version without one of its own. Return: as above. */
int python_offsets_builtin(const struct python_build *build, struct rprof_python *out,
			   char why[PYTHON_WHY]);

/* What the programs read by @p, and all that they and we rely on. Both of the above end with it. */
int python_offsets_validate(const struct rprof_python *p, char why[PYTHON_WHY]);

/* Sets the positions of bit-fields in native words, by p->flags. @big_endian: the target's order. */
void python_offsets_set_bits(struct rprof_python *p, bool big_endian);

/* One line per field, for check and -vv. */
void python_offsets_print(const struct rprof_python *p, FILE *f);

/* What a live interpreter showed. */
struct python_live {
	__u64 interpreter;	/* the newest; 0: none yet (not initialized, or finalized) */
	__u64 tstate;		/* of which frames were looked at; 0: none had any */
	unsigned int frames;	/* that held up */
	bool finalizing;
};

/*
 * python_offsets_probe() - try a validated table on the live process: interpreter, thread states
 * that point back to it, a chain of frames whose code objects are code objects ("code" is the
 * tp_name of their type) with names that are strings, up to the base frame or the chain's end.
 * @p: .runtime is set; .code_type, if it is 0, is set to what the probe learnt
 *
 * A process goes on while it is read: what does not hold up is tried again some times.
 * Return: 0: held up; -EAGAIN: no live interpreter, or no frame at all yet; -EINVAL: does not.
 */
int python_offsets_probe(const struct python_memory *m, struct rprof_python *p,
			 struct python_live *live, char why[PYTHON_WHY]);

#endif
