// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Shapes of stacks that are hard to walk, each with all of its callers known: tests/lib/shapes.py
 * has them. x86-64 and s390x.
 *   shapes MODE     MODE is also the name of the thread; until killed
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucontext.h>

#include "vdso.h"
#include "workload.h"

#define KEEP(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")
#define BIG (100 * 1024)
#define DEPTH 500
#define STACK_SIZE (256 * 1024)

/* So little that a good part of its time is entry and exit. */
NODE int tiny(int x)
{
	BARRIER();
	return x * 3 + 1;
}

/* ---- signals, altstack: handlers over leaves, prologues, one another */

NODE void victim_leaf(void)
{
	burn(3000);
}

NODE void victim(void)
{
	victim_leaf();
	burn(1000);
}

NODE int framed(int x)
{
	return tiny(x) + tiny(x + 1);
}

NODE int prologues(void)
{
	int x = 0;

	for (int i = 0; i < 4000; i++)
		x += framed(i);
	BARRIER();
	return x;
}

NODE void work(void)
{
	victim();
	prologues();
	BARRIER();
}

NODE void plain_leaf(void)
{
	burn(100000);
}

static void on_plain(int sig)
{
	plain_leaf();
	burn(20000);
}

NODE void info_leaf(void)
{
	burn(90000);
}

static void on_info(int sig, siginfo_t *info, void *context)
{
	info_leaf();
	BARRIER();
}

static void on_leaf(int sig)
{
	burn(100000);
}

/* Nanoseconds that 100,000 iterations take here: an emulated CPU is slow. */
static long handler_ns(void)
{
	struct timespec before, after;

	clock_gettime(CLOCK_MONOTONIC, &before);
	burn(100000);
	clock_gettime(CLOCK_MONOTONIC, &after);
	return after.tv_sec == before.tv_sec ? after.tv_nsec - before.tv_nsec : 100000000;
}

static timer_t timers[3];

static void start(timer_t *timer, int sig, struct sigaction action)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };

	if (sigaction(sig, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, timer))
		exit(1);
}

static void start_signals(int flags)
{
	struct sigaction plain = { .sa_handler = on_plain, .sa_flags = SA_RESTART | flags };
	struct sigaction leaf = { .sa_handler = on_leaf, .sa_flags = SA_RESTART | flags };
	struct sigaction info = { .sa_sigaction = on_info,
				  .sa_flags = SA_RESTART | SA_SIGINFO | flags };

	start(&timers[0], SIGALRM, plain);
	start(&timers[1], SIGRTMIN, info);
	start(&timers[2], SIGUSR2, leaf);
}

/* Each signal once more, at random within the time of three handlers: so that the rest goes on,
 * however little of a CPU there is. */
NODE void arm(long unit_ns)
{
	static unsigned int random = 1;

	for (int i = 0; i < 3; i++) {
		struct itimerspec once = { 0 };

		random = random * 1103515245 + 12345;
		once.it_value.tv_nsec = 1 + unit_ns / 1000 * (random / 65536 % 3000);
		timer_settime(timers[i], 0, &once, NULL);
	}
}

NODE void run_signals(void)
{
	long unit_ns = handler_ns();

	start_signals(0);
	for (;;) {
		arm(unit_ns);
		for (int i = 0; i < 10; i++)
			work();
		BARRIER();
	}
}

NODE void run_altstack(void)
{
	stack_t stack = { .ss_size = STACK_SIZE, .ss_sp = malloc(STACK_SIZE) };
	long unit_ns = handler_ns();

	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		exit(1);
	start_signals(SA_ONSTACK);
	for (;;) {
		arm(unit_ns);
		for (int i = 0; i < 10; i++)
			work();
		BARRIER();
	}
}

/* ---- vdso: its functions by pointer, without libc between */

NODE void clock_loop(int (*clock)(clockid_t, struct timespec *))
{
	struct timespec t;

	for (int i = 0; i < 2000; i++)
		clock(CLOCK_MONOTONIC, &t);
	BARRIER();
}

NODE void cpu_loop(int (*cpu)(unsigned int *, unsigned int *, void *))
{
	unsigned int number;

	for (int i = 0; i < 2000; i++)
		cpu(&number, NULL, NULL);
	BARRIER();
}

NODE void run_vdso(void)
{
	void *clock = vdso_symbol(VDSO_CLOCK_GETTIME), *cpu = vdso_symbol(VDSO_GETCPU);

	if (!clock || !cpu)
		exit(1);
	for (;;) {
		clock_loop(clock);
		cpu_loop(cpu);
		BARRIER();
	}
}

/* ---- libc: the same through it; it may be built in any way */

NODE void libc_loop(void)
{
	struct timespec t;

	for (int i = 0; i < 1000; i++)
		clock_gettime(CLOCK_MONOTONIC, &t);
	burn(20000);
	BARRIER();
}

NODE void run_libc(void)
{
	for (;;) {
		libc_loop();
		BARRIER();
	}
}

/* ---- threads: from clone() on; some live long, most do not */

NODE void thread_leaf(unsigned long n)
{
	burn(n);
}

NODE void thread_work(unsigned long n)
{
	thread_leaf(n);
	burn(n / 4);
	BARRIER();
}

static void *thread_main(void *arg)
{
	do {
		thread_work(50000);
		BARRIER();
	} while (arg);
	return NULL;
}

NODE void run_threads(void)
{
	pthread_t id;

	if (pthread_create(&id, NULL, thread_main, ""))
		exit(1);
	for (;;) {
		if (pthread_create(&id, NULL, thread_main, NULL) || pthread_join(id, NULL))
			exit(1);
		BARRIER();
	}
}

