/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sending: a STACK once, a SAMPLE always. Never waits. Global functions as in native.bpf.h. */
#ifndef RPROF_EMIT_BPF_H
#define RPROF_EMIT_BPF_H

/* Fold HASH_CHUNK more words of the record into scratch.hash. 1: all are in. */
int hash_chunk(u32 slot);

/* Send the finished stack of a slot, if the ring has not had it, and the sample. Counts the loss. */
int emit_sample(u32 slot);

#endif
