// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <lzma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "debugdata.h"

/* @size bytes of text, packed; from malloc. */
static unsigned char *pack(size_t size, size_t *packed_size, unsigned char **text)
{
	unsigned char *packed = malloc(size + 4096);

	*text = malloc(size + 1);
	for (size_t i = 0; i < size; i++)
		(*text)[i] = (unsigned char)(i / 7 + i % 5);
	*packed_size = 0;
	assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, *text, size, packed,
						 packed_size, size + 4096),
			 LZMA_OK);
	return packed;
}

static void what_was_packed_comes_out(void **state)
{
	static const size_t sizes[] = { 1, 1000, 256 << 10, (256 << 10) + 1, 1 << 20, 5000000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		unsigned char *text, *packed;
		size_t packed_size, out_size;
		void *out;

		packed = pack(sizes[i], &packed_size, &text);
		assert_int_equal(
			debugdata_unpack(packed, packed_size, DEBUGDATA_MAX, &out, &out_size), 0);
		assert_int_equal(out_size, sizes[i]);
		assert_memory_equal(out, text, out_size);
		free(out);
		/* Just enough is enough, and one less is too little. */
		assert_int_equal(
			debugdata_unpack(packed, packed_size, sizes[i] + 1, &out, &out_size), 0);
		free(out);
		assert_int_equal(debugdata_unpack(packed, packed_size, sizes[i] - 1, &out,
						  &out_size),
				 -E2BIG);
		free(text);
		free(packed);
	}
}

static void broken_streams_are_refused(void **state)
{
	unsigned char *text, *packed, *copy;
	size_t size, out_size, n_unnoticed = 0;
	void *out;

	/* Small: the decoder allocates its dictionary each time. */
	packed = pack(40, &size, &text);
	copy = malloc(size);
	for (size_t n = 0; n < size; n++)
		assert_int_equal(debugdata_unpack(packed, n, 1 << 20, &out, &out_size), -EINVAL);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		int err;

		memcpy(copy, packed, size);
		copy[bit / 8] ^= (unsigned char)(1 << bit % 8);
		err = debugdata_unpack(copy, size, 1 << 20, &out, &out_size);
		assert_true(!err || err == -EINVAL || err == -E2BIG);
		/* There are bits that do not count. The text has a checksum. */
		if (!err) {
			assert_memory_equal(out, text, 40);
			n_unnoticed++;
			free(out);
		}
	}
	assert_true(n_unnoticed < 8);
	free(copy);
	free(packed);
	free(text);
}

/* A dictionary of 96 MiB, which the decoder would allocate. */
static void memory_of_the_decoder_is_bounded(void **state)
{
	unsigned char packed[4096];
	size_t size = 0, out_size;
	lzma_options_lzma lzma;
	lzma_filter filters[] = { { LZMA_FILTER_LZMA2, &lzma }, { LZMA_VLI_UNKNOWN, NULL } };
	void *out;

	lzma_lzma_preset(&lzma, 0);
	lzma.dict_size = 96 << 20;
	assert_int_equal(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC32, NULL,
						   (const uint8_t *)"text", 4, packed, &size,
						   sizeof(packed)),
			 LZMA_OK);
	assert_int_equal(debugdata_unpack(packed, size, 1 << 20, &out, &out_size), -E2BIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_packed_comes_out),
		cmocka_unit_test(broken_streams_are_refused),
		cmocka_unit_test(memory_of_the_decoder_is_bounded),
	};

	return cmocka_run_group_tests_name("debugdata", tests, NULL, NULL);
}
