/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What user space gives to the kernel side: constants set before load (struct rprof_config, in
 * read-only data) and the values of the maps that the loader fills. The includer brings the types.
 */
#ifndef RPROF_CONFIG_H
#define RPROF_CONFIG_H

#define RPROF_MAX_PROCS 8192		/* followed processes, or those seen under -a */
#define RPROF_MAX_MAPPINGS 8192		/* of one process; 13 steps of binary search */
#define RPROF_CHUNK 16			/* frames of one global call: verified once, alone */
#define RPROF_LEVELS 2			/* entry programs that may interrupt one another on a CPU */

enum rprof_filter {
	RPROF_FILTER_ALL = 0,		/* every task but idle */
	RPROF_FILTER_TGID = 1,		/* processes in rprof_procs with RPROF_PROC_FOLLOW */
	RPROF_FILTER_TID = 2,		/* threads in rprof_tids */
};

/* Bits of rprof_config.flags. */
#define RPROF_CONFIG_NO_KERNEL 1u	/* -U */
#define RPROF_CONFIG_NO_USER 2u		/* -K */
#define RPROF_CONFIG_NESTED 4u		/* numbers of processes are those of rprof_ns, not the first */
#define RPROF_CONFIG_NO_CACHE 8u	/* --no-cache: nothing of a thread's last sample is used */
#define RPROF_CONFIG_VERIFY 16u		/* --verify: each Python walk is done twice, and compared */
#define RPROF_CONFIG_TP_LATE 32u	/* .task_tp is of before an exec until the thread was switched */

/* Read-only data of the BPF object. Offsets are bytes into kernel structs, from the kernel's BTF. */
struct rprof_config {
	__u64 hash_seed;		/* random per run: */
	__u64 hash_key;			/* an odd multiplier */
	__u32 filter;			/* enum rprof_filter */
	__u32 flags;
	__u32 task_stack;		/* offset of task_struct.stack; 0: unknown */
	__u32 task_mm;			/* offset of task_struct.mm; 0: unknown */
	__u32 task_signal;		/* offset of task_struct.signal; 0: unknown, or the next is */
	__u32 signal_live;		/* offset of signal_struct.live, threads that have not ended */
	__u32 thread_size;		/* bytes of a kernel stack */
	__u32 ring_quarter;		/* bytes waiting in the ring that wake user space early */
	__u32 max_kernel;		/* kernel.perf_event_max_stack, at most RPROF_MAX_KERNEL */
	__u32 task_pid;			/* offsets of task_struct.pid */
	__u32 task_tgid;		/* and .tgid; 0: unknown */
	/* For RPROF_CONFIG_NESTED; the first is 0 if any of them is unknown. */
	__u32 task_thread_pid;		/* task_struct.thread_pid, */
	__u32 task_leader;		/* .group_leader */
	__u32 pid_level;		/* struct pid.level, */
	__u32 pid_numbers;		/* .numbers, one struct upid per level; its nr is at 0 */
	__u32 upid_ns;			/* struct upid.ns, */
	__u32 upid_size;		/* and sizeof */
	__u32 task_tp;			/* offset of the saved thread pointer, from task_struct; 0 */
	__u32 task_start;		/* offset of task_struct.start_time; 0: unknown */
	__u32 task_faults;		/* of task_struct.min_flt and, behind it, .maj_flt; 0: unknown */
	/*
	 * Of signal_struct.sum_sched_runtime, CPU time of threads that are released, ns; 0: unknown, or
	 * nobody asks for it.
	 */
	__u32 signal_runtime;
	__u32 reserved;
};

/* Bits of rprof_proc.flags. */
#define RPROF_PROC_FOLLOW 1u		/* matches RPROF_FILTER_TGID */
#define RPROF_PROC_WAIT_EXEC 2u		/* our own child before exec: not matched until it execs */
#define RPROF_PROC_TREE 4u		/* with FOLLOW: processes that it starts are followed, too */

#define RPROF_PROC_BORROWS 8u		/* .table is its parent's still */

