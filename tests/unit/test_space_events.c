// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Spaces by events, in an order of time that the test makes up. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "compile.h"
#include "maps.h"
#include "modules.h"
#include "monotonic.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

static const char source[] = "int alpha(int x) { return x + 1; }\n";
static const char other[] = "int omega(int x) { return x - 1; }\n";

/* Events: the test tells them, of processes that need not be there. */
enum { OURS = 0x7ffffff1, CHILD = 0x7ffffff2 };

static __u32 file_number(const char *path)
{
	struct stat st;
	struct maps_entry e = { .start = 4096, .end = 8192, .executable = true };

	assert_int_equal(stat(path, &st), 0);
	e.inode = st.st_ino;
	e.dev_major = major(st.st_dev);
	e.dev_minor = minor(st.st_dev);
	e.path = path;
	e.path_len = strlen(path);
	return modules_add(m_all, -1, OURS, &e);
}

static int map_at(struct spaces *s, __u64 time_ns, __u64 start, __u64 end, __u32 module,
		  __u64 offset)
{
	const struct rprof_mapping m = {
		.start = start,
		.end = end,
		.module = module,
		.flags = RPROF_MAPPING_EXEC,
	};

	modules_ref(m_all, module);
	return spaces_map(s, OURS, time_ns, &m, offset);
}

static const struct rprof_mapping *at(struct spaces *s, __u64 time_ns, __u64 addr)
{
	const struct space *sp = spaces_at(s, OURS, time_ns);

	return sp ? space_mapping(sp, addr) : NULL;
}

static void events_tell_what_was_where_and_when(void **state)
{
	struct spaces *s = new_spaces();
	__u32 a, b;

	a = file_number(compile("a.so", "c", source, "-shared -fPIC"));
	b = file_number(compile("b.so", "c", other, "-shared -fPIC"));
	assert_true(a && b && a != b);
	/* Of a process that is not known, an event says too little. */
	assert_int_equal(map_at(s, 5, 0x1000, 0x2000, a, 0), 0);
	assert_null(spaces_newest(s, OURS));
	assert_int_equal(spaces_exec(s, OURS, 10), 0);
	assert_null(spaces_at(s, OURS, 9));
	assert_int_equal(map_at(s, 11, 0x10000, 0x20000, a, 0), 0);
	assert_int_equal(map_at(s, 12, 0x30000, 0x40000, b, 0x1000), 0);
	assert_int_equal(spaces_newest(s, OURS)->number, 1);
	assert_int_equal(at(s, 12, 0x10000)->module, a);
	assert_int_equal(at(s, 12, 0x3ffff)->module, b);
	assert_null(at(s, 12, 0x20000));
	/* The same again, a part of it, and memory without a file beside it: nothing new. */
	assert_int_equal(map_at(s, 13, 0x10000, 0x20000, a, 0), 0);
	assert_int_equal(map_at(s, 13, 0x12000, 0x13000, a, 0x2000), 0);
	assert_int_equal(map_at(s, 13, 0x50000, 0x60000, 0, 0), 0);
	assert_int_equal(spaces_newest(s, OURS)->number, 1);
	assert_int_equal(spaces_newest(s, OURS)->n_mappings, 3);
	/* In the middle of the first: what it was stays for samples of before. */
	assert_int_equal(map_at(s, 20, 0x14000, 0x18000, b, 0), 0);
	assert_int_equal(at(s, 19, 0x15000)->module, a);
	assert_int_equal(at(s, 20, 0x15000)->module, b);
	assert_int_equal(at(s, 20, 0x13fff)->module, a);
	assert_int_equal(at(s, 20, 0x18000)->module, a);
	assert_int_equal(space_file_offset(spaces_newest(s, OURS), at(s, 20, 0x18000), 0x18010),
			 0x8010);
	assert_int_equal(spaces_newest(s, OURS)->n_mappings, 5);
	/* Another place of the same file is other code; a file over memory without one, too. */
	assert_int_equal(map_at(s, 21, 0x30000, 0x40000, b, 0x5000), 0);
	assert_int_equal(spaces_newest(s, OURS)->number, 3);
	assert_int_equal(map_at(s, 22, 0x51000, 0x52000, a, 0), 0);
	assert_int_equal(spaces_newest(s, OURS)->number, 4);
	/* An event that is older than the space came too late to count. */
	assert_int_equal(map_at(s, 21, 0x51000, 0x52000, b, 0), 0);
	assert_int_equal(at(s, 22, 0x51000)->module, a);
	assert_int_equal(spaces_exec(s, OURS, 30), 0);
	assert_null(at(s, 30, 0x10000));
	assert_int_equal(at(s, 29, 0x10000)->module, a);
	assert_null(spaces_at(s, OURS, 21));
	free_spaces(s);
}

