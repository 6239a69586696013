// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cputime.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "array.h"

#define MAX_TRIES 50	/* readings of a process's thread list until it is stable */

struct cputime {
	int *fds;
	size_t n_fds, cap_fds;
	bool all, inexact, on_exec;
	bool no_inherit_thread;	/* 5.10: children of the process are inherited as well */
	__u64 busy_at_start;	/* of all CPUs, ns */
};

struct tids {
	__u32 *ids;
	size_t n, cap;
};

struct cputime *cputime_new(void)
{
	return calloc(1, sizeof(struct cputime));
}

/* Close the events opened after the first @n. */
static void close_from(struct cputime *c, size_t n)
{
	while (c->n_fds > n)
		close(c->fds[--c->n_fds]);
}

void cputime_free(struct cputime *c)
{
	if (!c)
		return;
	close_from(c, 0);
	free(c->fds);
	free(c);
}

static int add_event(struct cputime *c, __u32 tid, bool inherit, bool on_exec)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.disabled = 1,
		.inherit = inherit,
		.inherit_thread = inherit && !c->no_inherit_thread, /* 5.13 */
		.enable_on_exec = on_exec,
	};
	int *fds = array_grow(c->fds, &c->cap_fds, c->n_fds + 1, sizeof(*fds));
	int fd;

	if (!fds)
		return -ENOMEM;
	c->fds = fds;
	fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL && inherit && !c->no_inherit_thread) {
		c->no_inherit_thread = true;
		c->inexact = true;
		return add_event(c, tid, inherit, on_exec);
	}
	if (fd < 0)
		return -errno;
	c->on_exec |= on_exec;
	c->fds[c->n_fds++] = fd;
	return 0;
}

static int compare_tids(const void *a, const void *b)
{
	__u32 x = *(const __u32 *)a, y = *(const __u32 *)b;

	return x < y ? -1 : x > y;
}

/* The threads of @pid now, sorted. */
static int read_tids(__u32 pid, struct tids *t)
{
	char path[64];
	struct dirent *e;
	DIR *dir;
	int err = 0;

	t->n = 0;
	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((e = readdir(dir))) {
		__u32 *ids;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		ids = array_grow(t->ids, &t->cap, t->n + 1, sizeof(*ids));
		if (!ids) {
			err = -ENOMEM;
			break;
		}
		t->ids = ids;
		t->ids[t->n++] = strtoul(e->d_name, NULL, 10);
	}
	closedir(dir);
	qsort(t->ids, t->n, sizeof(*t->ids), compare_tids);
	return err;
}

static bool same_tids(const struct tids *a, const struct tids *b)
{
	return a->n == b->n && !memcmp(a->ids, b->ids, a->n * sizeof(*a->ids));
}

/* One event per thread of @before; threads that ended meanwhile need none. */
static int add_threads(struct cputime *c, const struct tids *before)
{
	for (size_t i = 0; i < before->n; i++) {
		int err = add_event(c, before->ids[i], true, false);

		if (err && err != -ESRCH)
			return err;
	}
	return 0;
}

int cputime_add_process(struct cputime *c, __u32 pid, bool on_exec)
{
	struct tids before = {}, after = {};
	size_t n = c->n_fds;
	int err = 0;

	if (on_exec)
		return add_event(c, pid, true, true);
	/*
	 * A thread that appears between the two readings has an inherited event or none, by whether
	 * its parent had one already: it cannot be told, so such a round is done again.
	 */
	for (int i = 0; i < MAX_TRIES; i++) {
		close_from(c, n);
		err = read_tids(pid, &before);
		if (!err)
			err = add_threads(c, &before);
		if (!err)
			err = read_tids(pid, &after);
		if (err || same_tids(&before, &after))
			goto out;
	}
	c->inexact = true;
out:
	free(before.ids);
	free(after.ids);
	return err;
}

int cputime_add_thread(struct cputime *c, __u32 tid)
{
	return add_event(c, tid, false, false);
}

/* Busy time of all CPUs in ns: user, nice, system, irq, softirq and steal of /proc/stat. */
static int read_busy(__u64 *ns)
{
	unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
	FILE *f = fopen("/proc/stat", "re");
	int n;

	if (!f)
		return -errno;
	n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
		   &iowait, &irq, &softirq, &steal);
	fclose(f);
	if (n != 8)
		return -EINVAL;
	*ns = (user + nice + system + irq + softirq + steal) *
	      (1000000000ULL / (__u64)sysconf(_SC_CLK_TCK));
	return 0;
}

int cputime_add_all(struct cputime *c)
{
	c->all = true;
	c->inexact = true;
	return read_busy(&c->busy_at_start);
}

int cputime_start(struct cputime *c)
{
	for (size_t i = 0; i < c->n_fds && !c->on_exec; i++)
		if (ioctl(c->fds[i], PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	return c->all ? read_busy(&c->busy_at_start) : 0;
}

int cputime_read(struct cputime *c, __u64 *ns)
{
	__u64 sum = 0, count;
	int err;

	if (c->all) {
		err = read_busy(&sum);
		*ns = sum - c->busy_at_start;
		return err;
	}
	for (size_t i = 0; i < c->n_fds; i++) {
		if (read(c->fds[i], &count, sizeof(count)) != sizeof(count))
			return -EIO;
		sum += count;
	}
	*ns = sum;
	return 0;
}

bool cputime_exact(const struct cputime *c)
{
	return !c->inexact;
}
