// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Changes its mappings all the time: mapstorm FILE PER_SECOND maps the file's first page to be
 * executed and unmaps it again. Says how often it did, when it gets SIGTERM.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "workload.h"

static volatile sig_atomic_t ended;

static void on_term(int sig)
{
	ended = 1;
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

int main(int argc, char **argv)
{
	long times = 0, start, per_second;
	int fd;

	if (argc != 3)
		return 2;
	fd = open(argv[1], O_RDONLY);
	per_second = atol(argv[2]);
	signal(SIGTERM, on_term);
	ready();
	for (start = now_ns(); !ended; times++) {
		void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

		if (at == MAP_FAILED)
			return 1;
		munmap(at, 4096);
		while (!ended && times * 1000000000L / per_second > now_ns() - start)
			;
	}
	printf("changes %ld\n", times);
	return 0;
}
