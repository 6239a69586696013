/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process that uses no CPU time at all once it is ready. */
#include "workload.h"

int main(void)
{
	ready();
	for (;;)
		pause();
}