#define RPROF_NO_TABLE (~0u)		/* rprof_proc.table of a process that has none yet */

/*
 * Value of rprof_procs, keyed by tgid. User space inserts it (of children the kernel side), both
 * sides delete it; only the kernel side changes it, so that no update can undo an exec.
 */
struct rprof_proc {
	__u32 execs;			/* exec calls seen since insertion */
	__u32 flags;			/* RPROF_PROC_* */
	__u32 table;			/* index in rprof_tables, or RPROF_NO_TABLE */
	__u32 reserved;
};

/* Element 0 of rprof_ns: the pid namespace whose numbers count. */
struct rprof_ns {
	__u64 ns;			/* address of the struct pid_namespace */
	__u32 level;			/* 0: the first namespace */
	__u32 reserved;
};

/* Where the mappings of one process are: a run of rprof_mappings. */
struct rprof_run {
	__u32 space;			/* number of the address space described; 0: none */
	__u32 execs;			/* counts only while this equals rprof_proc.execs */
	__u32 first;			/* index of the first mapping in rprof_mappings */
	__u32 count;			/* sorted by address, not overlapping */
};

/*
 * Element of rprof_tables. Written by user space through a shared mapping: the run that is not in
 * use, then the version, so that there is a whole table at every moment, also when the writer is
 * held up. Readers look at the version before and after.
 */
struct rprof_table {
	__u32 version;			/* runs[version & 1] counts */
	__u32 reserved;
	struct rprof_run runs[2];
};

/* Bits of rprof_mapping.flags. */
#define RPROF_MAPPING_EXEC 1u		/* executable */
#define RPROF_MAPPING_STACK 2u		/* private, writable: a stack may lie in it */
#define RPROF_MAPPING_GROWSDOWN 4u	/* [stack]: its start may have moved down since */
#define RPROF_MAPPING_VDSO 8u		/* the kernel's own code in the process */

/* Element of rprof_mappings: [start, end) of an address space. */
struct rprof_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;			/* start - address of start in the file's own address space */
	__u32 module;			/* index of the mapped file, user space's; 0: none */
	__u32 flags;
};

/* Bits of rprof_python.flags. */
#define RPROF_PYTHON_FREE_THREADED 1u	/* built without the GIL */
#define RPROF_PYTHON_FRAME_OBJECTS 2u	/* 3.9, 3.10: a chain of PyFrameObject, f_lasti in .f_instr */
#define RPROF_PYTHON_LASTI_BYTES 4u	/* 3.9: f_lasti counts bytes, not code units */
#define RPROF_PYTHON_CFRAME 8u		/* 3.11, 3.12: .ts_frame points to a _PyCFrame */
#define RPROF_PYTHON_IS_ENTRY 16u	/* 3.11: .f_entry is a flag of the frame, there are no shims */
#define RPROF_PYTHON_BASE_FRAME                                                                    \
	32u /* 3.15: chains end at the frame that .ts_base_frame points to */
#define RPROF_PYTHON_GENERATION                                                                    \
	64u /* 3.14: .interp_generation changes when a code object is freed */
#define RPROF_PYTHON_CODE_VERSION 128u	/* 3.12: .co_version is not given twice (0: it may be) */
#define RPROF_PYTHON_NATIVE_TID 256u	/* .ts_native_tid counts: the target is in our pid namespace */
#define RPROF_PYTHON_GC_FRAME 512u	/* 3.15: gc.frame */
#define RPROF_PYTHON_STATUS 1024u	/* 3.12: .ts_status has the bit bound_gilstate */

/*
 * Element of rprof_pythons, at the index of the process's table: how to read the interpreter of this
 * process. Offsets are bytes; 0 where the flags say that the version has no such thing. All were
 * validated by user space for their meaning; the programs mask them all the same. Written by user
 * space through a shared mapping, .execs last; a new image makes it void.
 */
