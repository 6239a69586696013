// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Symbols as assembly and linkers make them: a function without a size, a label that is no
 * function, several names at one address, an IFUNC. main -> each of them in turn, which burns.
 */
#include "workload.h"

#ifdef __s390x__
#define BURN                                                                                       \
	"	lgfi %r1, 300000\n"                                                                \
	"1:	brctg %r1, 1b\n"                                                                   \
	"	br %r14\n"
#else
#define BURN                                                                                       \
	"	push %rbp\n"                                                                       \
	"	.cfi_adjust_cfa_offset 8\n"                                                        \
	"	.cfi_rel_offset %rbp, 0\n"                                                         \
	"	mov %rsp, %rbp\n"                                                                  \
	"	.cfi_def_cfa_register %rbp\n"                                                      \
	"	mov $300000, %ecx\n"                                                               \
	"1:	dec %ecx\n"                                                                        \
	"	jnz 1b\n"                                                                          \
	"	pop %rbp\n"                                                                        \
	"	.cfi_def_cfa %rsp, 8\n"                                                            \
	"	ret\n"
#endif
#define BURNER(name, section, type)                                                                \
	__asm__("	.pushsection " section ", \"ax\"\n" type "	.p2align 4\n" #name ":\n"        \
		"	.cfi_startproc\n" BURN "	.cfi_endproc\n"                            \
		"	.popsection")

BURNER(asm_unsized, ".text", ".type asm_unsized, @function\n");
/* Apart, so that it is not within the function before it, which ends nowhere. */
BURNER(asm_label, ".text.unlikely", "");

extern void asm_unsized(void) __attribute__((visibility("hidden")));
extern void asm_label(void) __attribute__((visibility("hidden")));

/* Global before weak before local, the shorter first. */
__attribute__((noinline, noclone)) void much_longer_name(void)
{
	burn(100000);
}

void global_name(void) __attribute__((alias("much_longer_name")));
void weak(void) __attribute__((weak, alias("much_longer_name")));
static void loc(void) __attribute__((alias("much_longer_name"), used));

__attribute__((noinline, noclone)) static void fast_work(void)
{
	burn(100000);
}

static void (*pick_work(void))(void)
{
	return fast_work;
}

void work(void) __attribute__((ifunc("pick_work")));

int main(void)
{
	ready();
	for (;;) {
		asm_unsized();
		BARRIER();
		asm_label();
		BARRIER();
		much_longer_name();
		BARRIER();
		work();
		BARRIER();
	}
}
