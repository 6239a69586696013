/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of one sample on its way through the programs. It lives in a per-CPU map, one slot per
 * nesting level, because the BPF stack has 512 bytes and because global functions, which are what
 * verifies on every kernel, take scalars only: each finds its slot by number. Never cleared: counts
 * bound what is valid, so no work per sample is proportional to a capacity.
 */
#ifndef RPROF_SCRATCH_BPF_H
#define RPROF_SCRATCH_BPF_H

#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"

#define WINDOW 4096u		/* bytes of a window; one read of it costs 73 ns, one of 16 B 35 ns */
#define WINDOW_SLACK 512u	/* a masked offset plus what is read there stays inside */
#define CODE_MAX 64u		/* bytes of code around a pc; a power of two, */
#define CODE_SLACK 8u		/* and as above */

/* What a walker needs to find the caller. Which of it an architecture uses is its own business. */
struct unwind_frame {
	u64 ip;
	u64 sp;
	u64 fp;
	u64 ra;			/* return address register of an interrupted frame (s390x r14) */
	u64 link_at;		/* fp, the address of the next frame, was read here; 0: in no frame */
};

/* Where the address of the next frame is, if the code at an interrupted pc says so. */
enum code_link {
	LINK_AT_SP = 0,		/* where it always is */
	LINK_IS,		/* it is .link_value, in no memory yet */
	LINK_IF_EQUAL,		/* where it always is if that is .link_value, else it is not known */
	LINK_LOST,		/* nowhere that can be read, and what is there is something else */
};

/* What the code at an interrupted pc says of its frame, and how far it was read (code.bpf.c). */
struct code_state {
	u32 link;		/* enum code_link */
	u32 ra_dead;		/* the return address register does not hold it any more, */
	u32 slot_dead;		/* nor is it where it would have been saved; */
	u32 kept;		/* it may be changed, because it was saved */
	u32 packed;		/* frames are laid out as the other rule of this architecture says */
	u64 link_value;

	u64 at;			/* next byte in scratch.code, */
	u64 end;		/* and the end of what was read */
	u64 sp;			/* what the stack pointer will be there, */
	u32 sp_known;		/* if that is known */
	u32 weak;		/* a branch may have gone elsewhere before */
	u64 allocated;		/* bytes that it went down by the last instruction */
	u32 probed;		/* a touch of new stack was seen */
	u32 stored;		/* a store of the link was seen */
	u32 changed;		/* bits of registers that are not what they were at pc, */
	u32 computed;		/* the one of them that is known to be */
	u64 computed_value;
};

#define RECORD_WORDS (RPROF_MAX_KERNEL + 2 * RPROF_MAX_NATIVE + 2 * RPROF_MAX_PYTHON)

struct scratch {
	struct rprof_stack stack;	/* the STACK record; the words follow it */
	u64 words[RECORD_WORDS];
	u64 n_words;			/* valid in words[] */

	u64 time_ns;			/* of the sample */
	u32 tid;
	u32 has_python;			/* py_scratch.p is set */

	struct unwind_frame frame;
	u64 stack_end;			/* end of the mapping sp lies in; ~0: not known */
	u64 chain_flags;		/* RPROF_NATIVE_* of every frame of this walk */
	u32 stop;			/* enum rprof_stop of the native walk */
	u32 in_signal;			/* frame is what a signal interrupted: not pushed yet */
	u32 chain_how;			/* enum rprof_how of the next frame by the chain */
	u32 has_ra;			/* enum rprof_how of .frame.ra, if that was pushed; else 0 */
	u32 exec_flags;			/* RPROF_MAPPING_* that executable() found last; 0: none, */
	u32 ip_flags;			/* and of .frame.ip */
	u32 vdso_ra;			/* of arch/ */
	u32 reserved;

	u32 hash_at;			/* next word of the record to hash */
	u64 hash;

	/* The mapping table of this process, and the mappings last found in it. */
	u32 table_first;
	u32 table_count;		/* 0: none */
	u64 table_key;			/* index and version of the table that these were found in: */
	u64 want;			/* address find_mapping() looks for */
	struct rprof_mapping found;	/* its answer */
	struct rprof_mapping exec_map;	/* a program and its libc, for most stacks */
	struct rprof_mapping exec_map2;
	struct rprof_mapping stack_map;

	u64 window_start;		/* user address of window[0] */
	u64 window_len;			/* valid bytes */
	u64 absent_page;		/* that a window could not reach into; of table_key */
	u64 absent_now;			/* the same, seen in this walk */
	u64 gprs[16];			/* of the interrupted frame, where arch/ wants them */
	struct code_state at_pc;
	u8 code[CODE_MAX + CODE_SLACK];	/* around the interrupted pc, or at a return address */
	u64 reads;
	u64 read_faults;
	u64 searches;
	u8 window[WINDOW + WINDOW_SLACK];
};

_Static_assert(sizeof(struct scratch) <= 32768,
	       "per-CPU array values end at 32 KiB on all kernels");

struct rprof_scratch_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RPROF_LEVELS);
	__type(key, u32);
	__type(value, struct scratch);
};

extern struct rprof_scratch_map rprof_scratch SEC(".maps");

static __always_inline struct scratch *scratch_at(u32 slot)
{
	/* Hides the value from clang, which otherwise drops an argument that is always 0 at the
	 * call; the verifier then refuses the call (bpf-limits.md 1.1).
	 */
	asm volatile("" : "+r"(slot));
	return bpf_map_lookup_elem(&rprof_scratch, &slot);
}

#endif
