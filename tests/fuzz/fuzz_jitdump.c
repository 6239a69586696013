// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a jitdump file: read to an end, and each name is in the file. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitdump d = { 0 };
	__u64 at = 0, done;

	do {
		/* Ends where the file ends: the sanitizer sees a byte too many. */
		size_t left = at < size ? size - (size_t)at : 0;
		uint8_t *bytes = malloc(left + 1);

		if (!bytes)
			abort();
		memcpy(bytes, data + size - left, left);
		done = left ? jitdump_parse(&d, bytes, left) : 0;
		at += done;
		free(bytes);
	} while (done);
	for (__u64 addr = 0; addr < 0x4000; addr += 0x7f) {
		const char *name = jitdump_find(&d, addr, addr);

		if (name && (!*name || !memmem(data, size, name, strlen(name))))
			abort();
	}
	jitdump_fini(&d);
	return 0;
}
