/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A loop of cheap system calls: main -> ask_kernel, no libc in between. */
#include "rawcall.h"
#include "workload.h"

#include <sys/syscall.h>

NODE long ask_kernel(void)
{
	return raw_call(SYS_getppid, 0, 0, 0, 0, 0, 0);
}

int main(void)
{
	ready();
	for (;;) {
		ask_kernel();
		BARRIER();
	}
}
