// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The kernel and its settings: what they are, and what a run makes of them. */
#include <dlfcn.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "caps.h"
#include "check_parts.h"
#include "check_report.h"
#include "kernel.h"
#include "ksyms.h"
#include "proc.h"
#include "rprof/record.h"

#define MIN_NOFILE 1024		/* descriptors: events for each CPU and thread, files of targets */

#define MIN_MLOCK_KB 260	/* sideband.c: 64 pages and one; less is tried then */

#define SYSCTL(path) ("/proc/sys/" path)

static int read_number(const char *path)
{
	int value = CAPS_UNKNOWN, n;
	FILE *f = fopen(path, "re");

	if (!f)
		return CAPS_UNKNOWN;
	n = fscanf(f, "%d", &value);
	fclose(f);
	return n == 1 ? value : CAPS_UNKNOWN;
}

/* A line of @path that begins with @key: what stands behind it. */
static bool read_line(const char *path, const char *key, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool found = false;

	if (!f)
		return false;
	while (!found && fgets(buf, (int)size, f))
		found = !strncmp(buf, key, strlen(key));
	fclose(f);
	if (found)
		memmove(buf, buf + strlen(key), strlen(buf + strlen(key)) + 1);
	return found;
}

/* "cpu  user nice system idle iowait irq softirq steal ...", proc(5). */
static double steal_percent(void)
{
	unsigned long long v[8], all = 0;
	char line[512];

	if (!read_line("/proc/stat", "cpu ", line, sizeof(line)) ||
	    sscanf(line, "%llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
		   &v[4], &v[5], &v[6], &v[7]) != 8)
		return -1;
	for (int i = 0; i < 8; i++)
		all += v[i];
	return all ? 100.0 * v[7] / all : -1;
}

static bool is_virtual_machine(void)
{
	char line[8192];

	/* x86: a bit of CPUID. s390x: a line of its own, in a machine of KVM or z/VM. */
	if (read_line("/proc/cpuinfo", "flags", line, sizeof(line)) && strstr(line, " hypervisor"))
		return true;
	return read_line("/proc/sysinfo", "VM00 Name:", line, sizeof(line));
}

void check_read_settings(struct check_settings *s)
{
	struct rlimit limit;
	struct utsname name;
	char status[64], seccomp[64];

	*s = (struct check_settings){
		.jit = read_number(SYSCTL("net/core/bpf_jit_enable")),
		.max_rate = read_number(SYSCTL("kernel/perf_event_max_sample_rate")),
		.cpu_percent = read_number(SYSCTL("kernel/perf_cpu_time_max_percent")),
		.mlock_kb = read_number(SYSCTL("kernel/perf_event_mlock_kb")),
		.max_stack = read_number(SYSCTL("kernel/perf_event_max_stack")),
		.unprivileged = read_number(SYSCTL("kernel/unprivileged_bpf_disabled")),
		.has_btf = !access("/sys/kernel/btf/vmlinux", R_OK),
		.virtual_machine = is_virtual_machine(),
		.steal_percent = steal_percent(),
	};
	kernel_offsets(&s->places);
	if (!uname(&name)) {
		snprintf(s->release, sizeof(s->release), "%s", name.release);
		snprintf(s->machine, sizeof(s->machine), "%s", name.machine);
	}
	proc_path(status, sizeof(status), "self/status");
	if (read_line(status, "Seccomp:", seccomp, sizeof(seccomp)))
		s->seccomp = atoi(seccomp);
	if (!getrlimit(RLIMIT_NOFILE, &limit))
		s->nofile = limit.rlim_max;
}

static void check_version(struct check_report *r, const struct check_settings *s)
{
	unsigned int major = 0, minor = 0;

	if (sscanf(s->release, "%u.%u", &major, &minor) == 2 &&
	    (major < 5 || (major == 5 && minor < 10)))
		check_add(r, CHECK_DEGRADED, "version", "Linux 5.10 or later",
			  "Linux %s, %s: older than what this is tested with", s->release,
			  s->machine);
	else
		check_add(r, CHECK_FINE, "version", NULL, "Linux %s, %s", s->release, s->machine);
}

/* What a run cannot do without one of the places in a task_struct. */
static void check_places(struct check_report *r, const struct rprof_config *c)
{
	static const char subject[] = "BTF", remedy[] = "a kernel with CONFIG_DEBUG_INFO_BTF";

	if (!c->task_stack)
		check_add(r, CHECK_DEGRADED, subject, remedy,
			  "there is none, and no kernel stack was found: samples taken inside the "
			  "kernel lack their user frames");
	if (!c->task_tp)
		check_add(r, CHECK_DEGRADED, subject, remedy,
			  "there is none, and no thread pointer was found: threads of Python 3.11 "
			  "and later are told by their numbers, others not at all");
	if (!c->task_tgid)
		check_add(r, CHECK_DEGRADED, subject, remedy,
			  "there is none, and no number of a task was found: what children do at "
			  "first is missed (-s)");
}

