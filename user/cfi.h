/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The unwind rules (.eh_frame) of one ELF file, as far as the frame chain is concerned. */
#ifndef RPROF_CFI_H
#define RPROF_CFI_H

#include <linux/types.h>

#include "elf_file.h"
#include "module.h"

struct cfi;

/*
 * cfi_load() - read .eh_frame, found by section or, in a file without sections, by segment.
 * @f: its sections were read; rules not within it, or larger than EH_FRAME_MAX, count as absent
 *
 * Return: 0, -ENOENT (no rules) or -errno.
 */
int cfi_load(const struct elf_file *f, struct cfi **out);
void cfi_free(struct cfi *c);
/* Bytes of memory that it takes beside the file's own tables. @c: may be NULL */
size_t cfi_chain_size(const struct cfi *c);

/* As cfi_rule_at(), for one file's rules. */
void cfi_find(const struct cfi *c, __u64 vaddr, struct cfi_rule *out);

#endif