/* ---- alloca: frames that grow, by alloca() again and again, or by a VLA */

NODE void alloca_leaf(char *room, int size)
{
	room[0] = 1;
	burn(size);
	KEEP(room);
}

NODE int grow(int steps)
{
	for (int i = 1; i < steps; i++) {
		char *room = alloca(16 + i * 40 % 700);

		alloca_leaf(room, 300);
		KEEP(room);
	}
	return tiny(steps);
}

NODE void vla_leaf(char *room)
{
	burn(1000);
	KEEP(room);
}

NODE int vla(int size)
{
	char room[size];

	room[size - 1] = 1;
	vla_leaf(room);
	KEEP(room);
	return room[0];
}

/* Hardly more than the growing itself. */
NODE int vla_quick(int size)
{
	char room[size];

	KEEP(room);
	return tiny(size);
}

NODE void run_alloca(void)
{
	for (;;) {
		grow(40);
		for (int i = 1; i < 40; i++) {
			vla(i * 123);
			BARRIER();
		}
		for (int i = 1; i < 2000; i++)
			vla_quick(i * 11);
		BARRIER();
	}
}

/* ---- big: frames of 100 KB; with -fstack-clash-protection each page is touched first */

NODE void big_leaf(char *room)
{
	burn(20000);
	KEEP(room);
}

NODE void big(void)
{
	char room[BIG];

	KEEP(room);
	big_leaf(room);
	KEEP(room);
}

NODE int big_quick(int x)
{
	char room[BIG];

	KEEP(room);
	x = tiny(x);
	KEEP(room);
	return x;
}

/* A leaf with a big frame of its own. */
NODE int big_alone(int x)
{
	volatile char room[6000];

	room[x % sizeof(room)] = x;
	burn(5000);
	return room[x % sizeof(room)];
}

NODE void run_big(void)
{
	for (;;) {
		big();
		for (int i = 0; i < 500; i++)
			big_quick(i);
		big_alone(1);
		BARRIER();
	}
}

/* ---- tail: a function that jumped to the next is gone */

NODE void tail_leaf(void)
{
	burn(3000);
}

NODE unsigned long tail_c(unsigned long x)
{
	burn(5000);
	tail_leaf();
	BARRIER();
	return x + 1;
}

NODE unsigned long tail_b(unsigned long x)
{
	burn(5000);
	tail_leaf();
	return tail_c(x + 2);
}

NODE unsigned long tail_a(unsigned long x)
{
	tail_leaf();
	burn(5000);
	return tail_b(x + 3);
}

/* All of its time is on the way: what is left before the jump is an epilogue. */
NODE int hop(int x)
{
	tiny(x);
	BARRIER();
	return tiny(x + 1);
}

NODE void run_tail(void)
{
	unsigned long x = 0;

	for (;;) {
		x += tail_a(x);
		for (int i = 0; i < 1000; i++)
			hop(i);
		BARRIER();
	}
}

/* ---- coroutine: two contexts and main's, on stacks of their own */

static ucontext_t contexts[3];

NODE void co_yield (int from, int to)
{
	swapcontext(&contexts[from], &contexts[to]);
	BARRIER();
}

NODE void co_leaf(void)
{
	burn(5000);
}

NODE void co_work(int self)
{
	co_leaf();
	co_yield (self, (self + 1) % 3);
	burn(2000);
	BARRIER();
}

static void co_main(int self)
{
	for (;;) {
		co_work(self);
		BARRIER();
	}
}

NODE void run_coroutine(void)
{
	for (int i = 1; i < 3; i++) {
		getcontext(&contexts[i]);
		/* One in a mapping of its own, one within the heap. */
		contexts[i].uc_stack.ss_sp = i == 1 ? mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
							   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) :
						      malloc(STACK_SIZE / 4);
		contexts[i].uc_stack.ss_size = i == 1 ? STACK_SIZE : STACK_SIZE / 4;
		contexts[i].uc_link = NULL;
		memset(contexts[i].uc_stack.ss_sp, 0xee, contexts[i].uc_stack.ss_size);
		makecontext(&contexts[i], (void (*)(void))co_main, 1, i);
	}
	for (;;) {
		co_work(0);
		BARRIER();
	}
}

/* ---- longjmp: out of three frames */

static jmp_buf back;

NODE void jump_c(int x)
{
	burn(3000);
	longjmp(back, x);
}

NODE void jump_b(int x)
{
	burn(1000);
	jump_c(x);
	BARRIER();
}

NODE void jump_a(int x)
{
	burn(1000);
	jump_b(x);
	BARRIER();
}

NODE void run_longjmp(void)
{
	for (;;) {
		if (!setjmp(back))
			jump_a(1);
		tiny(1);
		BARRIER();
	}
}

/* ---- deep: 500 frames of one function */

NODE void deep_leaf(void)
{
	burn(200000);
}

NODE void deep(int n)
{
	if (n > 1)
		deep(n - 1);
	else
		deep_leaf();
	BARRIER();
}

NODE void run_deep(void)
{
	for (;;) {
		deep(DEPTH);
		BARRIER();
	}
}

static const struct mode {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "signals", run_signals }, { "altstack", run_altstack }, { "vdso", run_vdso },
	{ "libc", run_libc },	    { "threads", run_threads },	  { "alloca", run_alloca },
	{ "big", run_big },	    { "tail", run_tail },	  { "coroutine", run_coroutine },
	{ "longjmp", run_longjmp }, { "deep", run_deep },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(argv[1], modes[i].name) != 0)
			continue;
		prctl(PR_SET_NAME, argv[1]);
		ready();
		modes[i].run();
		BARRIER();
	}
	return 2;
}
