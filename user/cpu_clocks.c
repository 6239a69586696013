// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cpu_clocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "array.h"
#include "monotonic.h"
#include "proc.h"

#define AWAIT_NS 1000000000ULL
#define AWAIT_STEP_NS 2000000

struct cpu_clock {
	__u32 pid;
	int proc_dir;		/* its number may be given out again: this says which one is meant */
	int event;		/* counts until its first exec was seen, and from that exec on; -1 */
	__u64 base_ns;		/* what is not ours */
	__u64 last_ns;
	bool gone;		/* .last_ns is all there will be */
	bool late;		/* it may lack what was used soon after the exec */
};

static void close_clock(struct cpu_clock *c)
{
	if (c->event >= 0)
		close(c->event);
	if (c->proc_dir >= 0)
		close(c->proc_dir);
}

void cpu_clocks_fini(struct cpu_clocks *cs)
{
	for (size_t i = 0; i < cs->n; i++)
		close_clock(&cs->items[i]);
	free(cs->items);
	*cs = (struct cpu_clocks){};
}

int cpu_clock_of(__u32 pid, __u64 *ns)
{
	struct timespec ts;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ts))
		return -ESRCH;
	*ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
	return 0;
}

/* Return: 0; -ESRCH: it is gone, and not even a zombie. */
static int read_clock(const struct cpu_clock *c, __u64 *ns)
{
	__u64 now;

	if (cpu_clock_of(c->pid, &now))
		return -ESRCH;
	/* Was that it, and not the next owner of its number? A zombie has all its files. */
	if (faccessat(c->proc_dir, "stat", F_OK, 0))
		return -ESRCH;
	*ns = now;
	return 0;
}

static int read_event(const struct cpu_clock *c, __u64 *ns)
{
	return read(c->event, ns, sizeof(*ns)) == sizeof(*ns) ? 0 : -EIO;
}

int cpu_clocks_add(struct cpu_clocks *cs, __u32 pid, int event)
{
	struct cpu_clock *grown, c = { .pid = pid, .event = event };
	int err = 0;

	grown = array_grow(cs->items, &cs->cap, cs->n + 1, sizeof(*grown));
	if (grown)
		cs->items = grown;
	c.proc_dir = proc_open(pid);
	if (c.proc_dir < 0)
		err = c.proc_dir;
	else if (event < 0)
		err = read_clock(&c, &c.base_ns);
	if (!grown)
		err = -ENOMEM;
	if (err) {
		close_clock(&c);
		return err;
	}
	c.last_ns = c.base_ns;
	cs->items[cs->n++] = c;
	return 0;
}

void cpu_clocks_start(struct cpu_clocks *cs)
{
	for (size_t i = 0; i < cs->n; i++) {
		struct cpu_clock *c = &cs->items[i];

		if (c->event < 0 && !read_clock(c, &c->last_ns))
			c->base_ns = c->last_ns;
	}
}

/*
 * The clock tells all that the event lacks: what was used before it began. Of a set-user-ID program
 * the kernel takes the event away, and it stays at 0 (perf_event_exec() in kernel/events/core.c).
 */
static void switch_to_clock(struct cpu_clock *c)
{
	__u64 ns, count;

	if (c->event < 0 || read_clock(c, &ns) || read_event(c, &count) || count > ns)
		return;
	c->late = !count;
	c->base_ns = ns - count;
	c->last_ns = ns;
	close(c->event);
	c->event = -1;
}

void cpu_clocks_on_exec(struct cpu_clocks *cs, __u32 pid)
{
	for (size_t i = 0; i < cs->n; i++)
		if (cs->items[i].pid == pid)
			switch_to_clock(&cs->items[i]);
}

/* Return: 0; -ENOENT: it is gone, and what it had used is not told yet; -EIO. */
static int look(struct cpu_clock *c, const struct cputime_source *source)
{
	__u64 ns;

	if (c->gone)
		return 0;
	if (c->event >= 0) {
		if (read_event(c, &ns))
			return -EIO;
		c->last_ns = c->base_ns + ns;
		return 0;
	}
	if (read_clock(c, &ns)) {
		if (source->ended(source->ctx, c->pid, &ns))
			return -ENOENT;
		c->gone = true;
	}
	c->last_ns = ns;
	return 0;
}

int cpu_clocks_read(struct cpu_clocks *cs, const struct cputime_source *source, __u64 *ns)
{
	for (size_t i = 0; i < cs->n; i++) {
		struct cpu_clock *c = &cs->items[i];

		if (look(c, source) == -EIO)
			return -EIO;
		*ns += c->last_ns - c->base_ns;
	}
	return 0;
}

bool cpu_clocks_await(struct cpu_clocks *cs, const struct cputime_source *source, __u64 *ns)
{
	const struct timespec step = { .tv_nsec = AWAIT_STEP_NS };
	__u64 until = monotonic_ns() + AWAIT_NS, now;
	bool all = true;

	for (size_t i = 0; i < cs->n; i++) {
		struct cpu_clock *c = &cs->items[i];
		__u64 was = c->last_ns;

		all &= !c->late;
		if (c->gone || c->event >= 0 || !read_clock(c, &now))
			continue;
		while (look(c, source) && monotonic_ns() < until)
			nanosleep(&step, NULL);
		*ns += c->last_ns - was;
		all &= c->gone;
	}
	return all;
}
