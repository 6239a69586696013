// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loads a library, runs it, unloads it, and loads another one, which mostly comes to lie at the same
 * address: swap LIBRARY SECONDS LIBRARY SECONDS. Says at which addresses they ran.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "workload.h"

static void *run_library(const char *path, int seconds)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;
	time_t end = time(NULL) + seconds;

	if (!work)
		exit(1);
	while (time(NULL) < end) {
		work();
		BARRIER();
	}
	dlclose(library);
	return (void *)work;
}

int main(int argc, char **argv)
{
	void *first, *second;

	if (argc != 5)
		return 2;
	ready();
	first = run_library(argv[1], atoi(argv[2]));
	second = run_library(argv[3], atoi(argv[4]));
	printf("%s\n", first == second ? "same address" : "other address");
	return 0;
}
