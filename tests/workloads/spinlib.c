/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A shared library for loader.c: lib_spin -> lib_inner, one burst of burning. */
#include "workload.h"

NODE void lib_inner(void)
{
	burn(1000000);
}

void lib_spin(void);
void lib_spin(void)
{
	lib_inner();
	BARRIER();
}
