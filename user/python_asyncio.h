/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * .AsyncioDebug of 3.14 and later: where tasks are. It has neither cookie nor version, so it counts
 * only with the _Py_DebugOffsets of the same process. Checked and reported, not used yet.
 */
#ifndef RPROF_PYTHON_ASYNCIO_H
#define RPROF_PYTHON_ASYNCIO_H

#include <linux/types.h>
#include <stddef.h>
#include <stdio.h>

#include "python_offsets.h"

#define PYTHON_ASYNCIO_SIZE 104	/* bytes of the table */

/* Bytes into TaskObj, PyInterpreterState and _PyThreadStateImpl. */
struct python_asyncio {
	__u32 task_name;
	__u32 task_awaited_by;
	__u32 task_is_task;		/* u8 */
	__u32 task_awaited_by_is_set;	/* u8 */
	__u32 task_coro;
	__u32 task_node;		/* llist_node */
	__u32 interp_tasks_head;	/* llist_node, of tasks whose threads have ended */
	__u32 ts_running_loop;
	__u32 ts_running_task;
	__u32 ts_tasks_head;		/* llist_node */
};

/*
 * python_asyncio_parse() - check a table.
 * @bytes: PYTHON_ASYNCIO_SIZE bytes of the section, or as many as there are
 * @runtime: as for python_offsets_parse(), of the same process
 * Return: 0; -ENOTSUP: a version without such a table; -EINVAL. Besides, as python_offsets_parse().
 */
int python_asyncio_parse(const void *bytes, size_t size, const void *runtime, size_t runtime_size,
			 struct python_asyncio *out, char why[PYTHON_WHY]);

/* One line per field. */
void python_asyncio_print(const struct python_asyncio *a, FILE *f);

#endif
