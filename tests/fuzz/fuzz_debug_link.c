// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as .gnu_debuglink: a name never leads out of the directory that it is looked for in. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "debug_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct debug_link link;

	if (debug_link_parse(data, size, &link))
		return 0;
	if (!link.name[0] || strnlen(link.name, sizeof(link.name)) > DEBUG_LINK_NAME_MAX ||
	    strchr(link.name, '/') || !strcmp(link.name, "..") || !strcmp(link.name, "."))
		abort();
	return 0;
}
