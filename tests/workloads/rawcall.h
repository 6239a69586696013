/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A system call without libc between: syscall(2), "Architecture calling conventions". */
#ifndef RAWCALL_H
#define RAWCALL_H

/* What the kernel returns: -errno for an error. */
static inline __attribute__((always_inline)) long raw_call(long number, long a, long b, long c,
							   long d, long e, long f)
{
#ifdef __s390x__
	register long r1 __asm__("r1") = number, r2 __asm__("r2") = a, r3 __asm__("r3") = b,
			 r4 __asm__("r4") = c, r5 __asm__("r5") = d, r6 __asm__("r6") = e,
			 r7 __asm__("r7") = f;

	__asm__ volatile("svc 0"
			 : "+d"(r2)
			 : "d"(r1), "d"(r3), "d"(r4), "d"(r5), "d"(r6), "d"(r7)
			 : "memory");
	return r2;
#else
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
	long result = number;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#endif
}

#endif
