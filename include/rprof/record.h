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
#define RPROF_MAX_PYTHON 1088		/* 1,024 frames and what the shims between them take */

enum rprof_record_type {
	RPROF_RECORD_SAMPLE = 1,
	RPROF_RECORD_STACK = 2,
	RPROF_RECORD_CODE = 3,
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
	__u16 reserved[1];
	/*
	 * If its stack stopped with FAULT: page faults of the thread until now, + 1, low 32 bits; else,
	 * or if it is not known, 0. As long as it has had no other one, it has not touched the page
	 * that could not be read.
	 */
	__u32 faults;
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
 *
 * s390x: such words are r14 (RA: the instruction at pc proves that it is the return address; WORD_RA:
 * nothing is proven) and the one at [sp + 112], its place in the caller's save area (WORD_SLOT). If
 * the file's CFI at pc says that the return address is in r14 while CFA is above sp + 160, the frame
 * is up but r14 was not saved: r14 is the caller, and stands for the first CHAIN frame, whose
 * return address is a stale word. CHAIN_REG is a CHAIN frame found by the register that the
 * instructions at pc are about to store at [sp], since the frame is allocated and not linked yet.
 */
enum rprof_how {
	RPROF_HOW_PC = 0,		/* the interrupted pc */
	RPROF_HOW_CHAIN = 1,		/* return address by frame pointer or back chain */
	RPROF_HOW_SP = 2,		/* return address at [sp], proven by the instruction at pc */
	RPROF_HOW_SP8 = 3,		/* at [sp + 8], proven likewise */
	RPROF_HOW_WORD_SP = 4,		/* candidate at [sp] */
	RPROF_HOW_WORD_SP8 = 5,		/* candidate at [sp + 8] */
	RPROF_HOW_SIGNAL = 6,		/* the pc that a signal interrupted, from its signal frame */
	RPROF_HOW_RA = 7,		/* return address in its register, proven by the code at pc */
	RPROF_HOW_WORD_RA = 8,		/* candidate in that register */
	RPROF_HOW_WORD_SLOT = 9,	/* candidate in the register's place in the save area at sp */
	RPROF_HOW_CHAIN_REG = 10,	/* by the back chain that is about to be stored */
	RPROF_HOW_MAX
};

/* Bits of rprof_native_frame.flags above the enum rprof_how. */
#define RPROF_NATIVE_HOW 0xffULL	/* mask of enum rprof_how */
#define RPROF_NATIVE_UNCHECKED 0x100ULL	/* in no known mapping: analysis checks "executable?" */
#define RPROF_NATIVE_UNBOUND 0x200ULL	/* the mapping that the stack lies in was not known */
/*
 * No frame, and the last entry: the walk stopped with FAULT at the frame at address .pc. Bits 16 up:
 * .pc minus the address of the frame before, whose link to it was read: [fp] on x86-64, [sp] on s390x
 * (0: the link is in no memory). Analysis may read the rest from the process, and then that link and
 * its return address again: if both are as they were, it is of the same stack (DESIGN 4).
 */
#define RPROF_NATIVE_NEXT 0x400ULL
#define RPROF_NATIVE_NEXT_SHIFT 16
/*
 * Of a stack whose Python walk stopped with FAULT, in all other entries: bits 16 up are the frame's
 * lowest address (0: not known), so that the frames which are read later can be joined.
 */
#define RPROF_NATIVE_LOW_SHIFT 16

struct rprof_native_frame {
	__u64 pc;
	__u64 flags;			/* enum rprof_how | RPROF_NATIVE_* */
};

/* Bits of rprof_python_frame.where: the flags of a Python frame, above the instruction. */
#define RPROF_PY_INSTR 0x00ffffffu	/* mask: index of the instruction, in code units of 2 bytes */
#define RPROF_PY_SHIM 0x01000000u	/* no frame: the evaluator was entered here. See below */
/*
 * No frame: the walk stopped before it; .code: its address. A second one may follow it: the address
 * of the last frame that was read, which links to it, for who completes the stack (FAULT).
 */
#define RPROF_PY_NEXT 0x02000000u
#define RPROF_PY_GENERATOR 0x04000000u	/* of a generator or coroutine */
#define RPROF_PY_NOT_STARTED 0x08000000u /* no instruction of it was run: its first line */
#define RPROF_PY_NO_INSTR 0x10000000u	/* the instruction is not known: no line */
#define RPROF_PY_COARSE 0x20000000u	/* run by jitted code: the line is that of an earlier one */
#define RPROF_PY_GC 0x40000000u		/* it started the collection that is running */
#define RPROF_PY_ENTRY 0x80000000u	/* 3.9, 3.10: an activation of the evaluator of its own */

/*
 * Leaf first, as the interpreter links them. Where the evaluator was entered from C there is a SHIM
 * behind (rootward of) the frames that it runs: its .code is 1 + the index in native[] of the frame
 * that holds it, which is that activation of the evaluator; 0: in none that was walked. From 3.12 on
 * it is the interpreter's own entry frame, in 3.11 a _PyCFrame; both lie on the C stack, so that no
 * guess is needed to merge the two: native frames leafward of that index were called from the
 * Python frames between this shim and the one before. If it is in none that was walked, and the native
 * walk stopped with FAULT, its .fingerprint is the low half of its address.
 */
struct rprof_python_frame {
	__u64 code;			/* address of the code object */
	__u32 fingerprint;		/* keyed hash of what identifies it; 0: it could not be read */
	__u32 where;			/* RPROF_PY_* */
};

/*
 * A distinct stack, sent once, before its first SAMPLE. Followed by __u64 kernel[n_kernel],
 * struct rprof_native_frame native[n_native] and struct rprof_python_frame python[n_python], all
 * leaf first. stop_python is NONE where no interpreter is known in the process.
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
	__u16 n_python;
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

/* What a code object says, as it was captured. */
struct rprof_code_text {
	__u64 addr;			/* of its first byte; 0: none, or an object of another kind */
	__u32 length;			/* in code points (bytes of a line table) */
	__u16 captured;			/* bytes that follow: all of it, or none */
	__u8 kind;			/* bytes per code point: 1, 2, 4; 0: no string that is known */
	__u8 ascii;			/* of kind 1: ASCII, else Latin-1 */
};

enum rprof_code_part {
	RPROF_CODE_NAME,		/* co_qualname; co_name before 3.11 */
	RPROF_CODE_FILE,		/* co_filename */
	RPROF_CODE_LINES,		/* co_linetable; co_lnotab in 3.9 */
	RPROF_CODE_PARTS
};

#define RPROF_MAX_CODE_NAME 256		/* bytes; longer ones user space reads itself */
#define RPROF_MAX_CODE_FILE 512
#define RPROF_MAX_CODE_LINES 4096

/*
 * A code object, sent before the first STACK that has its address and fingerprint, unless the ring
 * or the budget of the sample had no room. Followed by the captured bytes of its parts in order,
 * each padded with zeros to 8.
 */
struct rprof_code {
	struct rprof_header h;
	__u64 time_ns;
	__u64 code;			/* address */
	__u32 fingerprint;
	__u32 tgid;
	__u32 execs;			/* of the image it is of, as SPACE records count them */
	__s32 firstlineno;
	__u16 version;			/* of the interpreter: 0x030f */
	__u16 reserved[3];
	struct rprof_code_text parts[RPROF_CODE_PARTS];
};

#define RPROF_MAX_STACK_LEN                                                                        \
	(sizeof(struct rprof_stack) + RPROF_MAX_KERNEL * sizeof(__u64) +                           \
	 RPROF_MAX_NATIVE * sizeof(struct rprof_native_frame) +                                    \
	 RPROF_MAX_PYTHON * sizeof(struct rprof_python_frame))

_Static_assert(sizeof(struct rprof_header) == 8, "header layout");
_Static_assert(sizeof(struct rprof_sample) == 48, "sample layout");
_Static_assert(sizeof(struct rprof_native_frame) == 16, "native frame layout");
_Static_assert(sizeof(struct rprof_python_frame) == 16, "python frame layout");
_Static_assert(sizeof(struct rprof_stack) == 64, "stack layout");
_Static_assert(sizeof(struct rprof_code) == 96, "code layout");
_Static_assert(sizeof(struct rprof_space) == 32, "space layout");

#endif
