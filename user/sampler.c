// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sampler.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

#define ONLINE "/sys/devices/system/cpu/online"

struct sampler {
	int prog_fd;
	__u64 period_ns;
	unsigned int n_possible;
	int *fds;		/* per possible CPU; -1: none */
	__u64 *counts;		/* of each event when last looked at, ns */
	unsigned char *online;	/* as last seen */
	unsigned char *running;	/* enabled */
	bool explained;		/* a failure that is tried again is said once */
};

int cpus_parse(const char *list, unsigned char *set, unsigned int n)
{
	const char *p = list;

	memset(set, 0, n);
	while (*p && *p != '\n') {
		unsigned long from, to;
		char *end;

		from = strtoul(p, &end, 10);
		if (end == p)
			return -EINVAL;
		to = from;
		if (*end == '-') {
			p = end + 1;
			to = strtoul(p, &end, 10);
			if (end == p)
				return -EINVAL;
		}
		if (to < from || to >= n)
			return -EINVAL;
		memset(set + from, 1, to - from + 1);
		p = end;
		if (*p == ',')
			p++;
		else if (*p && *p != '\n')
			return -EINVAL;
	}
	return 0;
}

int cpus_online(unsigned char *set, unsigned int n_cpus)
{
	char list[4096];
	FILE *f = fopen(ONLINE, "re");
	size_t n;

	if (!f)
		return -errno;
	n = fread(list, 1, sizeof(list) - 1, f);
	list[n] = '\0';
	fclose(f);
	return cpus_parse(list, set, n_cpus);
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	for (unsigned int i = 0; s->fds && i < s->n_possible; i++)
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	free(s->fds);
	free(s->online);
	free(s->running);
	free(s->counts);
	free(s);
}

static void explain_open(unsigned int cpu, int err)
{
	if (err == -EMFILE)
		log_error("perf_event_open: CPU %u: too many open files (raise ulimit -n)", cpu);
	else if (err == -EPERM || err == -EACCES)
		log_error(
			"perf_event_open: CPU %u: %s: forbidden by kernel.perf_event_paranoid, by "
			"the seccomp filter of a container or by a security module (run as root, "
			"outside of the container or with --privileged)",
			cpu, strerror(-err));
	else
		log_error("perf_event_open: CPU %u: cpu-clock: %s", cpu, strerror(-err));
}

/* -ENODEV: it is offline by now. */
static int open_cpu(struct sampler *s, unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = s->period_ns,
		.disabled = 1,
	};
	int fd, err;

	fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, s->prog_fd)) {
		err = -errno;
		close(fd);
		return err;
	}
	s->fds[cpu] = fd;
	s->counts[cpu] = 0;
	s->running[cpu] = 0;
	log_debug("CPU %u: sampling event opened", cpu);
	return 0;
}

static void stop_cpu(struct sampler *s, unsigned int cpu)
{
	close(s->fds[cpu]);
	s->fds[cpu] = -1;
	log_debug("CPU %u: sampling event closed", cpu);
}

/*
 * The event of a CPU that went offline is dead and does not come back with it. A live one counts
 * time, also when its CPU is idle, so one that stands still is of a CPU that was away.
 */
static bool is_dead(struct sampler *s, unsigned int cpu)
{
	__u64 count;

	if (read(s->fds[cpu], &count, sizeof(count)) != sizeof(count) || count == s->counts[cpu])
		return true;
	s->counts[cpu] = count;
	return false;
}

/* Events for CPUs that are online and have none; dead ones are closed. */
static int open_cpus(struct sampler *s)
{
	int err = cpus_online(s->online, s->n_possible);

	if (err) {
		if (!s->explained)
			log_error("%s: %s", ONLINE, strerror(-err));
		s->explained = true;
		return err;
	}
	for (unsigned int cpu = 0; cpu < s->n_possible; cpu++) {
		if (s->fds[cpu] >= 0 && (!s->online[cpu] || (s->running[cpu] && is_dead(s, cpu))))
			stop_cpu(s, cpu);
		if (!s->online[cpu] || s->fds[cpu] >= 0)
			continue;
		err = open_cpu(s, cpu);
		if (err && err != -ENODEV) {
			if (!s->explained)
				explain_open(cpu, err);
			s->explained = true;
			return err;
		}
	}
	return 0;
}

int sampler_new(int prog_fd, __u64 period_ns, struct sampler **out)
{
	struct sampler *s = calloc(1, sizeof(*s));
	int n = libbpf_num_possible_cpus(), err;

	if (!s || n <= 0)
		goto nomem;
	s->prog_fd = prog_fd;
	s->period_ns = period_ns;
	s->n_possible = n;
	s->fds = malloc(n * sizeof(*s->fds));
	s->online = calloc(n, 1);
	s->running = calloc(n, 1);
	s->counts = calloc(n, sizeof(*s->counts));
	if (!s->fds || !s->online || !s->running || !s->counts)
		goto nomem;
	for (int i = 0; i < n; i++)
		s->fds[i] = -1;
	err = open_cpus(s);
	if (err) {
		sampler_free(s);
		return err;
	}
	*out = s;
	return 0;
nomem:
	sampler_free(s);
	return -ENOMEM;
}

int sampler_follow_cpus(struct sampler *s)
{
	int err = open_cpus(s), n = 0;

	if (err)
		return err;
	/* In a loop of its own: with many CPUs opening takes long, and the first must not run ahead. */
	for (unsigned int cpu = 0; cpu < s->n_possible; cpu++) {
		if (s->fds[cpu] < 0)
			continue;
		n++;
		if (s->running[cpu])
			continue;
		if (ioctl(s->fds[cpu], PERF_EVENT_IOC_ENABLE, 0)) {
			err = -errno;
			explain_open(cpu, err);
			return err;
		}
		s->running[cpu] = 1;
	}
	return n;
}

void sampler_stop(struct sampler *s)
{
	/* Disabling runs on the event's CPU: a program that is running there ends first. */
	for (unsigned int i = 0; i < s->n_possible; i++)
		if (s->fds[i] >= 0)
			ioctl(s->fds[i], PERF_EVENT_IOC_DISABLE, 0);
}
