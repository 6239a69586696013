/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* loader LIBRARY MS: MS milliseconds after "ready" it loads LIBRARY and burns in its lib_spin. */
#include "workload.h"

#include <dlfcn.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void (*lib_spin)(void);
	void *library;

	if (argc != 3)
		return 2;
	ready();
	usleep(atoi(argv[2]) * 1000);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		return 1;
	lib_spin = (void (*)(void))dlsym(library, "lib_spin");
	for (;;) {
		lib_spin();
		BARRIER();
	}
}
