/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The separate debug file of a stripped one, below the root of the process that has it mapped, never
 * elsewhere: by its build id, or by .gnu_debuglink. Or from debuginfod, where the user asked for it.
 */
#ifndef RPROF_DEBUG_FILE_H
#define RPROF_DEBUG_FILE_H

#include <linux/types.h>
#include <stddef.h>

#include "elf_file.h"
#include "elf_note.h"
#include "module.h"

#define DEBUG_LINK_NAME_MAX 255		/* NAME_MAX */

struct debug_link {
	char name[DEBUG_LINK_NAME_MAX + 1];
	__u32 crc;	/* CRC-32 of the whole debug file, as zlib's */
};

/*
 * debug_link_parse() - contents of .gnu_debuglink; pure.
 * Return: 0, or -EINVAL: malformed, or a name that could lead out of a directory.
 */
int debug_link_parse(const void *data, size_t size, struct debug_link *out);

struct debug_file {
	int fd;			/* owned */
	struct elf_file elf;	/* its sections were read */
	__u64 bias;		/* to be added to its addresses: prelink moved the one and not the other */
	enum symbol_source source;
};

/*
 * debug_file_find() - the first one that has .symtab, or .debug_info.
 * @own: the stripped file; its sections were read
 * @id: its build id
 *
 * It belongs to @own when both have a build id and these are equal; where one has none, when the
 * checksum of the link is right. A debug file whose segments or sections lie elsewhere in relation to
 * one another is refused.
 * Return: 0 (then debug_file_fini()), -ENOENT or -ENOMEM.
 */
int debug_file_find(const struct elf_file *own, const struct build_id *id,
		    const struct module_search *where, struct debug_file *out);
void debug_file_fini(struct debug_file *d);

/*
 * debug_file_cost() - bytes that finding it and reading its .symtab will take, or more, without
 * reading more than headers. 0: there is none. Servers are not asked.
 */
__u64 debug_file_cost(const struct elf_file *own, const struct build_id *id,
		      const struct module_search *where);

#endif
