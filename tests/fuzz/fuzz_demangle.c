// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a symbol: a name of bounded length or none, in bounded time. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "demangle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const prefixes[] = { "", "_Z", "_R", "_D" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t len = strlen(prefixes[i]);
		char *symbol = malloc(len + size + 1), *name;

		if (!symbol)
			return 0;
		memcpy(symbol, prefixes[i], len);
		memcpy(symbol + len, data, size);
		symbol[len + size] = '\0';
		name = demangle(symbol);
		if (name && (!*name || strlen(name) >= 65536 || symbol[0] != '_'))
			abort();
		free(name);
		free(symbol);
	}
	return 0;
}
