/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A deep stack whose idle parents are taken out of memory again and again, as reclaim does, and come
 * back when somebody accesses them: BPF cannot read them. Two paths lead to equal frames, one after
 * the other; under_a() runs beneath path_a() alone, and under_b() beneath path_b().
 *
 * evicted [PAUSE_MS] [BURN]: pages are taken every PAUSE_MS, and BURN is how long a path is run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "workload.h"

#define PAGE 4096ul
#define SIZE (256 * PAGE)
#define STEPS 40 /* of more than 512 bytes each */
#define NEAR 10 /* of them stay where they are */

static unsigned char *stack, *copies;
static int uffd;
static volatile unsigned long burn_for = 30000000;

/* What may be taken lies between these; by the thread, while it holds the lock. */
static unsigned char *volatile lowest, *volatile highest;
static volatile bool locked;

static inline __attribute__((always_inline)) void lock(void)
{
	while (__atomic_exchange_n(&locked, true, __ATOMIC_ACQUIRE))
		burn(10);
}

static inline __attribute__((always_inline)) void unlock(void)
{
	__atomic_store_n(&locked, false, __ATOMIC_RELEASE);
}

NODE void under_a(void)
{
	burn(burn_for);
	BARRIER();
}

NODE void under_b(void)
{
	burn(burn_for + 1); /* compilers make one of equal functions */
	BARRIER();
}

NODE void leaf(bool a)
{
	unlock();
	if (a)
		under_a();
	else
		under_b();
	lock();
	BARRIER();
}

NODE void step(int n, bool a)
{
	volatile unsigned char room[512];

	room[n] = (unsigned char)n;
	if (n == STEPS - NEAR)
		lowest = __builtin_frame_address(0);
	if (n == STEPS)
		leaf(a);
	else
		step(n + 1, a);
	BARRIER();
	room[0] = room[n];
}

NODE void path_a(void)
{
	step(1, true);
	BARRIER();
}

NODE void path_b(void)
{
	step(1, false);
	BARRIER();
}

NODE void top(void)
{
	for (;;) {
		path_a();
		path_b();
		BARRIER();
	}
}

static void *run(void *arg)
{
	highest = __builtin_frame_address(0);
	top();
	return arg;
}

/* Whoever accesses a page that was taken waits for this. */
static void *give_back(void *arg)
{
	struct uffd_msg m;

	while (read(uffd, &m, sizeof(m)) == sizeof(m)) {
		unsigned char *page = (unsigned char *)(m.arg.pagefault.address & ~(PAGE - 1));
		struct uffdio_copy copy = {
			.dst = (uintptr_t)page,
			.src = (uintptr_t)(copies + (page - stack)),
			.len = PAGE,
		};

		ioctl(uffd, UFFDIO_COPY, &copy);
	}
	return arg;
}

static void watch_stack(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .range = { (uintptr_t)stack, SIZE },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &all)) {
		puts("no userfaultfd");
		exit(1);
	}
}

/* The thread is in leaf(): nothing above is in use. */
static void take_pages(void)
{
	unsigned char *page = (unsigned char *)(((uintptr_t)lowest + PAGE - 1) & ~(PAGE - 1));
	unsigned char *end = (unsigned char *)((uintptr_t)highest & ~(PAGE - 1));

	for (; page < end; page += PAGE) {
		memcpy(copies + (page - stack), page, PAGE);
		madvise(page, PAGE, MADV_DONTNEED);
	}
}

int main(int argc, char **argv)
{
	const long ms = argc > 1 ? atol(argv[1]) : 5;
	const struct timespec pause = { .tv_nsec = ms * 1000000 };
	pthread_t thread, helper;
	pthread_attr_t attr;

	if (argc > 2)
		burn_for = strtoul(argv[2], NULL, 0);
	stack = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	copies = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(stack, 0, SIZE);
	memset(copies, 0, SIZE);
	watch_stack();
	lock();
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, SIZE);
	pthread_create(&helper, NULL, give_back, NULL);
	pthread_create(&thread, &attr, run, NULL);
	ready();
	for (;;) {
		nanosleep(&pause, NULL);
		lock();
		take_pages();
		unlock();
	}
}
