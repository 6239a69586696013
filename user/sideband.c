// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Layouts: perf_event_open(2) and include/uapi/linux/perf_event.h. With sample_id_all and
 * PERF_SAMPLE_TIME every record ends with its time.
 */
#include "sideband.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "log.h"
#include "sampler.h"

/* Pages per CPU: 256 KiB, 3,000 mappings between two readings. Less where that is not allowed. */
#define RING_PAGES 64u
#define MAX_RECORD 65536u	/* perf_event_header.size has 16 bits */

struct ring {
	int fd;			/* -1: none */
	struct perf_event_mmap_page *page;
	size_t size;		/* of the data, bytes, a power of two */
	__u64 head, tail;	/* during a reading */
	__u64 enabled_ns;	/* for how long, when last looked at */
};

struct sideband {
	sideband_fn fn;
	void *ctx;
	struct ring *rings;	/* per possible CPU */
	unsigned char *online;
	unsigned int n_cpus;
	__u64 record[MAX_RECORD / 8];
	char path[4 * 4096 + 1];	/* PATH_MAX, every byte a newline */
};

struct mmap2_record {
	struct perf_event_header h;
	__u32 pid, tid;
	__u64 addr, len, pgoff;
	__u32 maj, min;
	__u64 ino, ino_generation;
	__u32 prot, flags;
	char filename[];
};

struct task_record {
	struct perf_event_header h;
	__u32 pid, ppid, tid, ptid;
	__u64 time;
};

struct comm_record {
	struct perf_event_header h;
	__u32 pid, tid;
	char comm[];
};

struct lost_record {
	struct perf_event_header h;
	__u64 id, lost;
};

/* maps shows a newline as \012 and nothing else so (show_map_vma() in fs/proc/task_mmu.c). */
static int copy_path(const char *from, size_t max, char *path, size_t size, size_t *len)
{
	size_t n = 0;

	for (size_t i = 0; i < max && from[i]; i++) {
		if (n + 5 > size)
			return -EINVAL;
		if (from[i] == '\n') {
			memcpy(path + n, "\\012", 4);
			n += 4;
		} else {
			path[n++] = from[i];
		}
	}
	path[n] = '\0';
	*len = n;
	return 0;
}

static int parse_map(const struct mmap2_record *r, size_t len, struct sideband_event *event,
		     char *path, size_t size)
{
	struct maps_entry *m = &event->map;

	if (len < sizeof(*r) || (r->h.misc & PERF_RECORD_MISC_MMAP_BUILD_ID))
		return -EINVAL;
	if ((r->h.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER)
		return -ENOENT;
	if (!r->len || __builtin_add_overflow(r->addr, r->len, &m->end))
		return -EINVAL;
	event->kind = SIDEBAND_MAP;
	event->tgid = r->pid;
	m->start = r->addr;
	m->pgoff = r->pgoff;
	m->inode = r->ino;
	m->dev_major = r->maj;
	m->dev_minor = r->min;
	m->executable = r->prot & PROT_EXEC;
	m->readable = r->prot & PROT_READ;
	m->writable = r->prot & PROT_WRITE;
	m->shared = (r->flags & MAP_TYPE) == MAP_SHARED;
	m->path = path;
	/* "//anon", "//toolong", "//enomem": the kernel's words for what has no path. */
	if (!strncmp(r->filename, "//", strnlen(r->filename, 2))) {
		m->path_len = 0;
		path[0] = '\0';
		return m->executable ? 0 : -ENOENT;
	}
	if (copy_path(r->filename, len - sizeof(*r), path, size, &m->path_len))
		return -EINVAL;
	return m->executable ? 0 : -ENOENT;
}

int sideband_parse(const void *data, size_t len, struct sideband_event *event, char *path,
		   size_t size)
{
	const struct perf_event_header *h = data;
	const struct task_record *task = data;
	const struct comm_record *comm = data;
	const struct lost_record *lost = data;

	memset(event, 0, sizeof(*event));
	if (len < sizeof(*h) + 8 || h->size != len || size < 5)
		return -EINVAL;
	len -= 8;
	memcpy(&event->time_ns, (const char *)data + len, 8);
	switch (h->type) {
	case PERF_RECORD_MMAP2:
		return parse_map(data, len, event, path, size);
	case PERF_RECORD_COMM:
		if (len < sizeof(*comm))
			return -EINVAL;
		event->kind = SIDEBAND_EXEC;
		event->tgid = comm->pid;
		return h->misc & PERF_RECORD_MISC_COMM_EXEC ? 0 : -ENOENT;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		if (len < sizeof(*task))
			return -EINVAL;
		event->kind = h->type == PERF_RECORD_FORK ? SIDEBAND_FORK : SIDEBAND_EXIT;
		event->tgid = task->pid;
		event->ppid = task->ppid;
		/* Threads are of no interest. */
		return task->pid == task->tid ? 0 : -ENOENT;
	case PERF_RECORD_LOST:
		if (len < sizeof(*lost))
			return -EINVAL;
		event->kind = SIDEBAND_LOST;
		event->lost = lost->lost;
		return 0;
	default:
		return -ENOENT;
	}
}

static void close_ring(struct ring *r)
{
	if (r->page)
		munmap(r->page, r->size + (size_t)sysconf(_SC_PAGESIZE));
	if (r->fd >= 0)
		close(r->fd);
	*r = (struct ring){ .fd = -1 };
}

static int map_ring(struct ring *r)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t n = RING_PAGES; n; n /= 2) {
		void *p = mmap(NULL, (n + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);

		if (p != MAP_FAILED) {
			r->page = p;
			r->size = n * page;
			return 0;
		}
		/* kernel.perf_event_mlock_kb and RLIMIT_MEMLOCK bound it. */
		if (errno != EPERM && errno != ENOMEM)
			break;
	}
	return -errno;
}

