// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Threads whose stacks are broken on purpose, one for each way, named after it; they spin.
 * x86-64 and s390x; tests/lib/badstack.py says what may be printed.
 *
 *   link WAY   thread_main -> bend -> spin: bend() overwrites the link of its own frame, so that
 *              spin and bend are true, and what the bad link leads to is not
 *   sp WAY     thread_main -> move_sp: assembly that has moved the stack pointer itself
 *
 * What the bad links lead to looks like a frame of never_called.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "workload.h"

#define STACK_SIZE (256 * 1024)
#define DECOY_WORDS 64

volatile unsigned long count;

__attribute__((noinline)) void never_called(void)
{
	count += 2;
	__asm__ volatile("" ::: "memory");
}

/* On a stack of its own, where another thread waits: what a walker must not wander into. */
static uintptr_t other_frame;

/* The word that links a frame to its caller's: [rbp]; [r15]. */
#ifdef __s390x__
static inline __attribute__((always_inline)) uintptr_t *link_word(void)
{
	uintptr_t *sp;

	__asm__ volatile("lgr %0, %%r15" : "=r"(sp));
	return sp;
}
#else
#define link_word() ((uintptr_t *)__builtin_frame_address(0))
#endif

NODE void spin(void)
{
	for (;;) {
		burn(1000000);
		BARRIER();
	}
}

NODE void bend(uintptr_t (*bad)(uintptr_t own, uintptr_t good))
{
	volatile uintptr_t *link = link_word();

	*link = bad((uintptr_t)link, *link);
	spin();
	BARRIER();
	*link = 0;
}

/* Frames as a walker would have them, of both architectures at once, in memory that is no stack. */
static uintptr_t decoy(uintptr_t next)
{
	uintptr_t *words =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < DECOY_WORDS; i++)
		words[i] = (uintptr_t)never_called + 8;
	words[0] = next ? next : (uintptr_t)words;
	return (uintptr_t)words;
}

static uintptr_t to_itself(uintptr_t own, uintptr_t good)
{
	return own;
}

static uintptr_t down(uintptr_t own, uintptr_t good)
{
	return own - 64;
}

static uintptr_t odd(uintptr_t own, uintptr_t good)
{
	return good + 1;
}

static uintptr_t misaligned(uintptr_t own, uintptr_t good)
{
	return good + 4;
}

static uintptr_t into_the_kernel(uintptr_t own, uintptr_t good)
{
	return 0xffff888000000000UL;
}

static uintptr_t to_the_top(uintptr_t own, uintptr_t good)
{
	return ~7UL;
}

static uintptr_t to_nowhere(uintptr_t own, uintptr_t good)
{
	return 0x1000;
}

static uintptr_t null(uintptr_t own, uintptr_t good)
{
	return 0;
}

static uintptr_t to_another_stack(uintptr_t own, uintptr_t good)
{
	return other_frame;
}

static uintptr_t to_a_decoy(uintptr_t own, uintptr_t good)
{
	return decoy(0);
}

static uintptr_t to_code(uintptr_t own, uintptr_t good)
{
	return (uintptr_t)never_called & ~7UL;
}

/* The last words of the stack's mapping: what a frame there would need lies beyond it. */
static uintptr_t to_the_end(uintptr_t own, uintptr_t good)
{
	pthread_attr_t attributes;
	size_t size;
	void *stack;

	if (pthread_getattr_np(pthread_self(), &attributes) ||
	    pthread_attr_getstack(&attributes, &stack, &size))
		exit(1);
	return (uintptr_t)stack + size - 8;
}

/*
 * Moves the stack pointer to @sp and never comes back. Its CFI lies on purpose: it says that the
 * frame is as at entry, or up, so that the walker is put to the words at @sp.
 */
void move_sp(uintptr_t sp, uintptr_t fp);
void move_sp_unruled(uintptr_t sp, uintptr_t fp);
#ifdef __s390x__
#define MOVE                                                                                       \
	"	lgr %r15, %r2\n	lgr %r11, %r3\n1:	msgfi %r4, 3\n	brct %r5, 1b\n	j 1b\n	stg %r0, 0(%r15)\n"
#define UP "	.cfi_def_cfa_offset 320\n	.cfi_offset %r14, -48\n"
#else
#define MOVE "	mov %rdi, %rsp\n	mov %rsi, %rbp\n1:	imul $3, %rax, %rax\n	jmp 1b\n"
#define UP "	.cfi_def_cfa %rbp, 16\n	.cfi_offset %rbp, -16\n"
#endif
__asm__(".text\n"
	".globl move_sp, move_sp_unruled\n"
	".type move_sp, @function\n"
	"move_sp:\n"
	"	.cfi_startproc\n" UP MOVE "	.cfi_endproc\n"
	".size move_sp, . - move_sp\n"
	".type move_sp_unruled, @function\n"
	"move_sp_unruled:\n" MOVE ".size move_sp_unruled, . - move_sp_unruled\n");

enum kind { LINK, SP_RULED, SP_UNRULED };

static const struct way {
	const char *name;	/* at most 15 characters */
	enum kind kind;
	uintptr_t (*bad)(uintptr_t own, uintptr_t good);
} ways[] = {
	{ "link itself", LINK, to_itself },
	{ "link down", LINK, down },
	{ "link odd", LINK, odd },
	{ "link misaligned", LINK, misaligned },
	{ "link kernel", LINK, into_the_kernel },
	{ "link top", LINK, to_the_top },
	{ "link nowhere", LINK, to_nowhere },
	{ "link other", LINK, to_another_stack },
	{ "link decoy", LINK, to_a_decoy },
	{ "link code", LINK, to_code },
	{ "link end", LINK, to_the_end },
	{ "sp nowhere", SP_RULED, to_nowhere },
	{ "sp odd", SP_RULED, odd },
	{ "sp kernel", SP_RULED, into_the_kernel },
	{ "sp top", SP_RULED, to_the_top },
	{ "sp code", SP_RULED, to_code },
	{ "sp null", SP_UNRULED, null },
	{ "sp other", SP_UNRULED, to_another_stack },
	{ "sp decoy", SP_UNRULED, to_a_decoy },
};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static void *thread_main(void *arg)
{
	const struct way *way = arg;
	uintptr_t sp;

	prctl(PR_SET_NAME, way->name);
	if (way->kind == LINK)
		bend(way->bad);
	sp = way->bad(0, (uintptr_t)link_word());
	if (way->kind == SP_RULED)
		move_sp(sp, sp);
	move_sp_unruled(sp, sp);
	return NULL;
}

NODE void wait_here(pthread_barrier_t *others)
{
	other_frame = (uintptr_t)link_word();
	pthread_barrier_wait(others);
	for (;;)
		pause();
}

static void *bystander(void *arg)
{
	wait_here(arg);
	return NULL;
}

/* A signal would need the stack. */
static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
}

int main(void)
{
	pthread_barrier_t others;
	pthread_t id;

	block_signals();
	pthread_barrier_init(&others, NULL, 2);
	if (pthread_create(&id, NULL, bystander, &others))
		return 1;
	pthread_barrier_wait(&others);
	for (size_t i = 0; i < N_WAYS; i++)
		if (pthread_create(&id, NULL, thread_main, (void *)&ways[i]))
			return 1;
	ready();
	for (;;)
		pause();
}
