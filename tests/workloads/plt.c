// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Calls a function of a library that does nothing, so that much of the time is spent in the stub
 * between the two: main -> tiny@plt -> tiny. Built with -DLIBRARY it is the library.
 */
#include "workload.h"

void tiny(void);

#ifdef LIBRARY
void tiny(void)
{
}
#else
void (*volatile address)(void);

int main(void)
{
	ready();
#ifdef TAKE_ADDRESS
	address = tiny; /* which gives the stub a place of its own: .plt.got */
#endif
	for (;;) {
		tiny();
		BARRIER();
	}
}
#endif
