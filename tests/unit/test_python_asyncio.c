// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "python_asyncio.h"
#include "python_tables_of_a_test.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define WORDS (PYTHON_ASYNCIO_SIZE / 8)

/* Of Debian's 3.14.10 and 3.15.2. */
static const struct {
	const char *name;
	__u64 words[WORDS];
} real[] = {
	{ "3.14", { 168, 136, 96, 108, 109, 128, 152, 225864, 10880, 936, 864, 872, 880 } },
	{ "3.15", { 168, 136, 96, 108, 109, 128, 152, 226240, 10856, 1104, 1024, 1032, 1048 } },
};

struct pair {
	__u64 words[WORDS];
	unsigned char runtime[PYTHON_OFFSETS_MAX];
	size_t runtime_size;
};

static size_t runtime_named(const char *name, unsigned char *bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(real_tables); i++) {
		if (!strcmp(real_tables[i].name, name))
			return real_table(i, bytes);
	}
	fail_msg("no table of %s", name);
	return 0;
}

static struct pair pair_of(size_t i)
{
	struct pair pair = { 0 };

	memcpy(pair.words, real[i].words, sizeof(pair.words));
	pair.runtime_size = runtime_named(real[i].name, pair.runtime);
	return pair;
}

static int parse(const struct pair *pair, struct python_asyncio *a, char why[PYTHON_WHY])
{
	*why = 0;
	return python_asyncio_parse(pair->words, sizeof(pair->words), pair->runtime,
				    pair->runtime_size, a, why);
}

static void real_tables_are_accepted(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(real); i++) {
		struct pair pair = pair_of(i);
		struct python_asyncio a;
		char why[PYTHON_WHY];

		if (parse(&pair, &a, why))
			fail_msg("%s: %s", real[i].name, why);
		assert_int_equal(a.task_name, 136);
		assert_int_equal(a.task_awaited_by_is_set, 109);
		assert_int_equal(a.task_node, 152);
		assert_int_equal(a.interp_tasks_head, real[i].words[8]);
		assert_int_equal(a.ts_tasks_head, real[i].words[12]);
	}
}

static void fields_out_of_place_are_refused_by_name(void **state)
{
	static const struct {
		size_t word;
		__u64 value;
		const char *why;
	} cases[] = {
		{ 0, 8192, "asyncio offsets: asyncio_task_object.size 8192 is more than 4096" },
		{ 6, 160,
		  "asyncio offsets: asyncio_task_object.task_node 160 is outside the 168-byte task" },
		{ 4, 108,
		  "asyncio offsets: asyncio_task_object.task_awaited_by_is_set 108 overlaps task_is_task at 108" },
		{ 7, 226232,
		  "asyncio offsets: interpreters of 226232 bytes, debug offsets: of 226240" },
		{ 10, 72,
		  "asyncio offsets: asyncio_thread_state.asyncio_running_loop 72 is inside the 888-byte thread state" },
		{ 9, 800,
		  "asyncio offsets: asyncio_thread_state.asyncio_running_loop 1024 is outside the 800-byte thread state" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pair pair = pair_of(1);
		struct python_asyncio a;
		char why[PYTHON_WHY];

		pair.words[cases[i].word] = cases[i].value;
		assert_int_equal(parse(&pair, &a, why), -EINVAL);
		assert_string_equal(why, cases[i].why);
	}
}

static void it_counts_only_with_a_runtime_that_has_one(void **state)
{
	struct pair pair = pair_of(1);
	struct python_asyncio a = { .task_name = 7 };
	char why[PYTHON_WHY];

	pair.runtime_size = runtime_named("3.13", pair.runtime);
	assert_int_equal(parse(&pair, &a, why), -ENOTSUP);
	assert_string_equal(why, "asyncio offsets: Python 3.13 has none");
	pair.runtime_size = runtime_named("3.14", pair.runtime);
	assert_int_equal(parse(&pair, &a, why), -EINVAL);
	pair.runtime[0] = 0;
	assert_int_equal(parse(&pair, &a, why), -ENOENT);
	assert_int_equal(a.task_name, 7);
}

static void a_cut_table_is_refused(void **state)
{
	struct pair pair = pair_of(0);
	struct python_asyncio a;
	char why[PYTHON_WHY];

	for (size_t size = 0; size < PYTHON_ASYNCIO_SIZE; size++) {
		/* Ends where the table ends: the sanitizer sees a byte too many. */
		unsigned char *cut = malloc(size ? size : 1);

		assert_non_null(cut);
		memcpy(cut, pair.words, size);
		assert_int_equal(python_asyncio_parse(cut, size, pair.runtime, pair.runtime_size,
						      &a, why),
				 -EINVAL);
		free(cut);
	}
}

static void hostile_words_are_refused(void **state)
{
	static const __u64 hostile[] = { 0, 1, 7, 1ull << 31, 1ull << 63, (__u64)-8 };

	for (size_t i = 0; i < ARRAY_SIZE(real); i++) {
		for (size_t j = 0; j < WORDS; j++) {
			for (size_t k = 0; k < ARRAY_SIZE(hostile); k++) {
				struct pair pair = pair_of(i);
				struct python_asyncio a;
				char why[PYTHON_WHY];

				pair.words[j] = hostile[k];
				/* A byte may be anywhere in a task. */
				if ((j == 3 || j == 4) && (hostile[k] == 1 || hostile[k] == 7))
					continue;
				if (!parse(&pair, &a, why))
					fail_msg("word %zu may be %#llx", j,
						 (unsigned long long)hostile[k]);
				assert_true(*why);
			}
		}
	}
}

static void each_field_is_printed(void **state)
{
	struct pair pair = pair_of(1);
	struct python_asyncio a;
	char why[PYTHON_WHY], *text = NULL, *found;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	assert_int_equal(parse(&pair, &a, why), 0);
	python_asyncio_print(&a, f);
	assert_int_equal(fclose(f), 0);
	found = strstr(text, "asyncio_thread_state.asyncio_running_task ");
	assert_non_null(found);
	assert_int_equal(strtoul(strchr(found, ' '), NULL, 10), 1032);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_tables_are_accepted),
		cmocka_unit_test(fields_out_of_place_are_refused_by_name),
		cmocka_unit_test(it_counts_only_with_a_runtime_that_has_one),
		cmocka_unit_test(a_cut_table_is_refused),
		cmocka_unit_test(hostile_words_are_refused),
		cmocka_unit_test(each_field_is_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