static void check_btf(struct check_report *r, const struct check_settings *s)
{
	const struct rprof_config *c = &s->places;

	if (s->has_btf)
		check_add(r, CHECK_FINE, "BTF", NULL, "the kernel describes its types");
	else if (c->task_stack && c->task_tp && c->task_tgid)
		check_add(r, CHECK_FINE, "BTF", NULL,
			  "there is none: what a run needs of the kernel's types was found by "
			  "looking at threads of our own");
	else
		check_places(r, c);
}

static void check_jit(struct check_report *r, const struct check_settings *s)
{
	if (s->jit == 0)
		check_add(r, CHECK_DEGRADED, "BPF JIT", "sysctl net.core.bpf_jit_enable=1",
			  "off: BPF programs are interpreted, a sample costs about 3 times as "
			  "much");
	else if (s->jit > 0)
		check_add(r, CHECK_FINE, "BPF JIT", NULL, "net.core.bpf_jit_enable=%d", s->jit);
	/* Else it cannot be read; what became of our own programs is in "programs". */
}

static void check_lockdown(struct check_report *r, const struct caps_facts *caps)
{
	if (!strcmp(caps->lockdown, "confidentiality"))
		check_add(r, CHECK_IMPOSSIBLE, "lockdown", "boot without lockdown=confidentiality",
			  "confidentiality: BPF programs may not read kernel memory");
	else
		check_add(r, CHECK_FINE, "lockdown", NULL, "%s",
			  *caps->lockdown ? caps->lockdown :
					    "not in this kernel, or not to be seen");
}

static void check_bpf_rights(struct check_report *r, const struct check_settings *s)
{
	if (s->unprivileged >= 0)
		check_add(r, CHECK_FINE, "unprivileged BPF", NULL,
			  "kernel.unprivileged_bpf_disabled=%d: does not matter, tracing takes "
			  "CAP_BPF and CAP_PERFMON anyway",
			  s->unprivileged);
	if (s->seccomp == 2)
		check_add(r, CHECK_FINE, "seccomp", NULL,
			  "a filter is on us, as in a container: where bpf() or "
			  "perf_event_open() are refused below, it may be why");
}

static void check_paranoid(struct check_report *r, const struct caps_facts *caps)
{
	const int level = caps->perf_event_paranoid;

	if (level == CAPS_UNKNOWN)
		check_add(r, CHECK_IMPOSSIBLE, "perf events", "a kernel with CONFIG_PERF_EVENTS",
			  "there is no kernel.perf_event_paranoid: no perf events here");
	else if (level >= 4 && !(caps->effective & (1ull << CAP_SYS_ADMIN)))
		/* Ubuntu's level 4 asks for CAP_SYS_ADMIN; others have none above 3. */
		check_add(r, CHECK_DEGRADED, "perf events", "sysctl kernel.perf_event_paranoid=2",
			  "kernel.perf_event_paranoid=%d may ask for CAP_SYS_ADMIN", level);
	else
		check_add(r, CHECK_FINE, "perf events", NULL,
			  "kernel.perf_event_paranoid=%d: CAP_PERFMON is enough", level);
}

static void check_rate(struct check_report *r, const struct check_settings *s, __u32 frequency)
{
	char advice[80];

	if (s->max_rate < 0)
		return;
	if ((__u32)s->max_rate >= frequency) {
		check_add(r, CHECK_FINE, "sampling rate", NULL,
			  "up to %d Hz (kernel.perf_event_max_sample_rate)", s->max_rate);
		return;
	}
	snprintf(advice, sizeof(advice), "-F %d, or sysctl kernel.perf_event_max_sample_rate=%u",
		 s->max_rate, frequency);
	check_add(r, CHECK_IMPOSSIBLE, "sampling rate", advice,
		  "-F %u is refused: the kernel throttles above %d Hz "
		  "(kernel.perf_event_max_sample_rate)",
		  frequency, s->max_rate);
}

static void check_limits(struct check_report *r, const struct check_settings *s, bool may_lock)
{
	/* perf_cpu_time_max_percent_handler() in kernel/events/core.c: 0 and 100 turn it off. */
	if (s->cpu_percent == 0 || s->cpu_percent == 100)
		check_add(r, CHECK_FINE, "sampling time", NULL,
			  "not limited (kernel.perf_cpu_time_max_percent=%d)", s->cpu_percent);
	else if (s->cpu_percent > 0)
		check_add(
			r, CHECK_FINE, "sampling time", NULL,
			"the kernel lowers the allowed rate where samples take more than %d %% of "
			"a CPU (kernel.perf_cpu_time_max_percent)",
			s->cpu_percent);
	if (s->mlock_kb >= 0 && s->mlock_kb < MIN_MLOCK_KB && !may_lock)
		check_add(r, CHECK_DEGRADED, "perf buffers",
			  "sysctl kernel.perf_event_mlock_kb=516, or CAP_IPC_LOCK",
			  "%d KiB for each CPU (kernel.perf_event_mlock_kb): in a burst of process "
			  "events some are lost",
			  s->mlock_kb);
	else if (s->mlock_kb >= 0)
		check_add(r, CHECK_FINE, "perf buffers", NULL,
			  "%d KiB for each CPU (kernel.perf_event_mlock_kb)", s->mlock_kb);
}

