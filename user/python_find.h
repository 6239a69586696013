/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which Python an ELF file holds, by what it exports and never by its name: facts/cpython.md 1.2.
 * The file is the target's, hostile; all reads are bounded. Addresses are the file's own.
 */
#ifndef RPROF_PYTHON_FIND_H
#define RPROF_PYTHON_FIND_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "python_memory.h"
#include "python_offsets.h"

enum python_kind {
	PYTHON_NONE,
	PYTHON_CPYTHON,		/* has a _PyRuntime: 3.9 and later, as far as can be told */
	PYTHON_OLD,		/* CPython 3.8 or older */
	PYTHON_2,
	PYTHON_PYPY,
	PYTHON_GRAALPY,
};

struct python_file {
	enum python_kind kind;
	struct python_build build; /* .version 0: not known */
	bool exports;		/* what .build says beside the version was looked up */
	bool has_jit;		/* 3.14 and later: compiled in, which is not switched on */
	__u64 runtime;		/* address of _PyRuntime */
	__u64 code_type;	/* of PyCode_Type; 0: not known */
	__u64 asyncio;		/* of .AsyncioDebug; 0: none. Also where .kind is PYTHON_NONE */
};

struct elf_file;

/*
 * python_find_file() - in a file.
 * @f: opened; its section headers are read here, if it has any
 */
void python_find_file(struct elf_file *f, struct python_file *out);

/*
 * python_find_memory() - in a file that cannot be opened, as a process has it mapped. What only
 * section headers say is not known then.
 * @start: where the file's first byte is mapped
 * @bias: to be added to the addresses of @out
 * Return: 0, or -EINVAL: no ELF file of this machine there.
 */
int python_find_memory(const struct python_memory *m, __u64 start, struct python_file *out,
		       __u64 *bias);

/*
 * python_find_cookie() - the last resort: what begins as a runtime of 3.13 and later does, in
 * [@start, @end).
 * @left: bytes that may still be looked at, in all; becomes less
 * Return: the address; 0: none.
 */
#define PYTHON_FIND_BYTES (64ULL << 20)	/* of one file */
__u64 python_find_cookie(const struct python_memory *m, __u64 start, __u64 end, __u64 *left);

/* "Python 3.14.0rc1", "PyPy", for messages. @hex: PY_VERSION_HEX; 0: not known */
void python_version_text(enum python_kind kind, __u32 hex, char *buf, size_t size);

#endif
