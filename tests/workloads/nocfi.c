// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hand-written code without unwind rules that uses the frame pointer register as a pointer: main ->
 * caller -> asm_loop. What the register points to looks like a frame whose return address is in
 * never_called.
 */
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

void asm_loop(struct context *c);

__asm__(".text\n"
	".globl asm_loop\n"
	".type asm_loop, @function\n"
	"asm_loop:\n"
	"	push %rbp\n"
	"	mov %rdi, %rbp\n"
	"	mov $3000000, %ecx\n"
	"1:	dec %ecx\n"
	"	jnz 1b\n"
	"	pop %rbp\n"
	"	ret\n"
	".size asm_loop, . - asm_loop\n");

NODE void caller(void)
{
	struct context c = { 0, (void (*)(void))((char *)never_called + 4) };

	asm_loop(&c);
	BARRIER();
}

int main(void)
{
	ready();
	for (;;) {
		caller();
		BARRIER();
	}
}
