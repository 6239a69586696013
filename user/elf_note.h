/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The notes of an ELF file: its build id, which says that two files come of one link. */
#ifndef RPROF_ELF_NOTE_H
#define RPROF_ELF_NOTE_H

#include <stdbool.h>
#include <stddef.h>

#include "elf_file.h"

#define BUILD_ID_MIN 2		/* bytes: a directory and a file name below it */
#define BUILD_ID_MAX 64		/* SHA-1 has 20, what linkers were told may have more */

struct build_id {
	unsigned char bytes[BUILD_ID_MAX];
	unsigned int len;	/* 0: none */
};

bool build_id_equal(const struct build_id *a, const struct build_id *b);

/*
 * elf_note_build_id() - find NT_GNU_BUILD_ID among notes; pure.
 * @data: a PT_NOTE segment or a SHT_NOTE section
 * @align: its alignment, 4 or 8; others count as 4
 * Return: whether there is one that fits @out.
 */
bool elf_note_build_id(const void *data, size_t size, size_t align, struct build_id *out);

/*
 * elf_file_build_id() - of a file: by its PT_NOTE segments, or, if its sections were read, by its
 * SHT_NOTE sections, since the segments of a debug file point at what is not there.
 * @out: len 0 if there is none
 */
void elf_file_build_id(const struct elf_file *f, struct build_id *out);

#endif
