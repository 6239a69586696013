// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* twice LIBRARY COPY: has LIBRARY mapped twice and a copy of it once, and burns in all of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "workload.h"

static void (*spin_of(void *library))(void)
{
	void (*spin)(void) = library ? (void (*)(void))dlsym(library, "lib_spin") : NULL;

	if (!spin)
		exit(1);
	return spin;
}

int main(int argc, char **argv)
{
	void (*spins[3])(void);

	if (argc != 3)
		return 2;
	spins[0] = spin_of(dlopen(argv[1], RTLD_NOW));
	spins[1] = spin_of(dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW));
	spins[2] = spin_of(dlopen(argv[2], RTLD_NOW));
	if (spins[0] == spins[1] || spins[0] == spins[2])
		return 1;
	ready();
	for (;;) {
		for (int i = 0; i < 3; i++) {
			spins[i]();
			BARRIER();
		}
	}
}
