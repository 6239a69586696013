// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Runs in a container: guest LIBRARY burns in that library (swaplib.c) and in memfrob() of libc,
 * one of the few functions that is a plain loop and exported under its own name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "workload.h"

int main(int argc, char **argv)
{
	static char buffer[100000];
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;

	if (!work)
		return 2;
	ready();
	for (;;) {
		work();
		BARRIER();
		for (int i = 0; i < 10; i++)
			memfrob(buffer, sizeof(buffer));
	}
}
