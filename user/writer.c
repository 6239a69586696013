// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The table of output formats. The first is the default; --help and the checks of -f read it. */
#include "writer.h"

#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static const struct writer *const writers[] = {
	&writer_folded,
};

const struct writer *writer_at(size_t i)
{
	return i < ARRAY_SIZE(writers) ? writers[i] : NULL;
}

const struct writer *writer_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(writers); i++) {
		if (!strcmp(writers[i]->name, name))
			return writers[i];
	}
	return NULL;
}
