// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as an .AsyncioDebug and, behind it, a _Py_DebugOffsets: what is accepted is in bounds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "python_asyncio.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t first = size < PYTHON_ASYNCIO_SIZE ? size : PYTHON_ASYNCIO_SIZE;
	struct python_asyncio a;
	char why[PYTHON_WHY] = "";

	if (python_asyncio_parse(data, first, data + first, size - first, &a, why)) {
		if (!*why || !memchr(why, 0, sizeof(why)))
			abort();
		return 0;
	}
	if (a.task_node + 16 > 4096 || a.task_name + 8 > 4096 || a.task_coro + 8 > 4096 ||
	    a.task_awaited_by + 8 > 4096 || a.task_is_task >= 4096 ||
	    a.task_awaited_by_is_set >= 4096 || a.task_is_task == a.task_awaited_by_is_set ||
	    a.interp_tasks_head + 16 > 1 << 18 || a.ts_tasks_head + 16 > 1 << 18 ||
	    a.ts_running_loop + 8 > 1 << 18 || a.ts_running_task + 8 > 1 << 18)
		abort();
	return 0;
}