static void check_sizes(struct check_report *r, const struct check_settings *s)
{
	if (s->max_stack >= 0 && s->max_stack < RPROF_MAX_KERNEL)
		check_add(r, CHECK_DEGRADED, "kernel stacks",
			  "sysctl kernel.perf_event_max_stack=127",
			  "cut at %d frames (kernel.perf_event_max_stack)", s->max_stack);
	else if (s->max_stack >= 0)
		check_add(r, CHECK_FINE, "kernel stacks", NULL,
			  "up to %d frames (kernel.perf_event_max_stack)", RPROF_MAX_KERNEL);
	if (s->nofile < MIN_NOFILE)
		check_add(r, CHECK_DEGRADED, "open files", "raise ulimit -Hn",
			  "at most %llu: too few for many CPUs, threads or mapped files",
			  (unsigned long long)s->nofile);
	else if (s->nofile == ~0ULL)
		check_add(r, CHECK_FINE, "open files", NULL, "not limited");
	else
		check_add(r, CHECK_FINE, "open files", NULL, "up to %llu",
			  (unsigned long long)s->nofile);
}

static void check_machine(struct check_report *r, const struct check_settings *s)
{
	if (!s->virtual_machine)
		return;
	if (s->steal_percent < 0)
		check_add(r, CHECK_FINE, "virtual machine", NULL,
			  "yes: samples come late while the host runs others");
	else
		check_add(r, CHECK_FINE, "virtual machine", NULL,
			  "yes: samples come late while the host runs others: %.1f %% of the time "
			  "since the start (steal)",
			  s->steal_percent);
}

void check_settings(struct check_report *r, const struct check_settings *s,
		    const struct caps_facts *caps, __u32 frequency)
{
	check_version(r, s);
	check_machine(r, s);
	check_btf(r, s);
	check_jit(r, s);
	check_lockdown(r, caps);
	check_bpf_rights(r, s);
	check_paranoid(r, caps);
	check_rate(r, s, frequency);
	check_limits(r, s, caps->effective & (1ull << CAP_IPC_LOCK));
	check_sizes(r, s);
}

void check_pid_namespace(struct check_report *r)
{
	static const char subject[] = "pid namespace";

	if (!proc_is_nested())
		check_add(r, CHECK_FINE, subject, NULL, "the first: our numbers are the kernel's");
	else if (kernel_knows_namespaces())
		check_add(r, CHECK_FINE, subject, NULL,
			  "our own, as in a container: only the processes in it can be named by "
			  "number");
	else
		check_add(r, CHECK_IMPOSSIBLE, subject, "run it on the host, or with --pid=host",
			  "our own, as in a container, whose numbers cannot be found in a kernel "
			  "without BTF");
}

void check_kernel_symbols(struct check_report *r, const struct caps_facts *caps)
{
	static const char subject[] = "kernel symbols";
	struct ksyms *k = ksyms_load();

	if (!k)
		check_add(r, CHECK_DEGRADED, subject,
			  "a kernel with CONFIG_KALLSYMS, /proc mounted",
			  "/proc/kallsyms cannot be read: kernel frames have no names");
	else if (!ksyms_hidden(k))
		check_add(r, CHECK_FINE, subject, NULL, "/proc/kallsyms can be read");
	else if (caps->kptr_restrict >= 2)
		check_add(r, CHECK_DEGRADED, subject, "sysctl kernel.kptr_restrict=1",
			  "hidden from everybody (kernel.kptr_restrict=%d): kernel frames have no "
			  "names",
			  caps->kptr_restrict);
	else
		check_add(r, CHECK_DEGRADED, subject, "run it as root, with CAP_SYSLOG",
			  "hidden from us: CAP_SYSLOG is missing: kernel frames have no names");
	ksyms_free(k);
}

void check_debuginfod(struct check_report *r)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	void *library;

	if (!urls || !*urls) {
		check_add(r, CHECK_FINE, "debuginfod", NULL,
			  "not asked for debug information (DEBUGINFOD_URLS is not set)");
		return;
	}
	library = dlopen("libdebuginfod.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (library)
		check_add(r, CHECK_FINE, "debuginfod", NULL,
			  "asked for debug information of files that have none of their own "
			  "(DEBUGINFOD_URLS)");
	else
		check_add(r, CHECK_DEGRADED, "debuginfod", "install libdebuginfod1 (elfutils)",
			  "DEBUGINFOD_URLS is set, and libdebuginfod.so.1 is not here: not asked");
	if (library)
		dlclose(library);
}
