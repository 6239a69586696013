/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* comm NAME: calls itself NAME (raw bytes, 15 at most) and burns in main -> spin. */
#include "workload.h"

#include <sys/prctl.h>

NODE void spin(void)
{
	burn(1000000);
}

int main(int argc, char **argv)
{
	if (argc != 2 || prctl(PR_SET_NAME, argv[1]))
		return 2;
	ready();
	for (;;) {
		spin();
		BARRIER();
	}
}
