/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is said of interpreters that are not read: each reason once for each file. */
#ifndef RPROF_PYTHON_REASONS_H
#define RPROF_PYTHON_REASONS_H

#include <linux/types.h>
#include <stdbool.h>

#include "idmap.h"
#include "log.h"
#include "python_candidate.h"

struct modules;

struct python_reasons {
	struct idmap said;	/* (module, hash of the reason) */
	bool is_full;		/* and that was said */
};

/* Which interpreter, and why not. */
struct python_reason {
	struct python_candidate of; /* .module 0: none */
	__u32 version;		/* PY_VERSION_HEX; 0: not known */
	char why[PYTHON_WHY];
};

void python_reasons_init(struct python_reasons *r);
void python_reasons_fini(struct python_reasons *r);

/*
 * python_reasons_say() - "process 7: Python 3.11.2 in python3.11: why; only native frames".
 * Reasons that differ in an address are one. Return: was it said (and not before)?
 */
bool python_reasons_say(struct python_reasons *r, enum log_level level,
			const struct modules *modules, __u32 tgid,
			const struct python_reason *reason);

#endif
