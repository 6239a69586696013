/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RPROF_KSYMS_H
#define RPROF_KSYMS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct ksyms;

/*
 * ksyms_parse() - symbols of a kallsyms text.
 * @text: @len bytes; need not be NUL-terminated
 * Return: new table, or NULL with errno. All addresses 0 (kptr_restrict): an empty table with
 * ksyms_hidden() true.
 */
struct ksyms *ksyms_parse(const char *text, size_t len);
/* Of /proc/kallsyms; read when the first name is asked for: it takes 0.1 s. */
struct ksyms *ksyms_open(void);
struct ksyms *ksyms_load(void);			/* the same, read at once */
struct ksyms *ksyms_load_file(const char *path); /* of another, for tests; @path is borrowed */
void ksyms_free(struct ksyms *k);
bool ksyms_hidden(const struct ksyms *k);

/* Name of the kernel function that is known to hold @addr, or NULL. Owned by @k. */
const char *ksyms_find(const struct ksyms *k, __u64 addr);

/*
 * ksyms_look() - as ksyms_find(), but what no symbol covers may be code that is newer than the
 * table, so that is read again: at most once a second, and in 2 % of the time.
 * Return: valid until the next call.
 */
const char *ksyms_look(struct ksyms *k, __u64 addr);

#endif
