// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as .eh_frame: every row that is given holds the address that was asked for. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "eh_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const __u64 vaddr = 0x428; /* as the seed was linked */
	unsigned char *copy = malloc(size ? size : 1);
	struct eh_frame *f;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	if (eh_frame_new(copy, size, vaddr, &f)) {
		free(copy);
		return 0;
	}
	/* The seeds' functions lie at 0x400; a walk along the rows, and addresses at random. */
	for (__u64 pc = 0x400, n = 0; n < 64; n++) {
		struct eh_row row;

		if (!eh_frame_row(f, pc, &row)) {
			pc = pc * 3 + 1;
			continue;
		}
		if (pc < row.start || pc >= row.end)
			abort();
		pc = row.end;
	}
	eh_frame_free(f);
	return 0;
}
