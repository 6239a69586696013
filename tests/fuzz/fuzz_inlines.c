// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Answers of a reader of debug information that is in the hands of its file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "inline_worker.h"
#include "inlines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *names[INLINE_MAX_CALLS];
	__u64 number = 0;
	int n;

	if (size > INLINE_MAX_ANSWER)
		return 0;
	/* Nearly always the number that is asked for. */
	if (size >= sizeof(number))
		memcpy(&number, data, sizeof(number));
	n = inlines_parse_answer(data, size, size % 16 ? number : 1, names);
	if (n > INLINE_MAX_CALLS)
		abort();
	for (int i = 0; i < n; i++) {
		const char *end = names[i] + strlen(names[i]) + 1;

		if (!*names[i] || end > (const char *)data + size)
			abort();
	}
	return 0;
}
