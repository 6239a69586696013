// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Records as perf_event_open(2) lays them out, built by hand. */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "sideband.h"

static char record[4096];
static size_t len;
static char path[256];
static struct sideband_event event;

static void begin(__u32 type, __u16 misc)
{
	memset(record, 0, sizeof(record));
	*(struct perf_event_header *)record = (struct perf_event_header){ type, misc, 0 };
	len = sizeof(struct perf_event_header);
}

static void put(const void *data, size_t size)
{
	memcpy(record + len, data, size);
	len += size;
}

static void put32(__u32 v)
{
	put(&v, 4);
}

static void put64(__u64 v)
{
	put(&v, 8);
}

/* A name, padded to 8 bytes as the kernel does. */
static void put_name(const char *name)
{
	put(name, strlen(name) + 1);
	len = (len + 7) & ~7UL;
}

static int parse(__u64 time_ns)
{
	put64(time_ns);
	((struct perf_event_header *)record)->size = (__u16)len;
	return sideband_parse(record, len, &event, path, sizeof(path));
}

static void put_map(__u64 start, __u64 size, __u32 prot, __u32 flags, const char *name)
{
	begin(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put32(12);
	put32(13);
	put64(start);
	put64(size);
	put64(0x3000);
	put32(8);
	put32(1);
	put64(777);
	put64(1);
	put32(prot);
	put32(flags);
	put_name(name);
}

static void mapping_is_as_maps_shows_it(void **state)
{
	put_map(0x1000, 0x2000, PROT_READ | PROT_EXEC, MAP_PRIVATE, "/usr/bin/a program");
	assert_int_equal(parse(99), 0);
	assert_int_equal(event.kind, SIDEBAND_MAP);
	assert_int_equal(event.time_ns, 99);
	assert_int_equal(event.tgid, 12);
	assert_int_equal(event.map.start, 0x1000);
	assert_int_equal(event.map.end, 0x3000);
	assert_int_equal(event.map.pgoff, 0x3000);
	assert_int_equal(event.map.dev_major, 8);
	assert_int_equal(event.map.dev_minor, 1);
	assert_int_equal(event.map.inode, 777);
	assert_true(event.map.executable && event.map.readable && !event.map.writable);
	assert_false(event.map.shared);
	assert_string_equal(event.map.path, "/usr/bin/a program");
	assert_int_equal(event.map.path_len, strlen("/usr/bin/a program"));
	put_map(0x1000, 0x2000, PROT_EXEC, MAP_SHARED, "/two\nlines (deleted)");
	assert_int_equal(parse(99), 0);
	assert_string_equal(event.map.path, "/two\\012lines (deleted)");
	assert_true(event.map.shared);
	put_map(0x1000, 0x2000, PROT_EXEC, MAP_PRIVATE, "//anon");
	assert_int_equal(parse(99), 0);
	assert_int_equal(event.map.path_len, 0);
}

static void what_is_no_code_of_a_process_is_left_out(void **state)
{
	put_map(0x1000, 0x2000, PROT_READ, MAP_PRIVATE, "/data");
	assert_int_equal(parse(1), -ENOENT);
	put_map(0x1000, 0x2000, PROT_EXEC, MAP_PRIVATE, "[kernel]");
	((struct perf_event_header *)record)->misc = PERF_RECORD_MISC_KERNEL;
	assert_int_equal(parse(1), -ENOENT);
	begin(PERF_RECORD_COMM, 0);
	put32(5);
	put32(5);
	put_name("renamed");
	assert_int_equal(parse(1), -ENOENT);
	begin(PERF_RECORD_SAMPLE, 0);
	put64(5);
	assert_int_equal(parse(1), -ENOENT);
}

static void exec_fork_exit_and_losses_are_told(void **state)
{
	begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put32(5);
	put32(5);
	put_name("new");
	assert_int_equal(parse(7), 0);
	assert_int_equal(event.kind, SIDEBAND_EXEC);
	assert_int_equal(event.tgid, 5);
	for (int thread = 0; thread < 2; thread++) {
		begin(thread ? PERF_RECORD_EXIT : PERF_RECORD_FORK, 0);
		put32(20);
		put32(10);
		put32(20);
		put32(10);
		put64(1);
		assert_int_equal(parse(7), 0);
		assert_int_equal(event.kind, thread ? SIDEBAND_EXIT : SIDEBAND_FORK);
		assert_int_equal(event.tgid, 20);
		assert_int_equal(event.ppid, 10);
		/* A thread. */
		begin(thread ? PERF_RECORD_EXIT : PERF_RECORD_FORK, 0);
		put32(20);
		put32(20);
		put32(21);
		put32(20);
		put64(1);
		assert_int_equal(parse(7), -ENOENT);
	}
	begin(PERF_RECORD_LOST, 0);
	put64(1);
	put64(42);
	assert_int_equal(parse(7), 0);
	assert_int_equal(event.kind, SIDEBAND_LOST);
	assert_int_equal(event.lost, 42);
}

static void records_that_are_cut_are_refused(void **state)
{
	static const __u32 types[] = { PERF_RECORD_MMAP2, PERF_RECORD_COMM, PERF_RECORD_FORK,
				       PERF_RECORD_EXIT, PERF_RECORD_LOST };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		begin(types[i], PERF_RECORD_MISC_USER);
		assert_int_equal(parse(1), -EINVAL);
	}
	assert_int_equal(sideband_parse(record, 4, &event, path, sizeof(path)), -EINVAL);
	/* A mapping that ends beyond the address space, or has no size; a name without room. */
	put_map(0xfffffffffffff000, 0x2000, PROT_EXEC, MAP_PRIVATE, "/a");
	assert_int_equal(parse(1), -EINVAL);
	put_map(0x1000, 0, PROT_EXEC, MAP_PRIVATE, "/a");
	assert_int_equal(parse(1), -EINVAL);
	put_map(0x1000, 0x1000, PROT_EXEC, MAP_PRIVATE, "/a");
	memset(record + len, '/', 300);
	len += 304;
	assert_int_equal(parse(1), 0);
	assert_string_equal(path, "/a");
	put_map(0x1000, 0x1000, PROT_EXEC, MAP_PRIVATE, "/a");
	memset(record + len - 8, '\n', 304);
	len += 296;
	assert_int_equal(parse(1), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapping_is_as_maps_shows_it),
		cmocka_unit_test(what_is_no_code_of_a_process_is_left_out),
		cmocka_unit_test(exec_fork_exit_and_losses_are_told),
		cmocka_unit_test(records_that_are_cut_are_refused),
	};

	return cmocka_run_group_tests_name("sideband", tests, NULL, NULL);
}
