// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * s390x: frames of -mpacked-stack -mbackchain -msoft-float, by hand, since no compiler makes them
 * for code with floating point: main -> packed_outer -> packed_mid -> packed_leaf. Registers are saved
 * below the chain, r14 at [sp + 136] and r15 at [sp + 144] of the caller, the back chain is at
 * [sp + 152]. main() has the standard frame.
 */
#include <sys/prctl.h>

#include "workload.h"

void packed_outer(void);
void packed_leaf(void);

#define FUNCTION(name) ".globl " name "\n.type " name ", @function\n" name ":\n	.cfi_startproc\n"
#define END(name) "	.cfi_endproc\n	.size " name ", . - " name "\n"
#define SAVE                                                                                       \
	"	stmg %r13, %r15, 128(%r15)\n"                                                      \
	"	.cfi_offset %r13, -32\n"                                                           \
	"	.cfi_offset %r14, -24\n"                                                           \
	"	.cfi_offset %r15, -16\n"                                                           \
	"	lgr %r1, %r15\n"                                                                   \
	"	aghi %r15, -48\n"                                                                  \
	"	.cfi_adjust_cfa_offset 48\n"                                                       \
	"	stg %r1, 152(%r15)\n"
#define RESTORE                                                                                    \
	"	lmg %r13, %r15, 128 + 48(%r15)\n"                                                  \
	"	.cfi_def_cfa_offset 160\n"                                                         \
	"	.cfi_restore %r13\n"                                                               \
	"	.cfi_restore %r14\n"                                                               \
	"	.cfi_restore %r15\n"                                                               \
	"	br %r14\n"
#define SPIN(count)                                                                                \
	"	lgfi %r2, " count "\n"                                                             \
	"1:	msgfi %r3, 0x2545f491\n"                                                           \
	"	brctg %r2, 1b\n"

__asm__(".text\n" FUNCTION("packed_leaf") SPIN("20000") "	br %r14\n" END("packed_leaf"));
__asm__(FUNCTION("packed_mid") SAVE "	brasl %r14, packed_leaf\n" SPIN("20000")
		RESTORE END("packed_mid"));
__asm__(FUNCTION("packed_outer") SAVE "	brasl %r14, packed_mid\n" SPIN("10000")
		RESTORE END("packed_outer"));

int main(void)
{
	prctl(PR_SET_NAME, "packed");
	ready();
	for (;;) {
		packed_outer();
		BARRIER();
	}
}
