// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * hold LIBRARY FILE...: has the library loaded and the files mapped to be executed, and burns in the
 * library (swaplib.c).
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "workload.h"

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;

	if (!work)
		return 2;
	for (int i = 2; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY);

		if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			return 1;
	}
	ready();
	for (;;) {
		work();
		BARRIER();
	}
}
