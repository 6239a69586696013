/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The CODE record of the code object of python_image.h. */
#ifndef RPROF_TEST_PYTHON_RECORD_H
#define RPROF_TEST_PYTHON_RECORD_H

#include "python_image.h"

#define TGID 100u

/* A record of what the image holds, as the kernel side sends it. */
static union {
	struct rprof_code code;
	__u64 words[1024];
} r;

static inline void add_part(int part, __u64 addr, __u32 length, __u32 kind, bool captured)
{
	struct rprof_code_text *t = &r.code.parts[part];

	*t = (struct rprof_code_text){
		.addr = addr,
		.length = length,
		.kind = kind,
		.ascii = part != RPROF_CODE_LINES,
	};
	if (!captured)
		return;
	t->captured = length * kind;
	memcpy((__u8 *)&r + r.code.h.len, image + (addr - IMAGE), t->captured);
	r.code.h.len += (t->captured + 7) & ~7u;
}

/* @missing: bits of the parts that were not captured. */
static inline void make_record(unsigned int missing)
{
	memset(&r, 0, sizeof(r));
	r.code = (struct rprof_code){
		.h = { .type = RPROF_RECORD_CODE, .len = sizeof(r.code) },
		.code = CODE,
		.fingerprint = rprof_fingerprint(image_hash()),
		.tgid = TGID,
		.firstlineno = 10,
		.version = 0x030d,
	};
	add_part(RPROF_CODE_NAME, NAME + 40, 8, 1, !(missing & 1));
	add_part(RPROF_CODE_FILE, FILE_NAME + 40, 16, 1, !(missing & 2));
	add_part(RPROF_CODE_LINES, LINES + 32, 9, 1, !(missing & 4));
}

#endif
