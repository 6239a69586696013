// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A process that starts others: family MS PROGRAM. A child by fork, one that executes PROGRAM with
 * the argument MS, a grandchild, and a daemon, whose parents end before it and which outlives all.
 * Each burns in a function of its own name for MS milliseconds of CPU time, the daemon three times
 * as long.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "workload.h"

static long ms;

static long cpu_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Not quite equal, or the compiler makes one function of them. */
#define MEMBER(name, times, id)                                                                        \
	NODE void name(void)                                                                       \
	{                                                                                          \
		for (long start = cpu_ms(); cpu_ms() - start < ms * (times);)                      \
			burn(300000 + (id));                                                       \
	}

MEMBER(in_parent, 1, 0)
MEMBER(in_child, 1, 1)
MEMBER(in_grandchild, 1, 2)
MEMBER(in_daemon, 3, 3)

static void grow(void (*work)(void), void (*below)(void))
{
	if (fork())
		return;
	if (below)
		grow(below, NULL);
	work();
	while (wait(NULL) > 0)
		;
	_exit(0);
}

static void start_daemon(void)
{
	if (fork())
		return;
	setsid();
	if (fork())
		_exit(0);
	/* Who started us waits for nobody who holds its output. */
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	in_daemon();
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	ms = atol(argv[1]);
	ready();
	/* So that a profiler that is given our number is there. */
	sleep(1);
	start_daemon();
	grow(in_child, in_grandchild);
	if (!fork()) {
		execl(argv[2], argv[2], argv[1], NULL);
		_exit(1);
	}
	in_parent();
	BARRIER();
	while (wait(NULL) > 0)
		;
	return 7;
}
