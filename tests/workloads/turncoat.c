// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Burns for some time under the name given by -DNAME, then becomes another program: turncoat MS
 * [NEXT MS]... Each says "NAME NS", the CPU time that it used, when it is done.
 */
#include <stdlib.h>
#include <time.h>

#include "workload.h"

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* Of the process: an exec does not set it back. */
static long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

NODE void NAME(void)
{
	burn(300000);
}

int main(int argc, char **argv)
{
	long start = cpu_ns();

	if (argc < 2)
		return 2;
	if (argc % 2)
		return 2;
	/* The first of them; how long it took to get here says nothing on a slow machine. */
	if (!getenv("TURNCOAT")) {
		setenv("TURNCOAT", "1", 1);
		ready();
	}
	while (cpu_ns() - start < atol(argv[1]) * 1000000L) {
		NAME();
		BARRIER();
	}
	printf("%s %ld\n", TEXT(NAME), cpu_ns() - start);
	fflush(stdout);
	if (argc == 2)
		return 0;
	/* The next one's arguments: its own name and what follows. */
	execv(argv[2], argv + 2);
	return 1;
}
