/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A loop of cheap system calls: main -> ask_kernel, no libc in between. */
#include "workload.h"

#include <sys/syscall.h>

NODE long ask_kernel(void)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(SYS_getppid) : "rcx", "r11", "memory");
	return result;
}

int main(void)
{
	ready();
	for (;;) {
		ask_kernel();
		BARRIER();
	}
}
