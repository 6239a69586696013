// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Loads two libraries in turn, which mostly come to lie at the same address: swaploop LIBRARY
 * LIBRARY MS TIMES. Each time it runs the one for MS milliseconds of CPU time and unloads it. Says
 * "INDEX NS" for both, the CPU time in each, and how often they lay where the other had been.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "workload.h"

static long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void *run_library(const char *path, long ms, long *used)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*work)(void) = library ? (void (*)(void))dlsym(library, "work") : NULL;
	long start = cpu_ns();

	if (!work)
		exit(1);
	while (cpu_ns() - start < ms * 1000000) {
		work();
		BARRIER();
	}
	*used += cpu_ns() - start;
	dlclose(library);
	return (void *)work;
}

int main(int argc, char **argv)
{
	long used[2] = { 0, 0 }, same = 0;
	void *last = NULL;

	if (argc != 5)
		return 2;
	ready();
	for (int i = 0; i < atoi(argv[4]); i++) {
		void *at = run_library(argv[1 + i % 2], atol(argv[3]), &used[i % 2]);

		same += at == last;
		last = at;
	}
	printf("0 %ld\n1 %ld\nsame %ld\n", used[0], used[1], same);
	return 0;
}
