// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "python_memory.h"

#define PAGE 4096u
#define MIB (1u << 20)
#define N 100

static __u8 here[3 * MIB], there[3 * MIB];

/* A copy of us that waits, and is ended with us. */
static pid_t spawn(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int setup(void **state)
{
	for (size_t i = 0; i < sizeof(there); i++)
		there[i] = (__u8)(i * 2654435761u >> 13);
	memset(here, 0, sizeof(here));
	return 0;
}

static struct python_range range(size_t at, size_t len)
{
	return (struct python_range){ (uintptr_t)(there + at), here + at, len };
}

static bool reads_one(pid_t pid)
{
	const struct python_memory m = python_memory_of((__u32)pid);
	__u64 word = 0;

	return python_read(&m, (uintptr_t)there, &word, sizeof(word)) &&
	       !memcmp(&word, there, sizeof(word));
}

static void every_range_is_read(void **state)
{
	const pid_t pid = spawn();
	const struct python_memory m = python_memory_of((__u32)pid);
	struct python_range ranges[N];

	for (size_t i = 0; i < N; i++)
		ranges[i] = range(1000 * i, 1 + 7 * i);
	ranges[5].len = 0;
	assert_int_equal(m.read(m.ctx, ranges, N), N);
	for (size_t i = 0; i < N; i++)
		assert_memory_equal(ranges[i].to, there + 1000 * i, ranges[i].len);
	/* And nothing beside them. */
	for (size_t i = 1; i < N; i++)
		assert_int_equal(here[1000 * i - 1], 0);
	assert_int_equal(m.read(m.ctx, ranges, 0), 0);
	end(pid);
}

static void what_comes_before_a_hole_is_kept(void **state)
{
	static const size_t holes[] = { 0, 1, 31, 32, 33, 99 };
	const pid_t pid = spawn();
	const struct python_memory m = python_memory_of((__u32)pid);
	struct python_range ranges[N];

	for (size_t i = 0; i < sizeof(holes) / sizeof(*holes); i++) {
		for (size_t j = 0; j < N; j++)
			ranges[j] = range(8 * j, 8);
		ranges[holes[i]].addr = 8;
		memset(here, 0, sizeof(here));
		assert_int_equal(m.read(m.ctx, ranges, N), holes[i]);
		assert_memory_equal(here, there, 8 * holes[i]);
		assert_int_equal(here[8 * holes[i]], 0);
	}
	end(pid);
}

static void much_is_read_in_parts(void **state)
{
	const pid_t pid = spawn();
	const struct python_memory m = python_memory_of((__u32)pid);
	const struct python_range ranges[] = { range(0, MIB), range(MIB, MIB),
					       range(2 * MIB, MIB) };
	const struct python_range all = range(0, 3 * MIB);

	/* Nobody wants so much at once. */
	assert_int_equal(m.read(m.ctx, &all, 1), 0);
	assert_int_equal(m.read(m.ctx, ranges, 3), 3);
	assert_memory_equal(here, there, sizeof(here));
	end(pid);
}

static void process_that_has_ended_is_not_read(void **state)
{
	const pid_t pid = spawn();

	assert_true(reads_one(pid));
	end(pid);
	assert_false(reads_one(pid));
	assert_false(reads_one(0));
	assert_false(reads_one(-1));
}

/* The process that reads for us: our only child here. 0: none. */
static pid_t reader_pid(void)
{
	char path[64];
	int pid = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%d", &pid) != 1)
		pid = 0;
	fclose(f);
	return pid;
}

static void reader_that_dies_is_replaced(void **state)
{
	pid_t first = reader_pid(), pid;

	if (!first) {
		print_message("[  SKIPPED ] no list of children (CONFIG_PROC_CHILDREN)\n");
		skip();
	}
	kill(first, SIGKILL);
	pid = spawn();
	/* Whether it is noticed before or in the middle. */
	if (!reads_one(pid))
		assert_true(reads_one(pid));
	end(pid);
	assert_int_not_equal(reader_pid(), first);
}

/* Answers to faults of @fd, each after @delay us; 0: to none. */
static void __attribute__((noreturn)) answer(int fd, useconds_t delay)
{
	struct uffd_msg msg;

	while (delay && read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
		struct uffdio_zeropage zero = {
			.range = { msg.arg.pagefault.address & ~(__u64)(PAGE - 1), PAGE },
		};

		usleep(delay);
		ioctl(fd, UFFDIO_ZEROPAGE, &zero);
	}
	for (;;)
		pause();
}

/* A copy of us that holds up who reads @n pages at @pages. Return: 0: that is not possible here. */
static pid_t spawn_with_faults(void *pages, size_t n, useconds_t delay)
{
	struct uffdio_register of = { .range = { (uintptr_t)pages, n * PAGE },
				      .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	int ready[2], fd;
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ready[0]);
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
		if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &of) ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		answer(fd, delay);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid;
}

static void *make_pages(size_t n)
{
	void *pages = mmap(NULL, n * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	return pages;
}

static void skip_without_faults(void)
{
	print_message("[  SKIPPED ] no userfaultfd for faults of others here\n");
	skip();
}

static void process_that_answers_slowly_is_left(void **state)
{
	__u8 *pages = make_pages(N);
	const pid_t pid = spawn_with_faults(pages, N, 60000);
	const struct python_memory m = python_memory_of((__u32)pid);
	size_t n = 0;

	if (!pid)
		skip_without_faults();
	while (n < N && python_read(&m, (uintptr_t)(pages + n * PAGE), here, 8))
		n++;
	print_message("%zu pages were read\n", n);
	assert_true(n < N / 2);
	/* Not even what it would give at once. */
	assert_false(reads_one(pid));
	end(pid);
	munmap(pages, N * PAGE);
}

/* The last one: one was left before, and when there are four no process is read any more. */
static void processes_that_do_not_answer_are_left(void **state)
{
	void *page = make_pages(1);
	const pid_t good = spawn();

	for (int i = 0; i < 3; i++) {
		const pid_t pid = spawn_with_faults(page, 1, 0);
		const struct python_memory m = python_memory_of((__u32)pid);
		struct python_range ranges[] = { range(8, 8), { (uintptr_t)page, here + 16, 8 } };

		if (!pid) {
			end(good);
			skip_without_faults();
		}
		assert_true(reads_one(good));
		assert_true(reads_one(pid));
		assert_int_equal(m.read(m.ctx, ranges, 2), 0);
		assert_false(reads_one(pid));
		end(pid);
	}
	assert_false(reads_one(good));
	end(good);
	munmap(page, PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_range_is_read, setup),
		cmocka_unit_test_setup(what_comes_before_a_hole_is_kept, setup),
		cmocka_unit_test_setup(much_is_read_in_parts, setup),
		cmocka_unit_test_setup(process_that_has_ended_is_not_read, setup),
		cmocka_unit_test_setup(reader_that_dies_is_replaced, setup),
		cmocka_unit_test_setup(process_that_answers_slowly_is_left, setup),
		cmocka_unit_test_setup(processes_that_do_not_answer_are_left, setup),
	};

	return cmocka_run_group_tests_name("process_memory", tests, NULL, NULL);
}
