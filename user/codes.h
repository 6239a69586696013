/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What there is to know of code: names and unwind rules, each looked up once. */
#ifndef RPROF_CODES_H
#define RPROF_CODES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "module.h"

struct inlines_report;
struct ksyms;
struct located_frame;
struct modules;
struct strset;
struct codes;

struct code {
	const char *name;	/* interned, raw bytes */
	const char *module;	/* for marks */
	bool symbolized;
	struct cfi_rule rule;
	const char *const *inlined; /* interned, innermost first, valid until the next call */
	size_t n_inlined;
};

struct codes_config {
	struct modules *modules;	/* borrowed, as are the others */
	struct ksyms *ksyms;		/* may be NULL; read again where an address is newer */
	struct strset *strings;		/* where names go */
	bool demangle, inlines;
};

struct codes_stats {
	__u64 lookups, hits;
	__u64 ns;			/* looking up what was no hit */
};

struct codes *codes_new(const struct codes_config *config);
void codes_free(struct codes *c);
const struct codes_stats *codes_stats(const struct codes *c);
void codes_inlines(const struct codes *c, struct inlines_report *out); /* zeros without --inlines */

/* Return: 0 or -ENOMEM. */
int codes_kernel(struct codes *c, __u64 addr, struct code *code);

/* It will be asked for: its file may be read meanwhile. */
void codes_want(struct codes *c, const struct located_frame *f);

/*
 * codes_native() - of a located frame.
 * @force: a file that is still being read counts as one without names, this time
 * Return: 0, -ENOMEM, or -EAGAIN: its file is being read, or --inlines had no answer yet.
 */
int codes_native(struct codes *c, const struct located_frame *f, bool force, struct code *code);

#endif
