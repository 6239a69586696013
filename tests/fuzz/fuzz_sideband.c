// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Records of the side-band: the kernel's, but for the name in them. */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "sideband.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct sideband_event event;
	char path[200];
	char *copy;

	if (size < sizeof(struct perf_event_header) || size > 65535)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	((struct perf_event_header *)copy)->size = (__u16)size;
	if (!sideband_parse(copy, size, &event, path, sizeof(path)) && event.kind == SIDEBAND_MAP &&
	    (event.map.start >= event.map.end || event.map.path_len >= sizeof(path) ||
	     memchr(event.map.path, '\n', event.map.path_len)))
		abort();
	free(copy);
	return 0;
}
