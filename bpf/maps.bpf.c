// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Definitions of the maps; what each is for stands in maps.bpf.h and scratch.bpf.h. */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "python.bpf.h"

struct rprof_ring_map rprof_ring SEC(".maps");
struct rprof_seen_map rprof_seen SEC(".maps");
struct rprof_procs_map rprof_procs SEC(".maps");
struct rprof_tids_map rprof_tids SEC(".maps");
struct rprof_tables_map rprof_tables SEC(".maps");
struct rprof_mappings_map rprof_mappings SEC(".maps");
struct rprof_pythons_map rprof_pythons SEC(".maps");
struct rprof_hints_map rprof_hints SEC(".maps");
struct rprof_code_map rprof_code SEC(".maps");
struct rprof_threads_map rprof_threads SEC(".maps");
struct rprof_pyscratch_map rprof_pyscratch SEC(".maps");
struct rprof_ns_map rprof_ns SEC(".maps");
struct rprof_ending_map rprof_ending SEC(".maps");
struct rprof_ended_map rprof_ended SEC(".maps");
struct rprof_counters_map rprof_counters SEC(".maps");
struct rprof_scratch_map rprof_scratch SEC(".maps");

const volatile struct rprof_config rprof_config = {};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
