// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two programs that execute each other, built -no-pie so that their functions lie at the same
 * addresses: execchain TIMES OTHER; -DNAME=... is the function that this one burns in.
 */
#include <stdlib.h>

#include "workload.h"

NODE void NAME(void)
{
	burn(4000000);
}

int main(int argc, char **argv)
{
	char times[16];
	int n;

	if (argc != 3)
		return 2;
	n = atoi(argv[1]);
	NAME();
	BARRIER();
	if (n <= 0)
		return 0;
	snprintf(times, sizeof(times), "%d", n - 1);
	execl(argv[2], argv[2], times, argv[0], NULL);
	return 1;
}
