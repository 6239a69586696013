/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The unwind rules (.eh_frame) of one ELF file, as far as the frame chain is concerned. */
#ifndef RPROF_CFI_H
#define RPROF_CFI_H

#include <libelf.h>
#include <linux/types.h>

#include "module.h"

struct cfi;

/*
 * cfi_load() - read .eh_frame of @elf.
 * @file_size: bytes; what is not within it, or larger than 64 MiB, counts as absent
 *
 * @elf must outlive the result, its file descriptor need not.
 * Return: 0, -ENOENT (no rules) or -errno.
 */
int cfi_load(Elf *elf, __u64 file_size, struct cfi **out);
void cfi_free(struct cfi *c);

/* As cfi_rule_at(), for one file's rules. */
void cfi_find(struct cfi *c, __u64 vaddr, struct cfi_rule *out);

#endif
