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
	__u32 reserved;
};

/* Bits of rprof_proc.flags. */
#define RPROF_PROC_FOLLOW 1u		/* matches RPROF_FILTER_TGID */
#define RPROF_PROC_WAIT_EXEC 2u		/* our own child before exec: not matched until it execs */
#define RPROF_PROC_TREE 4u		/* with FOLLOW: processes that it starts are followed, too */

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

/* Element of rprof_mappings: [start, end) of an address space. */
struct rprof_mapping {
	__u64 start;
	__u64 end;
	__u64 bias;			/* start - address of start in the file's own address space */
	__u32 module;			/* index of the mapped file, user space's; 0: none */
	__u32 flags;
};

_Static_assert(sizeof(struct rprof_config) == 88, "config layout");
_Static_assert(sizeof(struct rprof_ns) == 16, "ns layout");
_Static_assert(sizeof(struct rprof_proc) == 16, "proc layout");
_Static_assert(sizeof(struct rprof_table) == 40, "table layout");
_Static_assert(sizeof(struct rprof_mapping) == 32, "mapping layout");

#endif
