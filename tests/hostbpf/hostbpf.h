/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel that bpf/ believes to run in when it is compiled as host C: maps over plain memory, a
 * memory image of the target, one CPU, one current task. Every map element and every record is an
 * allocation of its own, so that ASan sees what leaves it.
 */
#ifndef RPROF_HOSTBPF_H
#define RPROF_HOSTBPF_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "python.bpf.h"

#define HOST_PAGE 4096u

/* What the ring accepted, in order. */
struct host_record {
	u64 flags; /* of bpf_ringbuf_output() */
	u32 len;
	const void *data;
};

/* The state of the machine. Tests set the first part and read the second. */
struct host {
	u32 tgid, tid, cpu;
	char comm[RPROF_COMM_LEN];
	u64 now; /* bpf_ktime_get_ns(), one more at each call */
	u64 task; /* addresses in kernel memory */
	u64 task_regs;
	const u64 *kstack; /* what bpf_get_stack() finds: frames, or kstack_err */
	u32 n_kstack;
	long kstack_err;
	u64 ring_size; /* bytes; 0: no limit */
	/* Called before a helper does its work; may run a program, as an interrupt would. */
	void (*on_output)(void);
	void (*on_user_read)(u64 addr);

	struct host_record *records;
	u32 n_records;
	u64 ring_used; /* bytes not consumed */
	u32 outputs; /* calls, refused ones too */
	u32 user_reads, user_read_faults;
	u64 user_bytes; /* asked for */
};

extern struct host host;

/* Power on: maps and memory empty, host zeroed but for a task and a clock that is not 0. */
void host_reset(void);
/* Write the read-only data, as a loader does before load. */
void host_config(const struct rprof_config *config);
void host_delete(void *map, u64 key);
/* Consume what the ring holds; records stay readable until host_reset(). */
void host_drain(void);
/* A quick host_reset() for fuzzing: drop the records and user memory, keep the maps. */
void host_forget(void);

/*
 * Memory is a set of regions, [start, start + len) page-aligned, zeroed. Regions do not overlap; the
 * last may end at 2^64. A region's pages become holes one by one.
 */
void host_user_region(u64 start, u64 len);
void host_user_hole(u64 addr);
void host_kernel_region(u64 start, u64 len);
void host_poke(u64 addr, u64 word); /* user memory */
void host_poke_bytes(u64 addr, const void *bytes, u32 len);
void host_kernel_poke(u64 addr, u64 word);
/* Reads without counting; false if a byte is not there. */
bool host_peek(u64 addr, void *dst, u32 len);

/* Shorthands: maps of the programs. */
struct rprof_cpu *host_cpu(void);
struct scratch *host_scratch(u32 slot);
void host_proc(u32 tgid, u32 execs, u32 flags, u32 table);
void host_table(u32 index, u32 space, u32 execs, u32 first, const struct rprof_mapping *m, u32 n);

/* The programs. */
int rprof_clock(struct bpf_perf_event_data *ctx);
int rprof_clock_btf(struct bpf_perf_event_data *ctx);
int rprof_exec(struct bpf_raw_tracepoint_args *ctx);
int rprof_exit(struct bpf_raw_tracepoint_args *ctx);
int rprof_fork(struct bpf_raw_tracepoint_args *ctx);
int rprof_set_table(struct bpf_raw_tracepoint_args *ctx);
int rprof_find_ns(struct bpf_raw_tracepoint_args *ctx);

#endif
