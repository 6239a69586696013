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
#include "log.h"
#include "proc.h"
#include "target.h"

#define CLOCK_PROOF_NS 2000000ULL /* CPU time that an event cannot overlook */
#define MAX_TRIES 50	/* readings of a process's thread list until it is stable */

struct event {
	int fd;
	__u32 pid;		/* process or thread it counts */
};

/* A process that has a new image: is it still counted? */
struct suspect {
	__u32 pid;
	__u64 clock_ns, count_ns;
};

struct cputime {
	struct cputime_source source;
	struct cpu_clocks clocks;
	struct event *events;
	size_t n_events, cap_events;
	struct suspect *suspects;
	size_t n_suspects, cap_suspects;
	__u64 lost_ns;		/* by the process's clock, while its event was gone */
	bool all, unsure, on_exec;
	bool no_inherit_thread;	/* 5.10: children of the process are inherited as well */
	bool children;		/* and they are meant to be */
	__u64 busy_at_start;	/* of all CPUs, ns */
};

struct task {
	__u32 tid, pid;
};

struct tasks {
	struct task *items;
	size_t n, cap;
};

struct cputime *cputime_new(const struct cputime_source *source)
{
	struct cputime *c = calloc(1, sizeof(*c));

	if (c)
		c->source = *source;
	return c;
}

/* Close the events opened after the first @n. */
static void close_from(struct cputime *c, size_t n)
{
	while (c->n_events > n)
		close(c->events[--c->n_events].fd);
}

void cputime_free(struct cputime *c)
{
	if (!c)
		return;
	close_from(c, 0);
	cpu_clocks_fini(&c->clocks);
	free(c->events);
	free(c->suspects);
	free(c);
}

/* A task-clock event. Return: its descriptor, or -errno. */
static int open_event(struct cputime *c, __u32 tid, bool inherit, bool on_exec)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.disabled = 1,
		.inherit = inherit,
		.inherit_thread = inherit && !c->children && !c->no_inherit_thread, /* 5.13 */
		.enable_on_exec = on_exec,
	};
	int fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EINVAL && attr.inherit_thread) {
		c->no_inherit_thread = true;
		c->unsure = true;
		return open_event(c, tid, inherit, on_exec);
	}
	return fd < 0 ? -errno : fd;
}

