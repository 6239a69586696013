/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The records that cross the ring buffer, and later the capture file: the only thing that capture
 * (bpf/) and analysis (user/) share besides stop.h and config.h. Native byte order, 8-aligned, no
 * holes; the includer brings __u16, __u32 and __u64. Appended to, changed only with a reason: an
 * unknown type is skipped and counted, so a reader outlives new records.
 */
#ifndef RPROF_RECORD_H
#define RPROF_RECORD_H

#define RPROF_COMM_LEN 16		/* TASK_COMM_LEN, include/linux/sched.h */
#define RPROF_MAX_KERNEL 127		/* kernel.perf_event_max_stack's default */
#define RPROF_MAX_NATIVE 512

enum rprof_record_type {
	RPROF_RECORD_SAMPLE = 1,
	RPROF_RECORD_STACK = 2,
	RPROF_RECORD_CODE = 3,		/* Python code objects: not sent yet */
	RPROF_RECORD_SPACE = 4,
};

struct rprof_header {
	__u16 type;			/* enum rprof_record_type */
	__u16 flags;
	__u32 len;			/* bytes, header included */
};

/* One sample of a followed thread. */
struct rprof_sample {
	struct rprof_header h;
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u64 stack;			/* id of the STACK that was sent before */
	__u64 value;			/* 1, ns or bytes, by event */
	__u32 tid;
	__u32 cpu;
	__u16 event;			/* index of the -e option */
	__u16 reserved[3];
};

/*
 * How the pc of a native frame was found. A SIGNAL frame follows the frame of the sigreturn
 * trampoline that its handler returns to, and is an interrupted frame as PC is: the same words may
 * follow it. The chain misses the caller of an interrupted frame that
 * is not up (prologue, epilogue, PLT, leaf). So between the frame of the interrupted pc and the
 * first CHAIN frame there may stand the words at [sp] and [sp + 8], in this order, if they are
 * addresses in executable memory. SP and SP8: the instruction at pc proves that this word is the
 * return address. WORD_SP, WORD_SP8: nothing is proven; the word is the caller exactly if the file's
 * CFI at pc says CFA = sp + 8 (sp + 16), and analysis drops it otherwise.
 */
enum rprof_how {
	RPROF_HOW_PC = 0,		/* the interrupted pc */
	RPROF_HOW_CHAIN = 1,		/* return address by frame pointer or back chain */
	RPROF_HOW_SP = 2,		/* return address at [sp], proven by the instruction at pc */
	RPROF_HOW_SP8 = 3,		/* at [sp + 8], proven likewise */
	RPROF_HOW_WORD_SP = 4,		/* candidate at [sp] */
	RPROF_HOW_WORD_SP8 = 5,		/* candidate at [sp + 8] */
	RPROF_HOW_SIGNAL = 6,		/* the pc that a signal interrupted, from its signal frame */
	RPROF_HOW_MAX
};

/* Bits of rprof_native_frame.flags above the enum rprof_how. */
#define RPROF_NATIVE_HOW 0xffULL	/* mask of enum rprof_how */
#define RPROF_NATIVE_UNCHECKED 0x100ULL	/* in no known mapping: analysis checks "executable?" */
#define RPROF_NATIVE_UNBOUND 0x200ULL	/* the mapping that the stack lies in was not known */

struct rprof_native_frame {
	__u64 pc;
	__u64 flags;			/* enum rprof_how | RPROF_NATIVE_* */
};

/*
 * A distinct stack, sent once, before its first SAMPLE. Followed by __u64 kernel[n_kernel] and
 * struct rprof_native_frame native[n_native], leaf first both.
 */
struct rprof_stack {
	struct rprof_header h;
	__u64 time_ns;			/* of the sample that it was met in first */
	__u64 stack;			/* keyed 64-bit hash of all that follows */
	__u32 tgid;
	__u32 space;			/* 0: no mapping table was known for this tgid */
	char comm[RPROF_COMM_LEN];	/* as the kernel has it; hostile bytes */
	__u16 n_kernel;
	__u16 n_native;
	__u16 n_python;			/* 0 for now */
	__u8 stop_kernel;		/* enum rprof_stop */
	__u8 stop_native;
	__u8 stop_python;
	__u8 reserved[7];
};

enum rprof_space_why {
	RPROF_SPACE_EXEC = 1,
	RPROF_SPACE_FORK = 2,
	RPROF_SPACE_EXIT = 3,
	RPROF_SPACE_MAPPING = 4,	/* an executable mapping was replaced or removed */
};

/* A process has a new address space; equal addresses mean other things from here on. */
struct rprof_space {
	struct rprof_header h;
	__u64 time_ns;
	__u32 tgid;
	__u32 space;			/* EXEC, EXIT: exec calls seen so far (rprof_proc.execs) */
	__u32 ppid;			/* 0: not known */
	__u8 why;			/* enum rprof_space_why */
	__u8 reserved[3];
};

#define RPROF_MAX_STACK_LEN                                                                        \
	(sizeof(struct rprof_stack) + RPROF_MAX_KERNEL * sizeof(__u64) +                           \
	 RPROF_MAX_NATIVE * sizeof(struct rprof_native_frame))

_Static_assert(sizeof(struct rprof_header) == 8, "header layout");
_Static_assert(sizeof(struct rprof_sample) == 48, "sample layout");
_Static_assert(sizeof(struct rprof_native_frame) == 16, "native frame layout");
_Static_assert(sizeof(struct rprof_stack) == 64, "stack layout");
_Static_assert(sizeof(struct rprof_space) == 32, "space layout");

#endif
