/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps, declared. Defined once, in maps.bpf.c; libbpf's linker compares the two.
 * Sizes of the rings and tables are defaults: session.c sets them before load.
 */
#ifndef RPROF_MAPS_BPF_H
#define RPROF_MAPS_BPF_H

#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"

/* Records to user space. Written by every program, never waited for. */
struct rprof_ring_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
};

/*
 * Stack ids the ring has accepted -> time of that. LRU: a forgotten stack is only sent again.
 * Four times the 30,000 live stacks that must not be sent twice (the LRU evicts from batches).
 */
struct rprof_seen_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, u64);
	__type(value, u64);
};

/* tgid -> followed process. Preallocated: perf_event programs of 5.10 take no other hash. */
struct rprof_procs_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RPROF_MAX_PROCS);
	__type(key, u32);
	__type(value, struct rprof_proc);
};

/* tid -> 1: the threads of --tid. */
struct rprof_tids_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u32);
};

/* rprof_proc.table -> where its mappings are. Written by user space without system calls: a bpf()
 * map update would hold this CPU's programs off (bpf-limits.md 8).
 */
struct rprof_tables_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RPROF_MAX_PROCS);
	__type(key, u32);
	__type(value, struct rprof_table);
};

/* Mappings of all processes, in runs; same writer. 2 MiB by default. */
struct rprof_mappings_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct rprof_mapping);
};

/* rprof_proc.table -> how the interpreter of that process is read; same writer. 1.2 MiB. */
struct rprof_pythons_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RPROF_MAX_PROCS);
	__type(key, u32);
	__type(value, struct rprof_python);
};

/* tid -> where its PyThreadState may be, by user space. LRU and never deleted: what is found there is
 * looked at as if nothing was said, so that a hint of a thread that ended is of no use, and no harm.
 */
struct rprof_hints_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct rprof_hint);
};

/* Code objects whose records the ring has accepted, or whose fingerprint was taken. LRU: what is
 * forgotten is read and sent again. 3 MiB.
 */
struct code_key {
	u64 code;			/* address, tag bits off */
	u32 tgid;
	u32 execs;
};

struct code_known {
	u64 generation;			/* of code objects, when the fingerprint was taken; 0: none */
	u32 fingerprint;
	u32 sent;
};

struct rprof_code_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct code_key);
	__type(value, struct code_known);
};

/* The pid namespace that numbers are of: written by rprof_find_ns, read with RPROF_CONFIG_NESTED. */
struct rprof_ns_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rprof_ns);
};

/* signal_struct of followed processes whose last thread has ended -> tgid, until they are released. */
struct rprof_ending_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RPROF_MAX_PROCS);
	__type(key, u64);
	__type(value, u32);
};

/* tgid of a released process -> the CPU time that it has used, ns. */
struct rprof_ended_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RPROF_MAX_PROCS);
	__type(key, u32);
	__type(value, u64);
};

/* What each CPU counts. One element; level is the nesting of programs on this CPU now. */
struct rprof_cpu {
	u64 counters[RPROF_COUNT_MAX];
	u64 level;
};

struct rprof_counters_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rprof_cpu);
};

extern struct rprof_ring_map rprof_ring SEC(".maps");
extern struct rprof_seen_map rprof_seen SEC(".maps");
extern struct rprof_procs_map rprof_procs SEC(".maps");
extern struct rprof_tids_map rprof_tids SEC(".maps");
extern struct rprof_tables_map rprof_tables SEC(".maps");
extern struct rprof_mappings_map rprof_mappings SEC(".maps");
extern struct rprof_pythons_map rprof_pythons SEC(".maps");
extern struct rprof_hints_map rprof_hints SEC(".maps");
extern struct rprof_code_map rprof_code SEC(".maps");
extern struct rprof_ns_map rprof_ns SEC(".maps");
extern struct rprof_ending_map rprof_ending SEC(".maps");
extern struct rprof_ended_map rprof_ended SEC(".maps");
extern struct rprof_counters_map rprof_counters SEC(".maps");

static __always_inline struct rprof_cpu *this_cpu(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&rprof_counters, &zero);
}

#endif
