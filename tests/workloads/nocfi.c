// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Hand-written code without unwind rules that uses the frame pointer register as a pointer, on s390x
 * the word of the back chain: main -> caller -> asm_loop. What it points to looks like a frame whose
 * return address is in never_called.
 */
#include "workload.h"

struct context {
	struct context *next;
#ifdef __s390x__
	void *other[13];
#endif
	void (*callback)(void);
};

volatile unsigned long count;

__attribute__((noinline)) void never_called(void)
{
	count += 2;
	__asm__ volatile("" ::: "memory");
}

void asm_loop(struct context *c);

#ifdef __s390x__
__asm__(".text\n"
	".globl asm_loop\n"
	".type asm_loop, @function\n"
	"asm_loop:\n"
	"	lay %r15, -160(%r15)\n"
	"	stg %r2, 0(%r15)\n"
	"	lgfi %r1, 3000000\n"
	"1:	brctg %r1, 1b\n"
	"	la %r15, 160(%r15)\n"
	"	br %r14\n"
	".size asm_loop, . - asm_loop\n");
#else
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
#endif

NODE void caller(void)
{
	struct context c = { .callback = (void (*)(void))((char *)never_called + 4) };

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
