/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One busy thread in user space: main -> spin, for ever. */
#include "workload.h"

NODE void spin(void)
{
	burn(1000000);
}

int main(void)
{
	ready();
	for (;;) {
		spin();
		BARRIER();
	}
}