struct rprof_python {
	__u32 execs;			/* 1 + rprof_proc.execs of the image described; 0: none */
	__u16 version;			/* PY_VERSION_HEX >> 16 */
	__u16 flags;			/* RPROF_PYTHON_* */
	__u64 runtime;			/* address of _PyRuntime */
	__u64 code_type;		/* address of PyCode_Type */
	/* _PyRuntimeState */
	__u32 runtime_interpreters;	/* interpreters.head */
	__u32 runtime_current;		/* up to 3.11: gilstate.tstate_current */
	__u32 runtime_finalizing;
	/* PyInterpreterState */
	__u32 interp_next;
	__u32 interp_threads;		/* threads.head */
	__u32 interp_generation;	/* code_object_generation, u64 */
	__u32 interp_collecting;	/* gc.collecting, int */
	__u32 interp_gc_frame;		/* gc.frame */
	/* PyThreadState */
	__u16 ts_read;			/* bytes from its start that hold what follows, at most 512 */
	__u16 ts_next;
	__u16 ts_interp;
	__u16 ts_frame;			/* current_frame, frame, or cframe */
	__u16 ts_base_frame;
	__u16 ts_thread_id;
	__u16 ts_native_tid;
	__u16 ts_status;
	__u16 ts_chunk;			/* datastack_chunk; 0: none (3.9, 3.10) */
	__u16 ts_executor;		/* current_executor; 0: none */
	/* _PyCFrame */
	__u16 cframe_frame;		/* current_frame */
	__u16 cframe_previous;
	/* _PyInterpreterFrame or PyFrameObject */
	__u16 f_read;			/* bytes from its start that hold what follows, at most 128 */
	__u16 f_code;			/* f_executable, f_code */
	__u16 f_previous;		/* f_back */
	__u16 f_instr;			/* instr_ptr, prev_instr, f_lasti */
	__u16 f_owner;			/* u8; 3 and more: an entry frame */
	__u16 f_entry;			/* is_entry, u8 */
	__u16 f_tlbc;			/* tlbc_index, s32 */
	__u16 f_tags;			/* mask of the tag bits of .f_code: 0, 1 or 7 */
	/* PyCodeObject */
	__u16 co_type;			/* ob_type */
	__u16 co_read;			/* bytes from .co_type on that hold all but the last two, <= 192 */
	__u16 co_from;			/* from here to their end is what identifies it, see hash.h */
	__u16 co_name;			/* co_qualname, co_name before 3.11 */
	__u16 co_filename;
	__u16 co_lines;			/* co_linetable, co_lnotab */
	__u16 co_firstlineno;
	__u16 co_version;
	__u16 co_code;			/* first instruction (co_code_adaptive); unused before 3.11 */
	__u16 co_tlbc;
	/* PyUnicodeObject, PyBytesObject */
	__u16 str_length;
	__u16 str_hash;			/* cached hash, -1: none */
	__u16 str_state;		/* u32 */
	__u16 str_ascii;		/* first byte of an ASCII string */
	__u16 str_compact;		/* and of another compact one */
	__u16 str_kind_shift;		/* of .kind in the state, counted from bit 0 of a native u32, */
	__u16 str_compact_bit;		/* of .compact, */
	__u16 str_ascii_bit;		/* of .ascii */
	__u16 bytes_size;		/* ob_size */
	__u16 bytes_data;		/* ob_sval */
	__u16 status_bit;		/* of bound_gilstate in a native u32 at .ts_status */
	__u16 reserved[3];
};

/* Value of rprof_hints: where user space has last seen the PyThreadState of a thread. */
struct rprof_hint {
	__u64 tstate;
	__u32 tgid;
	__u32 execs;			/* rprof_proc.execs of the image it was seen in */
};

_Static_assert(sizeof(struct rprof_config) == 104, "config layout");
_Static_assert(sizeof(struct rprof_python) == 144, "python layout");
_Static_assert(sizeof(struct rprof_hint) == 16, "hint layout");
_Static_assert(sizeof(struct rprof_ns) == 16, "ns layout");
_Static_assert(sizeof(struct rprof_proc) == 16, "proc layout");
_Static_assert(sizeof(struct rprof_table) == 40, "table layout");
_Static_assert(sizeof(struct rprof_mapping) == 32, "mapping layout");

#endif
