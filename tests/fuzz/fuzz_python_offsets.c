// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a _Py_DebugOffsets: what is accepted leads no read out of the programs' buffers. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python_offsets.h"

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void require_bounded(const struct rprof_python *p)
{
	const __u32 co_end = p->co_type + p->co_read;

	require(p->ts_read <= 512 && p->f_read <= 128 && p->co_read <= 192);
	require(p->ts_next + 8u <= p->ts_read && p->ts_interp + 8u <= p->ts_read);
	require(p->ts_frame + 8u <= p->ts_read && p->ts_base_frame + 8u <= p->ts_read);
	require(p->ts_thread_id + 8u <= p->ts_read && p->ts_native_tid + 8u <= p->ts_read);
	require(p->ts_status + 4u <= p->ts_read && p->ts_chunk + 8u <= p->ts_read);
	require(!p->ts_executor || p->ts_executor + 8u <= p->ts_read);
	require(p->f_code + 8u <= p->f_read && p->f_previous + 8u <= p->f_read);
	require(p->f_instr + 8u <= p->f_read && p->f_owner < p->f_read);
	require(p->f_tlbc + 4u <= p->f_read);
	require(p->co_from > p->co_type && p->co_from < co_end);
	require(p->co_name >= p->co_from && p->co_name + 8u <= co_end);
	require(p->co_filename >= p->co_from && p->co_filename + 8u <= co_end);
	require(p->co_lines >= p->co_from && p->co_lines + 8u <= co_end);
	require(p->co_firstlineno >= p->co_from && p->co_firstlineno + 4u <= co_end);
	require(p->co_version >= p->co_from && p->co_version + 4u <= co_end);
	require(p->str_state < 256 && p->str_ascii < 256 && p->str_compact < 256);
	require(p->str_kind_shift <= 29 && p->bytes_data < 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rprof_python p;
	char why[PYTHON_WHY] = "", *text = NULL;
	size_t text_size;
	FILE *f;

	if (python_offsets_parse(data, size, &p, why)) {
		require(*why && memchr(why, 0, sizeof(why)));
		return 0;
	}
	require(!python_offsets_validate(&p, why));
	require_bounded(&p);
	f = open_memstream(&text, &text_size);
	require(f);
	python_offsets_print(&p, f);
	fclose(f);
	free(text);
	return 0;
}
