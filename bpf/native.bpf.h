/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The native walker. Global functions: each is verified once, alone, and its callers see an unknown
 * int. Arguments are scalars (5.10 has no others); all state is in the scratch slot.
 */
#ifndef RPROF_NATIVE_BPF_H
#define RPROF_NATIVE_BPF_H

/* Is scratch.want inside a mapping of this process? 1: scratch.found holds it. */
int find_mapping(u32 slot);

#define LOWEST_CODE 65536ULL /* vm.mmap_min_addr's default: nothing is mapped below */

/* Is @addr in executable memory of this process? Unknown: in no mapping that the table has. */
enum { CODE_NO, CODE_YES, CODE_UNKNOWN };
int executable(u32 slot, u64 addr);

/*
 * Push scratch.frame, which was interrupted by the sample (@how RPROF_HOW_PC) or by a signal, and
 * what may be its missing caller. 1: the walk is over.
 */
int native_interrupted(u32 slot, u32 how);

/*
 * Does the code at @ra return from a signal handler whose signal frame has its words at @at? Then
 * scratch.frame becomes what the signal interrupted, and scratch.in_signal is set. @how @ra was
 * found: of a mere candidate more is asked. 1: the signal frame is no good, and the walk over.
 */
int native_signal(u32 slot, u64 ra, u64 at, u32 how);

/* Push the first frames. 1: the walk is over. */
int native_begin(u32 slot);

/* Push the next caller. 1: the walk is over. Apart, so that it is verified once, not for each frame. */
int native_step(u32 slot);

/* Push up to RPROF_CHUNK callers. 1: the walk is over, scratch.stop says why. */
int native_chunk(u32 slot);

#endif
