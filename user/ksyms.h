/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_KSYMS_H
#define RPROF_KSYMS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct ksyms;

/*
 * ksyms_parse() - symbols of a kallsyms text (function symbols only, sorted by address).
 * @text: @len bytes; need not be NUL-terminated
 * Return: new table, or NULL with errno. All addresses 0 (kptr_restrict): an empty table with
 * ksyms_hidden() true.
 */
struct ksyms *ksyms_parse(const char *text, size_t len);
struct ksyms *ksyms_load(void);		/* of /proc/kallsyms */
void ksyms_free(struct ksyms *k);
bool ksyms_hidden(const struct ksyms *k);

/* Name of the kernel function that holds @addr, or NULL. Owned by @k. */
const char *ksyms_find(const struct ksyms *k, __u64 addr);

#endif