static void a_fork_is_a_copy_and_a_number_of_its_own(void **state)
{
	struct spaces *s = new_spaces();
	__u32 a = file_number(compile("a.so", "c", source, "-shared -fPIC"));

	assert_int_equal(spaces_fork(s, CHILD, OURS, 1), 0);
	assert_null(spaces_newest(s, CHILD));
	assert_int_equal(spaces_exec(s, OURS, 10), 0);
	assert_int_equal(map_at(s, 11, 0x10000, 0x20000, a, 0), 0);
	assert_int_equal(spaces_fork(s, CHILD, OURS, 20), 0);
	spaces_end(s, OURS);
	assert_null(spaces_newest(s, OURS));
	assert_int_equal(space_mapping(spaces_at(s, CHILD, 20), 0x10000)->module, a);
	assert_null(spaces_at(s, CHILD, 19));
	/* The number is used again: nothing of the old one is left. */
	assert_int_equal(spaces_fork(s, CHILD, OURS, 30), 0);
	assert_null(spaces_newest(s, CHILD));
	assert_int_equal(spaces_exec(s, CHILD, 31), 0);
	assert_int_equal(spaces_newest(s, CHILD)->number, 3);
	free_spaces(s);
}

static struct spaces_pending told_later;

static const struct spaces_pending *pending(void *ctx, __u32 tgid)
{
	return &told_later;
}

