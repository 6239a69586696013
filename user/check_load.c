// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The proof: the programs are loaded, the events opened, and this thread sampled while it spins, as
 * in a run. All of it hangs on descriptors and is gone at the end.
 */
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arch.h"
#include "check_parts.h"
#include "check_report.h"
#include "kernel.h"
#include "monotonic.h"
#include "proc.h"
#include "session.h"

#define RING_SIZE (8u << 20)	/* as a run's */
#define MAX_MAPPINGS 65536u
#define HZ 999			/* Hz; less where the kernel allows no more */
#define SPIN_NS 250000000ULL	/* CPU time */
#define SPIN_MAX_NS 2000000000ULL /* however busy the machine is */
#define MISSED_PERCENT 5	/* more is said to be a problem: timers are late now and then */

struct programs {
	unsigned int n, n_interpreted;
	unsigned long long insns;	/* verified; 0: the kernel does not say (before 5.16) */
};

static void count_program(struct programs *p, int fd)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return;
	p->n++;
	p->n_interpreted += !info.jited_prog_len;
	p->insns += info.verified_insns;
}

/* Those that this process holds: what the session has loaded. */
static void count_programs(struct programs *p)
{
	char path[64], link[64];
	struct dirent *entry;
	DIR *dir;

	proc_path(path, sizeof(path), "self/fd");
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (len <= 0)
			continue;
		link[len] = '\0';
		if (!strcmp(link, "anon_inode:bpf-prog"))
			count_program(p, atoi(entry->d_name));
	}
	if (dir)
		closedir(dir);
}

static void report_programs(struct check_report *r)
{
	struct programs p = { 0 };
	char insns[64] = "";

	count_programs(&p);
	if (p.insns)
		snprintf(insns, sizeof(insns), ", %llu verified instructions", p.insns);
	if (p.n_interpreted)
		check_add(r, CHECK_DEGRADED, "programs",
			  "a kernel with CONFIG_BPF_JIT, sysctl net.core.bpf_jit_enable=1",
			  "loaded: %u%s; %u are interpreted: a sample costs about 3 times as much",
			  p.n, insns, p.n_interpreted);
	else
		check_add(r, CHECK_FINE, "programs", NULL, "loaded: %u%s", p.n, insns);
}

static void report_registers(struct check_report *r)
{
	struct rprof_config offsets = { 0 };

	kernel_offsets(&offsets);
	if (kernel_has_task_regs())
		check_add(r, CHECK_FINE, "user registers", NULL,
			  "of samples in the kernel: by bpf_task_pt_regs()");
	else if (offsets.task_stack)
		check_add(r, CHECK_FINE, "user registers", NULL,
			  "of samples in the kernel: from the top of the kernel stack");
	else
		check_add(r, CHECK_DEGRADED, "user registers",
			  "a kernel with CONFIG_DEBUG_INFO_BTF",
			  "of samples in the kernel: not found: [no user registers] stands there");
}

static void report_chain(struct check_report *r)
{
	check_add(r, CHECK_FINE, "user stacks", NULL, "by " ARCH_LINK "s, proven by unwind data%s",
		  ARCH_HAS_FP_CHAIN ? "" : " and code");
}

static __u64 thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Sample this thread. Return: 0 or -errno; @expected and @matched: samples owed and taken. */
static int spin(struct session *s, __u64 period_ns, __u64 *expected, __u64 *matched)
{
	__u64 counters[RPROF_COUNT_MAX], begin, used, end = monotonic_ns() + SPIN_MAX_NS;
	__u32 table;
	int err;

	err = session_follow(s, getpid(), RPROF_PROC_FOLLOW, &table);
	if (!err)
		err = session_start(s);
	if (err)
		return err;
	begin = thread_cpu_ns();
	do
		used = thread_cpu_ns() - begin;
	while (used < SPIN_NS && monotonic_ns() < end);
	session_stop(s);
	err = session_counters(s, counters);
	*expected = used / period_ns;
	*matched = counters[RPROF_COUNT_MATCHED];
	return err;
}

static void report_ticks(struct check_report *r, struct session *s, __u64 period_ns)
{
	static const char subject[] = "samples";
	unsigned long long expected, matched;
	__u64 want = 0, got = 0;
	int err = spin(s, period_ns, &want, &got);

	expected = want;
	matched = got;
	if (err)
		check_add(r, CHECK_IMPOSSIBLE, subject, "-vv shows the kernel's own words",
			  "the events cannot be started: %s", strerror(-err));
	else if (!matched)
		check_add(r, CHECK_IMPOSSIBLE, subject, "is this machine's clock all right?",
			  "none came, %llu were due", expected);
	else if (matched * 100 < expected * (100 - MISSED_PERCENT))
		check_add(r, CHECK_DEGRADED, subject,
			  "look at other BPF programs above, and at the load of the host",
			  "%llu came of %llu that were due: the others were missed", matched,
			  expected);
	else
		check_add(r, CHECK_FINE, subject, NULL, "%llu came of %llu that were due", matched,
			  expected);
}

static void report_cpus(struct check_report *r)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN), all = sysconf(_SC_NPROCESSORS_CONF);

	check_add(r, CHECK_FINE, "CPUs", NULL, "a sampling event on each of %ld online, of %ld",
		  online, all);
}

void check_load(struct check_report *r, bool allowed)
{
	const struct session_sink sink = { 0 };
	struct session_config config = {
		.period_ns = 1000000000ULL / HZ,
		.ring_size = RING_SIZE,
		.max_mappings = MAX_MAPPINGS,
		.filter = RPROF_FILTER_TGID,
	};
	struct session *s;
	int err;

	if (!allowed) {
		check_add(r, CHECK_IMPOSSIBLE, "programs", "see the rights above",
			  "not tried: rights are missing");
		return;
	}
	err = session_open(&config, &sink, &s);
	if (err) {
		check_add(r, CHECK_IMPOSSIBLE, "programs", "-vv shows the kernel's own words",
			  "cannot be loaded, or the events not opened: %s (standard error says "
			  "which)",
			  strerror(-err));
		return;
	}
	report_programs(r);
	report_registers(r);
	report_chain(r);
	report_cpus(r);
	report_ticks(r, s, config.period_ns);
	session_free(s);
}
