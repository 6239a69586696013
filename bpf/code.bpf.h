/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the code at an interrupted pc says. Global functions as in native.bpf.h. */
#ifndef RPROF_CODE_BPF_H
#define RPROF_CODE_BPF_H

#include "scratch.bpf.h"

/*
 * Read the code at scratch.frame.ip, and what it says of that frame into scratch.at_pc.
 * Return: enum rprof_how of the word that is proven to be the return address; CHAIN: the frame is up,
 * SIGNAL: it returns from a signal handler, PC: nothing is proven of that.
 */
int code_at_pc(u32 slot);

/* The next instruction of scratch.at_pc. 1: nothing more is said. */
int code_step(u32 slot);

#endif
