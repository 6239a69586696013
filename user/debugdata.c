/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "debugdata.h"

#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

#include "array.h"

#define MEMORY_MAX (72u << 20)	/* for the decoder: `xz -9` asks for 65 MiB */
#define FIRST_SIZE (256u << 10)

static int from_lzma(lzma_ret ret)
{
	if (ret == LZMA_MEM_ERROR)
		return -ENOMEM;
	return ret == LZMA_MEMLIMIT_ERROR ? -E2BIG : -EINVAL;
}

/* Doubles the output until the stream ends. */
static int run(lzma_stream *z, size_t max, unsigned char **out)
{
	size_t cap = 0;

	for (;;) {
		size_t need = z->total_out ? z->total_out + 1 : FIRST_SIZE;
		unsigned char *grown;
		lzma_ret ret;

		if (z->total_out >= max)
			return -E2BIG;
		grown = array_grow(*out, &cap, need, 1);
		if (!grown)
			return -ENOMEM;
		*out = grown;
		z->next_out = grown + z->total_out;
		z->avail_out = (cap < max ? cap : max) - z->total_out;
		ret = lzma_code(z, LZMA_FINISH);
		if (ret == LZMA_STREAM_END)
			return 0;
		/* Still LZMA_OK with room left: the input ended before the stream did. */
		if (ret != LZMA_OK || z->avail_out)
			return ret == LZMA_OK ? -EINVAL : from_lzma(ret);
	}
}

int debugdata_unpack(const void *data, size_t size, size_t max, void **out, size_t *out_size)
{
	lzma_stream z = LZMA_STREAM_INIT;
	unsigned char *bytes = NULL;
	int err;

	if (lzma_stream_decoder(&z, MEMORY_MAX, 0) != LZMA_OK)
		return -ENOMEM;
	z.next_in = data;
	z.avail_in = size;
	err = run(&z, max, &bytes);
	if (err)
		free(bytes);
	if (!err) {
		*out = bytes;
		*out_size = z.total_out;
	}
	lzma_end(&z);
	return err;
}
