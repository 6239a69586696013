// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Code that is in no file, as a JIT makes it: main -> a function in anonymous memory, which burns.
 * Says "ready PID ADDRESS", the address in hexadecimal.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "workload.h"

int main(void)
{
	/* push %rbp; mov %rsp,%rbp; mov $1000000,%ecx; 1: dec %ecx; jnz 1b; pop %rbp; ret */
	static const unsigned char code[] = { 0x55, 0x48, 0x89, 0xe5, 0xb9, 0x40, 0x42, 0x0f,
					      0x00, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3 };
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

	if (at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	printf("ready %d %lx\n", getpid(), (unsigned long)at);
	fflush(stdout);
	for (;;) {
		((void (*)(void))at)();
		BARRIER();
	}
}
