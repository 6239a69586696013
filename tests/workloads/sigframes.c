// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Code that is interrupted by signals at any instruction, prologues and leaves too, and handlers that
 * interrupt one another. Each function has one caller; handlers have whatever they interrupt.
 *   sigframes [altstack] [bare]
 * altstack: handlers run on a stack of their own; bare: return through a trampoline without CFI.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "workload.h"

NODE void leaf(void)
{
	burn(3000);
}

NODE void victim_a(void)
{
	leaf();
	burn(1000);
}

/* So little that a good part of its time is entry and exit. */
NODE int tiny(int x)
{
	volatile int y = x;

	return y + 1;
}

NODE void victim_b(void)
{
	for (int i = 0; i < 500; i++)
		tiny(i);
	BARRIER();
}

NODE void work(void)
{
	victim_a();
	victim_b();
	BARRIER();
}

NODE void alarm_leaf(void)
{
	burn(100000);
}

NODE void on_alarm(int sig)
{
	alarm_leaf();
	burn(20000);
}

NODE void rt_leaf(void)
{
	burn(90000);
}

NODE void on_rt(int sig)
{
	rt_leaf();
	BARRIER();
}

/* A leaf without a frame, as -fomit-frame-pointer makes it. */
#ifdef __clang__
#define OMIT
#else
#define OMIT __attribute__((optimize("omit-frame-pointer")))
#endif
OMIT NODE void on_bare(int sig)
{
	burn(100000);
}

__asm__("	.text\n"
	"	.type restore_bare, @function\n"
	"restore_bare:\n"
	"	nop\n"
	"restore_bare_code:\n"
	"	mov $15, %eax\n"
	"	syscall\n"
	"	.size restore_bare, . - restore_bare\n");
extern const char restore_bare_code[];

/* What the kernel takes, include/uapi/asm/signal.h: glibc's has its own restorer. */
struct kernel_sigaction {
	void (*handler)(int);
	unsigned long flags;
	const void *restorer;
	unsigned long mask;
};

#define FLAG_RESTORER 0x04000000ul

static void handle(int sig, void (*handler)(int), int flags, int bare)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART | flags };
	struct kernel_sigaction own = { handler, SA_RESTART | flags | FLAG_RESTORER,
					restore_bare_code, 0 };

	if (bare ? syscall(SYS_rt_sigaction, sig, &own, NULL, 8) : sigaction(sig, &action, NULL))
		exit(1);
}

/* @handler every @us microseconds. */
static void start(int sig, void (*handler)(int), long us, int flags, int bare)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig };
	struct itimerspec every = { { 0, us * 1000 }, { 0, us * 1000 } };
	timer_t timer;

	handle(sig, handler, flags, bare);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL))
		exit(1);
}

int main(int argc, char **argv)
{
	stack_t stack = { .ss_size = 1 << 16 };
	int flags = 0, bare = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "altstack"))
			flags = SA_ONSTACK;
		if (!strcmp(argv[i], "bare"))
			bare = 1;
	}
	stack.ss_sp = malloc(stack.ss_size);
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		return 1;
	start(SIGALRM, on_alarm, 1000, flags, bare);
	start(SIGRTMIN, on_rt, 1300, flags, bare);
	start(SIGUSR2, on_bare, 1700, flags, bare);
	ready();
	for (;;) {
		work();
		BARRIER();
	}
}
