// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What record_check() accepts may be walked to its end: every part lies inside of the record. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "stop.h"

/* The sum goes here, so that no read is optimized away. */
volatile uint64_t fuzz_sum;

/* Reads all that downstream may read; the sanitizer watches. */
static uint64_t walk_stack(const struct rprof_stack *s)
{
	const struct rprof_native_frame *native = record_native(s);
	const struct rprof_python_frame *python = record_python(s);
	const __u64 *kernel = record_kernel(s);
	uint64_t sum = 0;

	for (unsigned int i = 0; i < s->n_kernel; i++)
		sum += kernel[i];
	for (unsigned int i = 0; i < s->n_native; i++) {
		if ((native[i].flags & RPROF_NATIVE_HOW) >= RPROF_HOW_MAX)
			abort();
		sum += native[i].pc;
	}
	for (unsigned int i = 0; i < s->n_python; i++) {
		if (python[i].where & RPROF_PY_SHIM && python[i].code > s->n_native)
			abort();
		sum += python[i].code + python[i].fingerprint;
	}
	sum += *stop_name(s->stop_kernel) + *stop_name(s->stop_native) + *stop_name(s->stop_python);
	return sum;
}

static uint64_t walk_code(const struct rprof_code *c)
{
	uint64_t sum = 0;

	for (int part = 0; part < RPROF_CODE_PARTS; part++) {
		const uint8_t *bytes = record_code_part(c, part);

		for (unsigned int i = 0; i < c->parts[part].captured; i++)
			sum += bytes[i];
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rprof_header *record;

	/* A copy of its own: aligned, and with nothing readable behind it. */
	record = aligned_alloc(8, (size + 8) & ~(size_t)7);
	if (!record)
		return 0;
	memcpy(record, data, size);

	/* A length that is true reaches deeper than chance would. */
	if (size >= sizeof(*record) && !(record->flags & 1))
		record->len = size;
	if (!record_check(record, size) && record->type == RPROF_RECORD_STACK)
		fuzz_sum = walk_stack((const struct rprof_stack *)record);
	if (!record_check(record, size) && record->type == RPROF_RECORD_CODE)
		fuzz_sum = walk_code((const struct rprof_code *)record);
	free(record);
	return 0;
}