static void a_reading_does_not_tell_what_is_still_to_happen(void **state)
{
	const char *path = compile("later.so", "c", source, "-shared -fPIC");
	struct spaces_range range;
	struct spaces *s = new_spaces();
	const struct space *sp;
	__u32 self = (__u32)getpid(), number;
	struct rprof_mapping m;
	char *place;
	int fd;

	place = mmap(NULL, 16384, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = open(path, O_RDONLY);
	assert_true(mmap(place, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 4096) ==
		    place);
	sp = read_self(s);
	number = sp->number;
	m = *mapping_at(sp, place);
	/* Something takes its place, and something new comes; the events wait. */
	assert_true(mmap(place, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
		    place);
	range = (struct spaces_range){ (size_t)place, (size_t)place + 8192 };
	told_later = (struct spaces_pending){ .ranges = &range, .n_ranges = 1 };
	assert_int_equal(spaces_read(s, self, pending, NULL, &sp), 0);
	assert_int_equal(sp->number, number);
	assert_memory_equal(mapping_at(sp, place), &m, sizeof(m));
	assert_null(mapping_at(sp, place + 4096));
	/* Without them the reading is what counts. */
	told_later = (struct spaces_pending){ 0 };
	assert_int_equal(spaces_read(s, self, pending, NULL, &sp), 0);
	assert_int_not_equal(sp->number, number);
	assert_non_null(mapping_at(sp, place + 4096));
	told_later.image = true;
	assert_int_equal(spaces_read(s, self, pending, NULL, &sp), -EAGAIN);
	close(fd);
	munmap(place, 16384);
	free_spaces(s);
}

/*
 * A mapping goes, which no event tells, and another is replaced, which an event is still to tell: the
 * reading that finds the first must not keep the second from being told.
 */
static void a_reading_does_not_make_an_event_too_old(void **state)
{
	const char *path = compile("gone.so", "c", source, "-shared -fPIC");
	int fd = open(path, O_RDONLY);
	__u32 self = (__u32)getpid();
	struct spaces_range range;
	struct spaces *s = new_spaces();
	const struct space *sp;
	__u64 event_ns;
	char *place;

	place = mmap(NULL, 16384, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++)
		assert_true(mmap(place + i * 8192, 4096, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_FIXED, fd, 4096) == place + i * 8192);
	read_self(s);
	munmap(place, 4096);
	event_ns = monotonic_ns();
	assert_true(mmap(place + 8192, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
			 0) == place + 8192);
	range = (struct spaces_range){ (size_t)place + 8192, (size_t)place + 12288 };
	told_later = (struct spaces_pending){ .ranges = &range, .n_ranges = 1 };
	spaces_read(s, self, pending, NULL, &sp);
	told_later = (struct spaces_pending){ 0 };
	{
		const struct space *before = spaces_newest(s, self);
		struct rprof_mapping m = *mapping_at(before, place + 8192);

		modules_ref(m_all, m.module);
		assert_int_equal(spaces_map(s, self, event_ns, &m, 0), 0);
	}
	sp = spaces_at(s, self, monotonic_ns());
	assert_int_equal(space_file_offset(sp, mapping_at(sp, place + 8192), (size_t)place + 8192),
			 0);
	/* Nothing is to be told any more: now the reading counts. */
	assert_int_equal(spaces_read(s, self, pending, NULL, &sp), 0);
	assert_null(mapping_at(sp, place));
	assert_int_equal(space_file_offset(sp, mapping_at(sp, place + 8192), (size_t)place + 8192),
			 0);
	close(fd);
	munmap(place, 16384);
	free_spaces(s);
}

/* The parent's mappings were read after the fork, which is told after the reading. */
static void a_child_is_a_copy_of_what_its_parent_was_then(void **state)
{
	struct spaces *s = new_spaces();
	__u32 a = file_number(compile("a.so", "c", source, "-shared -fPIC"));

	assert_int_equal(spaces_exec(s, OURS, 10), 0);
	assert_int_equal(map_at(s, 11, 0x10000, 0x20000, a, 0), 0);
	assert_int_equal(spaces_exec(s, OURS, 30), 0);
	assert_int_equal(spaces_fork(s, CHILD, OURS, 20), 0);
	assert_non_null(space_mapping(spaces_at(s, CHILD, 20), 0x10000));
	assert_int_equal(spaces_fork(s, CHILD, OURS, 30), 0);
	assert_null(space_mapping(spaces_at(s, CHILD, 30), 0x10000));
	/* Of what the parent was so long ago nothing is known. */
	assert_int_equal(spaces_fork(s, CHILD, OURS, 9), 0);
	assert_null(spaces_newest(s, CHILD));
	free_spaces(s);
}

/* Against a page table: random mappings at random times, and what is at every page after each. */
static void random_events_are_as_a_page_table_says(void **state)
{
	enum { PAGES = 64, STEPS = 3000 };
	struct {
		bool exec;
		__u32 module;
		__u64 offset;
	} pages[PAGES] = { 0 };
	struct spaces *s = new_spaces();
	unsigned int seed = 11;
	__u32 files[3] = { 0 };

	files[1] = file_number(compile("a.so", "c", source, "-shared -fPIC"));
	files[2] = file_number(compile("b.so", "c", other, "-shared -fPIC"));
	assert_int_equal(spaces_exec(s, OURS, 1), 0);
	for (int step = 2; step < STEPS; step++) {
		int first = rand_r(&seed) % PAGES;
		int n = 1 + rand_r(&seed) % 6;
		__u32 module = files[rand_r(&seed) % 3];
		__u64 offset = (__u64)(rand_r(&seed) % 4) * 4096;

		if (first + n > PAGES)
			n = PAGES - first;
		assert_int_equal(map_at(s, (__u64)step, (__u64)(first + 16) * 4096,
					(__u64)(first + n + 16) * 4096, module, offset),
				 0);
		for (int i = 0; i < n; i++) {
			pages[first + i].exec = true;
			pages[first + i].module = module;
			pages[first + i].offset = offset + (__u64)i * 4096;
		}
		for (int i = 0; i < PAGES; i++) {
			__u64 addr = (__u64)(i + 16) * 4096 + 5;
			const struct rprof_mapping *m = at(s, (__u64)step, addr);

			assert_int_equal(m != NULL, pages[i].exec);
			if (!m)
				continue;
			assert_int_equal(m->module, pages[i].module);
			if (m->module)
				assert_int_equal(space_file_offset(spaces_newest(s, OURS), m, addr),
						 pages[i].offset + 5);
		}
	}
	spaces_end(s, OURS);
	free_spaces(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_tell_what_was_where_and_when),
		cmocka_unit_test(a_fork_is_a_copy_and_a_number_of_its_own),
		cmocka_unit_test(a_reading_does_not_tell_what_is_still_to_happen),
		cmocka_unit_test(a_reading_does_not_make_an_event_too_old),
		cmocka_unit_test(a_child_is_a_copy_of_what_its_parent_was_then),
		cmocka_unit_test(random_events_are_as_a_page_table_says),
	};

	return cmocka_run_group_tests_name("space_events", tests, NULL, NULL);
}
