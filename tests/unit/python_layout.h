/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Code objects and strings as CPython 3.13 lays them out, for tests of both sides. */
#ifndef RPROF_TEST_PYTHON_LAYOUT_H
#define RPROF_TEST_PYTHON_LAYOUT_H

#include "rprof/config.h"
#include "rprof/hash.h"

#define CODE_TYPE 0x555500001000ULL

static const struct rprof_python image_layout = {
	.version = 0x030d,
	.flags = RPROF_PYTHON_CODE_VERSION,
	.code_type = CODE_TYPE,
	.co_type = 8,
	.co_read = 136,
	.co_from = 64,
	.co_firstlineno = 68,
	.co_version = 92,
	.co_filename = 112,
	.co_name = 128,
	.co_lines = 136,
	.str_length = 16,
	.str_hash = 24,
	.str_state = 32,
	.str_ascii = 40,
	.str_compact = 56,
	.str_kind_shift = 2,
	.str_compact_bit = 5,
	.str_ascii_bit = 6,
	.bytes_size = 16,
	.bytes_data = 32,
};

/* The definition in hash.h, once more: @tail: the last bytes of a text without a hash of its own. */
static inline __u64 layout_mix_text(__u64 h, __u64 key, __u64 length, const void *tail)
{
	h = rprof_mix(rprof_mix(h, length, key), ~0ULL, key);
	for (int i = 0; i < RPROF_TEXT_TAIL / 8; i++) {
		__u64 word, before = h;

		memcpy(&word, (const char *)tail + 8 * i, sizeof(word));
		h = rprof_mix(rprof_mix(before, word, key), ~before, key);
	}
	return h;
}

#endif
