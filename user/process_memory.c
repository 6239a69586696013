// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * struct python_memory of a live process. Reads only: no process is stopped or written to.
 *
 * A page may be of a file system that never answers, or of a userfaultfd: who reads it waits, and
 * where the daemon of a FUSE file system has taken the request, not even SIGKILL ends that (fs/fuse/dev.c,
 * request_wait_answer()). A process with a thread in such a wait never ends, so another process reads
 * for us; it is left behind when it does not answer in time, and so is the target that it reads.
 */
#include "python_memory.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "idmap.h"
#include "log.h"
#include "monotonic.h"
#include "proc.h"

#define BATCH 32		/* ranges of one call; nobody has more */
#define BATCH_BYTES (2u << 20)	/* of them all: twice a line table that is not too long */
#define SLICE_MS 10
#define WAIT_MS 100		/* for one read, while the reader is held up by the process, */
#define PERIOD_MS 300		/* and for all of a process */
#define PERIOD_NS 10000000000ULL /* in such a time */
#define MAX_NS 1000000000ULL	/* for one read, where the reader lacks a CPU */
#define MAX_SILENT 4		/* processes: what waiting for them may cost us in all */
#define MAX_READERS 8		/* one after the other */

/* In memory that is shared with the reader, at one address: its pointers are the reader's as well. */
struct request {
	pid_t tgid;
	size_t n;
	struct iovec to[BATCH], from[BATCH];
	ssize_t got;
	__u8 bytes[BATCH_BYTES];
};

/* The main thread's alone. */
static struct {
	struct request *request; /* NULL: there is no reader */
	pid_t pid;
	int socket;
	__u32 silent[MAX_SILENT]; /* processes that did not answer, until we end */
	size_t n_silent, n_started;
	struct idmap waited;	/* tgid -> ms that it held up the reader, in this period */
	__u64 period_ns;	/* its begin */
	bool said;		/* that there is no reader */
	pid_t owner;		/* whose exit() ends it: not that of a child of ours */
} reader;

/* Until the other end is closed. Behind fork(): nothing that is not async-signal-safe. */
static void __attribute__((noreturn)) serve(int socket, struct request *r)
{
	char byte;

	/* Nobody is to wait for what we hold. */
	if (dup2(socket, 0) || close_range(1, ~0U, 0))
		_exit(EXIT_FAILURE);
	while (read(0, &byte, 1) == 1) {
		r->got = process_vm_readv(r->tgid, r->to, r->n, r->from, r->n, 0);
		if (write(0, &byte, 1) != 1)
			break;
	}
	_exit(EXIT_SUCCESS);
}

