// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "caps.h"
#include "kernel.h"
#include "log.h"
#include "options.h"
#include "proc.h"
#include "target.h"

#define MAX_RATE "/proc/sys/kernel/perf_event_max_sample_rate"

static bool stdout_was_closed;

void preflight_std_fds(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (fd == 1)
			stdout_was_closed = true;
		/* The lowest free descriptor is the one that is missing. */
		if (open("/dev/null", fd ? O_WRONLY : O_RDONLY) < 0)
			return;
	}
}

void preflight_raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int check_rights(void)
{
	struct caps_facts facts;
	char why[1024];
	bool can_try;

	caps_read(&facts);
	can_try = caps_explain(&facts, why, sizeof(why));
	if (!can_try)
		log_error("%s", why);
	else if (*why)
		log_warn("%s", why);
	return can_try ? 0 : -EPERM;
}

static int check_rate(const struct options *o)
{
	FILE *f = fopen(MAX_RATE, "re");
	unsigned int max = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%u", &max) != 1)
		max = 0;
	fclose(f);
	if (!max || o->frequency <= max)
		return 0;
	log_error("-F %u: the kernel throttles above kernel.perf_event_max_sample_rate = %u "
		  "(sysctl kernel.perf_event_max_sample_rate=%u, or a lower -F)",
		  o->frequency, max, o->frequency);
	return -ERANGE;
}

static int create_ring(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "rprof_try", 0, 0,
				(__u32)sysconf(_SC_PAGESIZE), NULL);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

int preflight_ring_buffers(int (*create)(void))
{
	/* Other reasons, as rights or memory, are those of all maps: the load tells them. */
	if (create() != -EINVAL)
		return 0;
	log_error(
		"BPF ring buffers: this kernel has none (they are of Linux 5.8; use Linux 5.10 or "
		"later)");
	return -ENOTSUP;
}

/* In a pid namespace our numbers are not the kernel's own: it must be able to find ours. */
static int check_pid_namespace(void)
{
	int err = proc_init();

	if (err || !proc_is_nested() || kernel_knows_namespaces())
		return err;
	log_error(
		"rprof-bpf runs in a pid namespace of its own (a container?), whose numbers it cannot "
		"find in a kernel without BTF (run it on the host, or with --pid=host)");
	return -ENOTSUP;
}

static int check_pid(__u32 pid)
{
	__u32 tgid;

	switch (target_look(pid, &tgid)) {
	case TARGET_GONE:
		log_error("-p %u: no such process (it may have ended: ps -p %u)", pid, pid);
		return -ESRCH;
	case TARGET_ZOMBIE:
		log_error(
			"-p %u: process has ended and waits for its parent (a zombie): it runs no "
			"more code",
			pid);
		return -ESRCH;
	case TARGET_THREAD:
		log_error("-p %u: is a thread of process %u (use -p %u, or --tid %u)", pid, tgid,
			  tgid, pid);
		return -EINVAL;
	case TARGET_KTHREAD:
		log_info("-p %u: is a kernel thread: its stacks are kernel stacks only", pid);
		return 0;
	case TARGET_OK:
		return 0;
	}
	return 0;
}

static int check_tid(__u32 tid)
{
	__u32 tgid;

	switch (target_look(tid, &tgid)) {
	case TARGET_GONE:
		log_error("--tid %u: no such thread (ls /proc/PID/task lists those of a process)",
			  tid);
		return -ESRCH;
	case TARGET_ZOMBIE:
		log_error("--tid %u: thread has ended: it runs no more code", tid);
		return -ESRCH;
	default:
		return 0;
	}
}

int preflight(const struct options *o)
{
	int err;

	if (stdout_was_closed && !o->output) {
		log_error("standard output is closed, and the profile goes there (use -o FILE)");
		return -EBADF;
	}
	err = check_rights();
	if (!err)
		err = check_rate(o);
	if (!err)
		err = preflight_ring_buffers(create_ring);
	if (!err)
		err = check_pid_namespace();
	for (size_t i = 0; !err && i < o->n_pids; i++)
		err = check_pid(o->pids[i]);
	for (size_t i = 0; !err && i < o->n_tids; i++)
		err = check_tid(o->tids[i]);
	return err;
}
