/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python_asyncio.h"

#include <errno.h>
#include <string.h>

#include "python_fields.h"
#include "python_table.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define ALL (PYTHON_IN_3_14 | PYTHON_IN_3_15)
#define TO(member)                                                                                 \
	.to = offsetof(struct python_asyncio, member),                                             \
	.to_size = sizeof(((struct python_asyncio *)0)->member)

/* Modules/_asynciomodule.c, in the order of its words. */
static const struct python_field rows[] = {
	{ PYTHON_TASK, "size", .in = ALL, .flags = PYTHON_SIZE },
	{ PYTHON_TASK, "task_name", .in = ALL, .width = 8, TO(task_name) },
	{ PYTHON_TASK, "task_awaited_by", .in = ALL, .width = 8, TO(task_awaited_by) },
	{ PYTHON_TASK, "task_is_task", .in = ALL, .width = 1, TO(task_is_task) },
	{ PYTHON_TASK, "task_awaited_by_is_set", .in = ALL, .width = 1,
	  TO(task_awaited_by_is_set) },
	{ PYTHON_TASK, "task_coro", .in = ALL, .width = 8, TO(task_coro) },
	{ PYTHON_TASK, "task_node", .in = ALL, .width = 16, TO(task_node) },
	{ PYTHON_ASYNC_INTERPRETER, "size", .in = ALL, .flags = PYTHON_SIZE },
	{ PYTHON_ASYNC_INTERPRETER, "asyncio_tasks_head", .in = ALL, .width = 16,
	  TO(interp_tasks_head) },
	{ PYTHON_ASYNC_THREAD, "size", .in = ALL, .flags = PYTHON_SIZE },
	{ PYTHON_ASYNC_THREAD, "asyncio_running_loop", .in = ALL, .width = 8, TO(ts_running_loop) },
	{ PYTHON_ASYNC_THREAD, "asyncio_running_task", .in = ALL, .width = 8, TO(ts_running_task) },
	{ PYTHON_ASYNC_THREAD, "asyncio_tasks_head", .in = ALL, .width = 16, TO(ts_tasks_head) },
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) * 8 == PYTHON_ASYNCIO_SIZE, "one word per row");

/* Word @i of the table. */
enum { INTERPRETER_SIZE = 7, THREAD_SIZE = 9 };

/* Both tables have sizes of the same structs: a table of another process or build would differ. */
static int check_pair(const struct python_words *w, const struct python_words *runtime,
		      char why[PYTHON_WHY])
{
	const __u64 interpreter = python_fields_value(runtime, PYTHON_INTERPRETER, "size");
	const __u64 thread = python_fields_value(runtime, PYTHON_THREAD, "size");

	if (w->value[INTERPRETER_SIZE] != interpreter) {
		snprintf(why, PYTHON_WHY, "%s: interpreters of %llu bytes, debug offsets: of %llu",
			 w->source, (unsigned long long)w->value[INTERPRETER_SIZE],
			 (unsigned long long)interpreter);
		return -EINVAL;
	}
	/* _PyThreadStateImpl begins with the thread state. */
	for (size_t i = THREAD_SIZE; i < ARRAY_SIZE(rows); i++) {
		if (w->value[i] >= thread)
			continue;
		snprintf(why, PYTHON_WHY, "%s: %s.%s %llu is inside the %llu-byte thread state",
			 w->source, python_section_name(rows[i].section), rows[i].name,
			 (unsigned long long)w->value[i], (unsigned long long)thread);
		return -EINVAL;
	}
	return 0;
}

int python_asyncio_parse(const void *bytes, size_t size, const void *runtime, size_t runtime_size,
			 struct python_asyncio *out, char why[PYTHON_WHY])
{
	struct python_words w = { .source = "asyncio offsets" }, words;
	__u32 version;
	int err = python_table_read(runtime, runtime_size, &words, &version, why);

	if (err)
		return err;
	if (!(python_version_of(version)->in & ALL)) {
		snprintf(why, PYTHON_WHY, "%s: Python 3.%u has none", w.source,
			 version >> 16 & 0xff);
		return -ENOTSUP;
	}
	if (size < PYTHON_ASYNCIO_SIZE) {
		snprintf(why, PYTHON_WHY, "%s: cut off after %zu bytes", w.source, size);
		return -EINVAL;
	}
	w.flags = words.flags;
	python_fields_read(rows, ARRAY_SIZE(rows), ALL, 0, bytes, &w);
	err = python_fields_check(rows, ARRAY_SIZE(rows), &w, why);
	if (!err)
		err = check_pair(&w, &words, why);
	for (size_t i = 0; i < ARRAY_SIZE(rows) && !err; i++) {
		const __u32 word = (__u32)w.value[i];

		if (rows[i].to_size)
			memcpy((char *)out + rows[i].to, &word, sizeof(word));
	}
	return err;
}

void python_asyncio_print(const struct python_asyncio *a, FILE *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char name[80];
		__u32 word;

		if (!rows[i].to_size)
			continue;
		memcpy(&word, (const char *)a + rows[i].to, sizeof(word));
		snprintf(name, sizeof(name), "%s.%s", python_section_name(rows[i].section),
			 rows[i].name);
		fprintf(f, "%-48s %u\n", name, word);
	}
}
