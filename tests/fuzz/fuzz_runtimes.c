// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sections and symbols of hostile files. The first byte says how many
 * headers of either kind the input begins with; the rest is their string table.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtimes.h"

/* A copy that ends where the input ends: the sanitizer sees a byte too many. */
static void *copy(const uint8_t *data, size_t size)
{
	void *p = malloc(size ? size : 1);

	if (p && size)
		memcpy(p, data, size);
	return p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n, table, max;
	struct runtimes found = { 0 };
	void *headers, *strings;

	if (!size)
		return 0;
	n = *data++;
	size--;
	max = size / sizeof(Elf64_Shdr);
	table = (n < max ? n : max) * sizeof(Elf64_Shdr);
	headers = copy(data, table);
	strings = copy(data + table, size - table);
	if (headers && strings)
		runtimes_sections(headers, table / sizeof(Elf64_Shdr), strings, size - table,
				  &found);
	free(headers);
	free(strings);

	max = size / sizeof(Elf64_Sym);
	table = (n < max ? n : max) * sizeof(Elf64_Sym);
	headers = copy(data, table);
	strings = copy(data + table, size - table);
	if (headers && strings)
		runtimes_symbols(headers, table / sizeof(Elf64_Sym), strings, size - table, &found);
	free(headers);
	free(strings);
	return 0;
}
