// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any text as mountinfo: an answer, from within the text, and the same for the same text. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Ends where the text ends: the sanitizer sees a byte too many. */
	char *text = malloc(size ? size : 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	for (__u32 minor = 38; minor < 44; minor++) {
		enum target_file_place place = target_file_parse_mounts(text, size, 0, minor);

		if (place > TARGET_FILE_REMOTE)
			abort();
		if (place && !memmem(text, size, " - ", 3))
			abort();
	}
	free(text);
	return 0;
}
