// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Looks like an interpreter, and whoever reads its runtime waits for FILE: turnstile FILE. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#define PAGE 4096

__attribute__((aligned(PAGE))) char _PyRuntime[16 * PAGE] = { 1 };
long PyCode_Type[64] = { 1 };
unsigned long Py_Version = 0x030f00f0;

int PyEval_EvalFrameEx(void)
{
	return 0;
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (fd < 0 ||
	    mmap(_PyRuntime, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
		perror("turnstile");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	for (volatile unsigned long i = 0;; i++)
		;
}
