// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What a hostile ELF file exports, from the file and from memory where it is all in one piece. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf_file.h"
#include "python_find.h"

struct input {
	const uint8_t *data;
	size_t size;
};

/* The input is mapped at 1 MiB. */
#define START 0x100000

static size_t read_input(void *ctx, const struct python_range *ranges, size_t n)
{
	const struct input *in = ctx;

	for (size_t i = 0; i < n; i++) {
		const __u64 at = ranges[i].addr - START;

		if (at > in->size || ranges[i].len > in->size - at)
			return i;
		memcpy(ranges[i].to, in->data + at, ranges[i].len);
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const struct python_memory m = { &in, read_input };
	struct python_file found;
	struct elf_file f;
	char text[64];
	__u64 bias, left = 1 << 20;

	if (!elf_file_open_bytes(&f, data, size)) {
		python_find_file(&f, &found);
		python_version_text(found.kind, found.build.version, text, sizeof(text));
		if (found.kind == PYTHON_CPYTHON && !found.runtime && found.exports)
			abort();
		elf_file_fini(&f);
	}
	python_find_memory(&m, START, &found, &bias);
	python_find_cookie(&m, START, START + size, &left);
	return 0;
}
