// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Code of a function: a byte with the number of rows, four bytes for each, then instructions. */
#include <stdlib.h>
#include <string.h>

#include "chain_scan.h"

#define BASE 0x1000

struct told {
	size_t size, n;
};

static bool check_span(void *arg, const struct chain_span *span)
{
	struct told *t = arg;

	if (span->start < BASE || span->start >= span->end || span->end > BASE + t->size)
		abort();
	return ++t->n < 64;
}

static bool count_jump(void *arg, __u64 target)
{
	struct told *t = arg;

	if (target >= BASE && target < BASE + t->size)
		abort();
	return ++t->n < 64;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	static const __u64 registers[] = { 15, 11, 14, 1 };
	struct told told = { 0, 0 };
	const struct chain_sink sink = { check_span, count_jump, &told };
	struct eh_row rows[8];
	struct chain_input in = { .vaddr = BASE, .rows = rows };
	__u64 at = BASE;

	if (!size)
		return 0;
	in.n_rows = data[0] & 7;
	if (size < 1 + 4 * in.n_rows)
		return 0;
	in.code = data + 1 + 4 * in.n_rows;
	in.size = told.size = size - 1 - 4 * in.n_rows;
	for (size_t i = 0; i < in.n_rows; i++) {
		const unsigned char *row = data + 1 + 4 * i;

		rows[i] = (struct eh_row){
			.start = at,
			.end = i + 1 < in.n_rows ? at + 1 + row[0] : BASE + 0x10000,
			.cfa_known = row[1] & 1,
			.cfa_reg = registers[row[1] >> 1 & 3],
			.cfa_offset = 8 * (row[2] << 8 | row[3]),
		};
		at = rows[i].end;
	}
	chain_scan(&in, &sink);
	return 0;
}
