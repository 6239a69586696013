/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of `check`, each a group of findings. None needs rights: what it may not look at is
 * itself a finding. A finding that was not verified is not claimed.
 */
#ifndef RPROF_CHECK_PARTS_H
#define RPROF_CHECK_PARTS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/config.h"

struct caps_facts;
struct check_report;
struct proc_maps;

/* What check_settings() judges. Numbers that could not be read are CAPS_UNKNOWN. */
struct check_settings {
	char release[65];	/* of uname(2) */
	char machine[65];
	int jit;		/* net.core.bpf_jit_enable */
	int max_rate;		/* kernel.perf_event_max_sample_rate, Hz */
	int cpu_percent;	/* kernel.perf_cpu_time_max_percent */
	int mlock_kb;		/* kernel.perf_event_mlock_kb */
	int max_stack;		/* kernel.perf_event_max_stack, frames */
	int unprivileged;	/* kernel.unprivileged_bpf_disabled */
	int seccomp;		/* of ourselves: 2: there is a filter */
	bool has_btf;
	struct rprof_config places; /* that a run would know: kernel_offsets() */
	bool virtual_machine;
	double steal_percent;	/* of the CPU time since boot; < 0: not known */
	__u64 nofile;		/* hard limit; ~0: none */
};

/* The kernel and its settings. Facts apart from conclusions: check_settings() is pure. */
void check_read_settings(struct check_settings *s);
void check_settings(struct check_report *r, const struct check_settings *s,
		    const struct caps_facts *caps, __u32 frequency);

/*
 * check_rights() - each capability that is used, and what its lack costs. Pure.
 * @as_user: -- COMMAND would run as the user who called sudo
 * Return: false: the programs will not load, or the events not open.
 */
bool check_rights(struct check_report *r, const struct caps_facts *caps, bool as_user);

/* Are the numbers of processes those that the kernel side sees? */
void check_pid_namespace(struct check_report *r);

/* Kernel symbols, as a run would read them. */
void check_kernel_symbols(struct check_report *r, const struct caps_facts *caps);

/* Other BPF programs, while which run no sample is taken. */
void check_bpf_programs(struct check_report *r);

/*
 * Really load the programs, open the events and sample ourselves for a moment.
 * @allowed: what check_rights() said: false: not tried
 */
void check_load(struct check_report *r, bool allowed);

/* Whether debug information would be fetched. */
void check_debuginfod(struct check_report *r);

/* One process: groups of its own. */
void check_process(struct check_report *r, __u32 pid);

/*
 * check_auxv_bits() - of the auxiliary vector that exec gave a process, /proc/PID/auxv: 64 or 32;
 * 0: it does not say. Pure; @auxv need not be aligned or whole.
 */
int check_auxv_bits(const void *auxv, size_t size);

/*
 * check_files() - the files that a process has mapped to execute, and the runtimes in them.
 * @proc_dir: descriptor of /proc/PID
 */
void check_files(struct check_report *r, __u32 pid, int proc_dir, const struct proc_maps *maps);

/* The Python that a process runs, and how well its frames can be read: findings of the group at hand. */
void check_python(struct check_report *r, __u32 pid);

#endif
