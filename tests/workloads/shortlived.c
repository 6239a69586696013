/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* shortlived MS [STATUS]: burns MS milliseconds of CPU time in main -> spin, then exits. */
#include "workload.h"

#include <stdlib.h>
#include <time.h>

NODE void spin(void)
{
	burn(200000);
}

int main(int argc, char **argv)
{
	/* From here: exec and the loader are somebody else's time. */
	clock_t end = clock() + (argc > 1 ? atol(argv[1]) : 300) * (CLOCKS_PER_SEC / 1000);

	ready();
	while (clock() < end) {
		spin();
		BARRIER();
	}
	printf("done\n");
	return argc > 2 ? atoi(argv[2]) : 0;
}
