/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A stack whose addresses are translated into places in files: what must be done while its process
 * lives and its mappings are known. So are the names of Python frames, which are in no file. Names
 * of the others, and marks (resolve.c), can come later.
 */
#ifndef RPROF_LOCATED_H
#define RPROF_LOCATED_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"

struct jits;
struct modules;
struct python_codes;
struct python_style;
struct space;
struct strset;

enum located_kind {
	LOCATED_FILE,		/* .module and .vaddr */
	LOCATED_ANON,		/* executable memory without a file; .name, if the process says one */
	LOCATED_UNKNOWN,	/* in no executable mapping */
};

struct located_frame {
	enum located_kind kind;
	bool executable;	/* the kernel side, or the space, says so */
	bool in_file;		/* .vaddr is an address of the file, not an offset in it */
	bool unchecked;		/* the kernel side knew no mapping of it */
	unsigned int how;	/* enum rprof_how */
	__u32 module;
	__u64 vaddr;
	char *name;		/* malloc'd, raw; NULL */
};

struct located {
	__u64 id;		/* of the stack */
	__u32 tgid;
	__u32 space;		/* number; 0: none */
	char comm[RPROF_COMM_LEN];
	__u8 stop_kernel, stop_native, stop_python;
	bool has_jit;		/* a name may change while the space does not */
	struct modules *kept_by; /* whose files it keeps; NULL: none yet */
	size_t n_kernel, n_native, n_python;
	__u64 *kernel;
	struct located_frame *native;
	struct rprof_python_frame
		*python; /* as in the record, without what is no frame of the program */
	const char **python_names; /* interned, of each; NULL: a shim, or not known */
	__u32 interpreter;	/* number of the file that holds it; 0: not known */
};

/*
 * locate_stack() - the frames of a STACK record.
 * @s: a record that record_check() accepted
 * @space: where its user frames lie; NULL: not known
 * @jits: names of code that processes made themselves; may be NULL
 * Return: NULL: no memory.
 */
struct located *locate_stack(const struct rprof_stack *s, const struct space *space,
			     struct modules *modules, struct jits *jits);

/* How the Python frames of a process get their names. */
struct located_python {
	struct python_codes *codes;
	struct strset *strings;		/* where they are interned */
	const struct python_style *style;
	__u32 interpreter;		/* pythons_module() */
	struct python_recent *recent;
};

/*
 * located_add_python() - the Python frames of the STACK that @l was made of.
 * Return: 0 or -ENOMEM, and @l is without them.
 */
int located_add_python(struct located *l, const struct rprof_stack *s,
		       const struct located_python *python);

/* It is kept beyond the next change of any space. */
void located_keep(struct located *l, struct modules *modules);
void located_free(struct located *l);

#endif
