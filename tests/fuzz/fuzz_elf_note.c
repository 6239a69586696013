// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as notes, the first one for the alignment: a build id lies within them, or there is none. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct build_id id;

	if (!size)
		return 0;
	if (!elf_note_build_id(data + 1, size - 1, data[0], &id))
		return 0;
	if (id.len < BUILD_ID_MIN || id.len > BUILD_ID_MAX || id.len > size ||
	    !memmem(data + 1, size - 1, id.bytes, id.len))
		abort();
	return 0;
}