static int open_ring(struct sideband *s, unsigned int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		/* Read on a timer: a wake-up would interrupt the CPU that the target runs on. */
		.watermark = 1,
		.wakeup_watermark = ~0U,
	};
	struct ring *r = &s->rings[cpu];
	int err;

	r->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0) {
		r->fd = -1;
		return -errno;
	}
	err = map_ring(r);
	if (err)
		close_ring(r);
	return err;
}

/* -ENODEV: a CPU that is on its way out. */
static int open_rings(struct sideband *s)
{
	int err = cpus_online(s->online, s->n_cpus);

	for (unsigned int cpu = 0; cpu < s->n_cpus && !err; cpu++) {
		if (!s->online[cpu] || s->rings[cpu].fd >= 0)
			continue;
		err = open_ring(s, cpu);
		if (err == -ENODEV)
			err = 0;
		else if (err)
			log_error("process events of CPU %u: %s (%s)", cpu, strerror(-err),
				  err == -EMFILE ?
					  "raise ulimit -n" :
					  "raise kernel.perf_event_mlock_kb, or ulimit -l");
	}
	return err;
}

int sideband_open(sideband_fn fn, void *ctx, struct sideband **out)
{
	struct sideband *s = calloc(1, sizeof(*s));
	int n = libbpf_num_possible_cpus(), err;

	if (!s)
		return -ENOMEM;
	s->fn = fn;
	s->ctx = ctx;
	s->rings = n > 0 ? calloc((size_t)n, sizeof(*s->rings)) : NULL;
	s->online = n > 0 ? calloc((size_t)n, 1) : NULL;
	if (!s->rings || !s->online) {
		sideband_free(s);
		return -ENOMEM;
	}
	s->n_cpus = (unsigned int)n;
	for (int i = 0; i < n; i++)
		s->rings[i].fd = -1;
	err = open_rings(s);
	if (err) {
		sideband_free(s);
		return err;
	}
	*out = s;
	return 0;
}

void sideband_free(struct sideband *s)
{
	if (!s)
		return;
	for (unsigned int cpu = 0; cpu < s->n_cpus; cpu++)
		close_ring(&s->rings[cpu]);
	free(s->rings);
	free(s->online);
	free(s);
}

static void copy_out(const struct ring *r, __u64 at, void *to, size_t len)
{
	const char *data = (const char *)r->page + r->page->data_offset;
	size_t from = (size_t)(at & (r->size - 1));
	size_t first = len < r->size - from ? len : r->size - from;

	memcpy(to, data + from, first);
	memcpy((char *)to + first, data, len - first);
}

/* The record at the tail of a ring: false if there is none. Its time is its last word. */
static bool peek(const struct ring *r, __u64 *size, __u64 *time_ns)
{
	struct perf_event_header h;

	if (r->head - r->tail < sizeof(h) + 8)
		return false;
	copy_out(r, r->tail, &h, sizeof(h));
	if (h.size < sizeof(h) + 8 || h.size > r->head - r->tail)
		return false;
	copy_out(r, r->tail + h.size - 8, time_ns, 8);
	*size = h.size;
	return true;
}

static void pass_on(struct sideband *s, struct ring *r, __u64 size)
{
	struct sideband_event event;

	copy_out(r, r->tail, s->record, size);
	r->tail += size;
	if (!sideband_parse(s->record, size, &event, s->path, sizeof(s->path)))
		s->fn(s->ctx, &event);
}

static void begin_reading(struct ring *r)
{
	r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	r->tail = r->page->data_tail;
}

static void end_reading(struct ring *r)
{
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

/* The oldest record of all rings, and again. */
void sideband_read(struct sideband *s, __u64 until_ns)
{
	for (unsigned int cpu = 0; cpu < s->n_cpus; cpu++) {
		if (s->rings[cpu].page)
			begin_reading(&s->rings[cpu]);
	}
	for (;;) {
		struct ring *oldest = NULL;
		__u64 size = 0, time_ns = until_ns;

		for (unsigned int cpu = 0; cpu < s->n_cpus; cpu++) {
			struct ring *r = &s->rings[cpu];
			__u64 this_size, this_time;

			if (!r->page || !peek(r, &this_size, &this_time) || this_time > time_ns)
				continue;
			oldest = r;
			size = this_size;
			time_ns = this_time;
		}
		if (!oldest)
			break;
		pass_on(s, oldest, size);
	}
	for (unsigned int cpu = 0; cpu < s->n_cpus; cpu++) {
		if (s->rings[cpu].page)
			end_reading(&s->rings[cpu]);
	}
}

/* The event of a CPU that went offline does not come back with it; of a live one the time runs. */
static bool is_dead(struct ring *r)
{
	__u64 values[2]; /* count, time enabled */

	if (read(r->fd, values, sizeof(values)) != sizeof(values) || values[1] == r->enabled_ns)
		return true;
	r->enabled_ns = values[1];
	return false;
}

/* Between its death and a new ring nobody knows. */
static void tell_lost(struct sideband *s)
{
	const struct sideband_event event = { .kind = SIDEBAND_LOST, .lost = 1 };

	s->fn(s->ctx, &event);
}

void sideband_follow_cpus(struct sideband *s)
{
	for (unsigned int cpu = 0; cpu < s->n_cpus; cpu++) {
		struct ring *r = &s->rings[cpu];

		if (r->fd < 0 || !is_dead(r))
			continue;
		/* Whatever it held is older than what is still to come. */
		begin_reading(r);
		for (__u64 size, time_ns; peek(r, &size, &time_ns);)
			pass_on(s, r, size);
		close_ring(r);
		tell_lost(s);
	}
	open_rings(s);
}