static int fork_reader(void)
{
	sigset_t all, before;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	/* No handler of ours is to run there, nor is a ^C to end it before us. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	reader.pid = fork();
	if (!reader.pid)
		serve(ends[1], reader.request);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (reader.pid < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	reader.socket = ends[0];
	reader.n_started++;
	return 0;
}

/* With us, and not a moment later: a reader that can be ended is. */
static void end_reader(void)
{
	if (!reader.request || reader.owner != getpid())
		return;
	kill(reader.pid, SIGKILL);
	waitpid(reader.pid, NULL, 0);
}

static int make_reader(void)
{
	void *shared;
	int err;

	if (reader.n_started == MAX_READERS)
		return -ECHILD;
	if (!reader.n_started && !atexit(end_reader))
		reader.owner = getpid();
	shared = mmap(NULL, sizeof(*reader.request), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -ENOMEM;
	reader.request = shared;
	err = fork_reader();
	if (err) {
		munmap(shared, sizeof(*reader.request));
		reader.request = NULL;
	}
	return err;
}

static int start(void)
{
	int err = make_reader();

	if (err && !reader.said)
		log_warn(
			"memory of processes cannot be read: no process for it: %s (free memory, or "
			"raise ulimit -u): their Python is not found",
			strerror(-err));
	reader.said |= err;
	return err;
}

/*
 * What it still reads it writes to memory that is not ours any more.
 * @err: why it is left: -ETIMEDOUT: it may not be able to end before the process answers
 */
static void leave_reader(int err)
{
	kill(reader.pid, SIGKILL);
	close(reader.socket);
	munmap(reader.request, sizeof(*reader.request));
	reader.request = NULL;
	waitpid(reader.pid, NULL, err == -ETIMEDOUT ? WNOHANG : 0);
}

static bool is_silent(__u32 tgid)
{
	if (reader.n_silent == MAX_SILENT)
		return true;
	for (size_t i = 0; i < reader.n_silent; i++) {
		if (reader.silent[i] == tgid)
			return true;
	}
	return false;
}

static void note_silent(__u32 tgid)
{
	reader.silent[reader.n_silent++] = tgid;
	log_warn(
		"process %u: its memory does not answer in time (of a file system, or a userfaultfd, that hangs): "
		"it is not read any more, Python names may be missing",
		tgid);
	if (reader.n_silent == MAX_SILENT)
		log_warn(
			"the memory of %d processes does not answer in time: no process's memory is read any "
			"more, Python names may be missing",
			MAX_SILENT);
}

/* It runs, or would if it had a CPU. */
static bool reader_is_running(void)
{
	char path[64], state = '?';
	FILE *f;

	proc_path(path, sizeof(path), "%d/stat", reader.pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	fclose(f);
	return state == 'R';
}

/* Return: what @tgid has made us wait in this period, another SLICE_MS included. */
static __u32 charge(__u32 tgid, __u64 now)
{
	__u32 ms = 0;

	if (now - reader.period_ns >= PERIOD_NS) {
		reader.period_ns = now;
		idmap_fini(&reader.waited);
	}
	idmap_find(&reader.waited, tgid, 0, &ms);
	ms += SLICE_MS;
	idmap_put(&reader.waited, tgid, 0, ms);
	return ms;
}

/* Return: 0; -ETIMEDOUT: it waits for the process; another -errno: there is no reader any more. */
static int ask(__u32 tgid)
{
	const __u64 end = monotonic_ns() + MAX_NS;
	struct pollfd p = { .fd = reader.socket, .events = POLLIN };
	int n, waited = 0;
	char byte = 0;

	if (send(reader.socket, &byte, 1, MSG_NOSIGNAL) != 1)
		return -ECONNRESET;
	while ((n = poll(&p, 1, SLICE_MS)) <= 0) {
		const __u64 now = monotonic_ns();

		if (n < 0 && errno != EINTR)
			return -ECONNRESET;
		if (now >= end)
			return -ETIMEDOUT;
		if (n < 0 || reader_is_running())
			continue;
		/* It may have answered since, and wait for the next request. */
		if (poll(&p, 1, 0) > 0)
			break;
		waited += SLICE_MS;
		if (waited >= WAIT_MS || charge(tgid, now) >= PERIOD_MS)
			return -ETIMEDOUT;
	}
	return recv(reader.socket, &byte, 1, MSG_DONTWAIT) == 1 ? 0 : -ECONNRESET;
}

/* As many of @ranges as one request takes. */
static void fill_request(struct request *r, __u32 tgid, const struct python_range *ranges, size_t n)
{
	size_t used = 0;

	r->tgid = (pid_t)tgid;
	r->got = -1;
	for (r->n = 0; r->n < n && r->n < BATCH; r->n++) {
		const struct python_range *range = &ranges[r->n];

		if (range->len > sizeof(r->bytes) - used)
			break;
		r->to[r->n] = (struct iovec){ r->bytes + used, range->len };
		r->from[r->n] = (struct iovec){ (void *)(uintptr_t)range->addr, range->len };
		used += range->len;
	}
}

/*
 * One process_vm_readv(2), which returns what it has at the first range that it cannot read.
 * @all: whether every range that was asked for was read
 */
static size_t read_batch(__u32 tgid, const struct python_range *ranges, size_t n, bool *all)
{
	struct request *r;
	size_t done = 0;
	ssize_t got;
	int err;

	*all = false;
	if (is_silent(tgid) || (!reader.request && start()))
		return 0;
	r = reader.request;
	fill_request(r, tgid, ranges, n);
	err = ask(tgid);
	if (err) {
		leave_reader(err);
		if (err == -ETIMEDOUT)
			note_silent(tgid);
		return 0;
	}
	for (got = r->got; done < r->n && got >= 0 && (size_t)got >= ranges[done].len; done++) {
		memcpy(ranges[done].to, r->to[done].iov_base, ranges[done].len);
		got -= (ssize_t)ranges[done].len;
	}
	*all = done && done == r->n;
	return done;
}

static size_t read_ranges(void *ctx, const struct python_range *ranges, size_t n)
{
	const __u32 tgid = (__u32)(uintptr_t)ctx;
	bool all = true;
	size_t done = 0;

	while (done < n && all)
		done += read_batch(tgid, ranges + done, n - done, &all);
	return done;
}

struct python_memory python_memory_of(__u32 tgid)
{
	return (struct python_memory){ .ctx = (void *)(uintptr_t)tgid, .read = read_ranges };
}
