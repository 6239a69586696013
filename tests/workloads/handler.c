// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A signal handler over code that uses the frame pointer register as a pointer: main -> victim,
 * interrupted, then handler -> spin_in_handler. What the register points to looks like a frame whose
 * return address is in never_called.
 */
#include <signal.h>
#include <sys/time.h>

#include "workload.h"

struct context {
	struct context *next;
	void (*callback)(void);
};

volatile unsigned long count;

__attribute__((noinline)) void never_called(void)
{
	count += 2;
	__asm__ volatile("nop; nop; nop; nop");
}

NODE void spin_in_handler(void)
{
	burn(1000000);
}

NODE void handler(int sig)
{
	spin_in_handler();
	BARRIER();
}

/* As code does that is built with -fomit-frame-pointer. */
__attribute__((noinline, optimize("omit-frame-pointer"))) static void victim(struct context *c)
{
	__asm__ volatile("push %%rbp\n"
			 "	.cfi_adjust_cfa_offset 8\n"
			 "	.cfi_rel_offset %%rbp, 0\n"
			 "	mov %0, %%rbp\n"
			 "	mov $40000000, %%ecx\n"
			 "1:	dec %%ecx\n"
			 "	jnz 1b\n"
			 "	pop %%rbp\n"
			 "	.cfi_adjust_cfa_offset -8\n"
			 "	.cfi_restore %%rbp"
			 :
			 : "D"(c)
			 : "rcx", "memory");
}

int main(void)
{
	const struct itimerval t = { { 0, 5000 }, { 0, 5000 } };

	struct context c = { 0, (void (*)(void))((char *)never_called + 4) };

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &t, NULL);
	ready();
	for (;;) {
		victim(&c);
		BARRIER();
	}
}
