/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "array.h"

#include <stdint.h>
#include <stdlib.h>

void *array_grow(void *items, size_t *cap, size_t need, size_t size)
{
	size_t n = *cap;
	size_t bytes;
	void *grown;

	if (need <= n && items)
		return items;
	if (__builtin_mul_overflow(n, (size_t)2, &n) || n < need)
		n = need;
	if (n < 16)
		n = 16;
	if (__builtin_mul_overflow(n, size, &bytes) || bytes > PTRDIFF_MAX)
		return NULL;
	grown = realloc(items, bytes);
	if (grown)
		*cap = n;
	return grown;
}