static int add_event(struct cputime *c, __u32 pid, __u32 tid, bool inherit, bool on_exec)
{
	struct event *events;
	int fd;

	events = array_grow(c->events, &c->cap_events, c->n_events + 1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	c->events = events;
	fd = open_event(c, tid, inherit, on_exec);
	if (fd < 0)
		return fd;
	c->on_exec |= on_exec;
	c->events[c->n_events++] = (struct event){ fd, pid };
	return 0;
}

static int compare_tasks(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Add the threads of @pid now. */
static int read_tasks(__u32 pid, struct tasks *t)
{
	char path[64];
	struct dirent *e;
	DIR *dir;
	int err = 0;

	proc_path(path, sizeof(path), "%u/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((e = readdir(dir))) {
		struct task *items;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		items = array_grow(t->items, &t->cap, t->n + 1, sizeof(*items));
		if (!items) {
			err = -ENOMEM;
			break;
		}
		t->items = items;
		t->items[t->n++] = (struct task){ strtoul(e->d_name, NULL, 10), pid };
	}
	closedir(dir);
	return err;
}

/* All that is to be counted for the processes @roots now, sorted; at least one of them is there. */
static int read_all_tasks(const struct cputime *c, const __u32 *roots, size_t n, struct tasks *t)
{
	__u32 *pids = NULL;
	int err = 0;

	t->n = 0;
	if (!c->children)
		err = n ? read_tasks(roots[0], t) : 0;
	else
		err = target_descendants(roots, n, &pids, &n);
	for (size_t i = 0; !err && pids && i < n; i++) {
		err = read_tasks(pids[i], t);
		if (err == -ESRCH)
			err = 0;
	}
	free(pids);
	if (!err && !t->n)
		err = -ESRCH;
	qsort(t->items, t->n, sizeof(*t->items), compare_tasks);
	return err;
}

static bool same_tasks(const struct tasks *a, const struct tasks *b)
{
	return a->n == b->n && !memcmp(a->items, b->items, a->n * sizeof(*a->items));
}

/* One event per task of @before; those that ended meanwhile need none. */
static int add_tasks(struct cputime *c, const struct tasks *before)
{
	for (size_t i = 0; i < before->n; i++) {
		int err = add_event(c, before->items[i].pid, before->items[i].tid, true, false);

		if (err && err != -ESRCH)
			return err;
	}
	return 0;
}

/*
 * A task that appears between the two readings has an inherited event or none, by whether its parent
 * had one already: it cannot be told, so such a round is done again.
 */
static int add_roots(struct cputime *c, const __u32 *roots, size_t n_roots)
{
	struct tasks before = {}, after = {};
	size_t n = c->n_events;
	int err = 0;

	for (int i = 0; i < MAX_TRIES; i++) {
		close_from(c, n);
		err = read_all_tasks(c, roots, n_roots, &before);
		if (!err)
			err = add_tasks(c, &before);
		if (!err)
			err = read_all_tasks(c, roots, n_roots, &after);
		if (err || same_tasks(&before, &after))
			goto out;
	}
	c->unsure = true;
out:
	free(before.items);
	free(after.items);
	return err;
}

/*
 * What our own child uses before its exec is not to be counted, and its clock does not tell it apart:
 * an event does, until that exec was seen.
 */
static int add_clock(struct cputime *c, __u32 pid, bool on_exec)
{
	int event = on_exec ? open_event(c, pid, true, true) : -1;

	return on_exec && event < 0 ? event : cpu_clocks_add(&c->clocks, pid, event);
}

int cputime_add_process(struct cputime *c, __u32 pid, bool on_exec)
{
	if (c->source.ended && !c->children)
		return add_clock(c, pid, on_exec);
	return on_exec ? add_event(c, pid, pid, true, true) : add_roots(c, &pid, 1);
}

int cputime_add_trees(struct cputime *c, const __u32 *roots, size_t n)
{
	return n ? add_roots(c, roots, n) : 0;
}

void cputime_with_children(struct cputime *c)
{
	c->children = true;
}

int cputime_add_thread(struct cputime *c, __u32 tid)
{
	return add_event(c, tid, tid, false, false);
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
	return read_busy(&c->busy_at_start);
}

int cputime_start(struct cputime *c)
{
	cpu_clocks_start(&c->clocks);
	for (size_t i = 0; i < c->n_events && !c->on_exec; i++)
		if (ioctl(c->events[i].fd, PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	return c->all ? read_busy(&c->busy_at_start) : 0;
}

/* Sum of the events of @pid; of all for 0. */
static int read_events(const struct cputime *c, __u32 pid, __u64 *ns)
{
	__u64 sum = 0, count;

	for (size_t i = 0; i < c->n_events; i++) {
		if (pid && c->events[i].pid != pid)
			continue;
		if (read(c->events[i].fd, &count, sizeof(count)) != sizeof(count))
			return -EIO;
		sum += count;
	}
	*ns = sum;
	return 0;
}

int cputime_read(struct cputime *c, __u64 *ns)
{
	__u64 sum = 0;
	int err;

	if (c->all) {
		err = read_busy(&sum);
		*ns = sum - c->busy_at_start;
		return err;
	}
	err = read_events(c, 0, &sum);
	sum += c->lost_ns;
	if (!err)
		err = cpu_clocks_read(&c->clocks, &c->source, &sum);
	*ns = sum;
	return err;
}

int cputime_stop(struct cputime *c, __u64 *ns)
{
	int err = cputime_read(c, ns);

	if (!err && !cpu_clocks_await(&c->clocks, &c->source, ns))
		c->unsure = true;
	return err;
}

static bool has_event(const struct cputime *c, __u32 pid)
{
	for (size_t i = 0; i < c->n_events; i++)
		if (c->events[i].pid == pid)
			return true;
	return false;
}

void cputime_on_exec(struct cputime *c, __u32 pid)
{
	struct suspect *grown, s = { .pid = pid };

	cpu_clocks_on_exec(&c->clocks, pid);
	/* What an inherited event has counted is in the sum of the one that it comes from. */
	if (c->all || !has_event(c, pid) || cpu_clock_of(pid, &s.clock_ns) ||
	    read_events(c, pid, &s.count_ns))
		return;
	for (size_t i = 0; i < c->n_suspects; i++)
		if (c->suspects[i].pid == pid) {
			c->suspects[i] = s;
			return;
		}
	grown = array_grow(c->suspects, &c->cap_suspects, c->n_suspects + 1, sizeof(*grown));
	if (!grown)
		return;
	c->suspects = grown;
	c->suspects[c->n_suspects++] = s;
}

/* Is it clear whether this process is counted? If it is not, count it from now on. */
static bool is_settled(struct cputime *c, const struct suspect *s)
{
	__u64 clock, count;
	size_t n = c->n_events;

	if (cpu_clock_of(s->pid, &clock) || read_events(c, s->pid, &count))
		return true;
	if (count > s->count_ns)
		return true;
	if (clock - s->clock_ns < CLOCK_PROOF_NS)
		return false;
	c->unsure = true;
	c->lost_ns += clock - s->clock_ns;
	if (add_event(c, s->pid, s->pid, true, false) ||
	    ioctl(c->events[n].fd, PERF_EVENT_IOC_ENABLE, 0))
		log_debug("process %u: its CPU time is not counted any more", s->pid);
	return true;
}

void cputime_tick(struct cputime *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->n_suspects; i++)
		if (!is_settled(c, &c->suspects[i]))
			c->suspects[kept++] = c->suspects[i];
	c->n_suspects = kept;
}

enum cputime_trust cputime_trust(const struct cputime *c)
{
	return c->unsure ? CPUTIME_UNSURE : c->all ? CPUTIME_COARSE : CPUTIME_EXACT;
}
