/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "symbol_name.h"

#include <stdbool.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Length without one suffix; @len if there is none. */
static size_t without_suffix(const char *name, size_t len)
{
	static const char *const suffixes[] = { ".cold", ".part",     ".constprop",
						".isra", ".lto_priv", ".llvm" };
	size_t end = len;

	while (end && is_digit(name[end - 1]))
		end--;
	/* ".N", or no number at all, as only ".cold" may go. */
	if (end < len && (!end || name[--end] != '.'))
		return len;
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		size_t n = strlen(suffixes[i]);

		if (end > n && !memcmp(name + end - n, suffixes[i], n) && (end < len || !i))
			return end - n;
	}
	return len;
}

size_t symbol_base_length(const char *name, size_t len)
{
	size_t shorter;

	while ((shorter = without_suffix(name, len)) < len)
		len = shorter;
	return len;
}
