// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inlines.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "array.h"
#include "escape.h"
#include "idmap.h"
#include "inline_worker.h"
#include "log.h"
#include "monotonic.h"
#include "target_file.h"

#define MAX_FILES 512		/* each a descriptor */
#define MAX_READERS 8		/* processes at a time; each may take half a GiB */
#define QUERY_NS 1000000000ULL
#define FILE_NS (10 * QUERY_NS)

struct inline_file {
	int fd;			/* -1: given up */
	int socket;		/* -1: no reader */
	pid_t reader;
	__u64 last_use;		/* number of a query */
	__u64 time_ns;		/* waited for it */
	bool damaged;
};

struct inlines {
	struct inline_file *files;
	size_t n_files;
	size_t cap_files;
	struct idmap by_number;		/* (file, 0) to an index of files */
	size_t n_readers;
	__u64 number;			/* of the last query */
	struct inlines_report report;
	const char *names[INLINE_MAX_CALLS];
	_Alignas(struct inline_answer) char answer[INLINE_MAX_ANSWER];
};

struct inlines *inlines_new(void)
{
	struct inlines *in = calloc(1, sizeof(*in));

	if (in)
		idmap_init(&in->by_number);
	return in;
}

int inlines_add(struct inlines *in, __u32 file, int fd)
{
	struct inline_file *grown;
	__u32 i;
	int err;

	if (idmap_find(&in->by_number, file, 0, &i))
		err = -EEXIST;
	else if (in->n_files == MAX_FILES)
		err = -EMFILE;
	else
		err = idmap_put(&in->by_number, file, 0, (__u32)in->n_files);
	grown = err ? NULL : array_grow(in->files, &in->cap_files, in->n_files + 1, sizeof(*grown));
	if (!grown) {
		close(fd);
		return err ? err : -ENOMEM;
	}
	in->files = grown;
	in->files[in->n_files++] = (struct inline_file){ .fd = fd, .socket = -1 };
	in->report.files++;
	return 0;
}

static void end_reader(struct inlines *in, struct inline_file *f)
{
	if (f->socket < 0)
		return;
	close(f->socket);
	f->socket = -1;
	kill(f->reader, SIGKILL);
	while (waitpid(f->reader, NULL, 0) < 0 && errno == EINTR)
		;
	in->n_readers--;
}

void inlines_free(struct inlines *in)
{
	if (!in)
		return;
	for (size_t i = 0; i < in->n_files; i++) {
		end_reader(in, &in->files[i]);
		if (in->files[i].fd >= 0)
			close(in->files[i].fd);
	}
	free(in->files);
	idmap_fini(&in->by_number);
	free(in);
}

void inlines_report(const struct inlines *in, struct inlines_report *out)
{
	*out = in->report;
}

static void warn(const struct inline_file *f, const char *what)
{
	char path[PATH_MAX] = "?", *name = NULL;

	if (!target_file_path(f->fd, path, sizeof(path)))
		name = escape_string(path, strlen(path));
	log_warn("--inlines: %s: %s", name ? name : "?", what);
	free(name);
}

static void give_up(struct inlines *in, struct inline_file *f, const char *why)
{
	warn(f, why);
	end_reader(in, f);
	close(f->fd);
	f->fd = -1;
	in->report.given_up++;
}

/* Between fork() and exec(): nothing that is not async-signal-safe. */
static void __attribute__((noreturn)) become_reader(int fd, int socket)
{
	char *const argv[] = { "rprof-bpf", INLINE_WORKER_OPTION, NULL };

	/* Ours are all above 2 (preflight_std_fds()); the copies stay open on exec. */
	if (dup2(fd, 0) == 0 && dup2(socket, 1) == 1 && !close_range(2, ~0U, 0) &&
	    !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		execve("/proc/self/exe", argv, environ);
	_exit(EXIT_FAILURE);
}

/* Of those that have one, the reader that was asked longest ago. */
static void make_room(struct inlines *in)
{
	struct inline_file *oldest = NULL;

	if (in->n_readers < MAX_READERS)
		return;
	for (size_t i = 0; i < in->n_files; i++) {
		struct inline_file *f = &in->files[i];

		if (f->socket >= 0 && (!oldest || f->last_use < oldest->last_use))
			oldest = f;
	}
	end_reader(in, oldest);
}

static int start_reader(struct inlines *in, struct inline_file *f)
{
	sigset_t all, before;
	int ends[2];

	make_room(in);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	/* Our handlers must never run in the child. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	f->reader = fork();
	if (!f->reader)
		become_reader(f->fd, ends[1]);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (f->reader < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	f->socket = ends[0];
	in->n_readers++;
	in->report.started++;
	return 0;
}

int inlines_parse_answer(const void *answer, size_t len, __u64 number, const char **names)
{
	const char *text = (const char *)answer + sizeof(struct inline_answer);
	struct inline_answer a;

	if (len < sizeof(a))
		return -EINVAL;
	memcpy(&a, answer, sizeof(a));
	len -= sizeof(a);
	if (a.number != number)
		return -EAGAIN;
	if (a.n_calls > INLINE_MAX_CALLS || (len && text[len - 1]))
		return -EINVAL;
	for (__u32 i = 0; i < a.n_calls; i++) {
		size_t size = len ? strlen(text) + 1 : 0;

		if (size < 2)
			return -EINVAL;
		names[i] = text;
		text += size;
		len -= size;
	}
	return len ? -EINVAL : (int)a.n_calls;
}

/* Until there is something to read. 0, -ETIMEDOUT or -errno. */
static int wait_for(int socket, __u64 deadline)
{
	struct pollfd p = { .fd = socket, .events = POLLIN };
	__u64 now = monotonic_ns();
	int n;

	if (now >= deadline)
		return -ETIMEDOUT;
	/* Rounded up: 0 would mean not to wait. */
	n = poll(&p, 1, (int)((deadline - now + 999999) / 1000000));
	if (n < 0 && errno != EINTR)
		return -errno;
	return 0;
}

/* Return: how many names, -ETIMEDOUT, or another -errno: there is no reader any more. */
static int ask(struct inlines *in, struct inline_file *f, __u64 vaddr, __u64 deadline)
{
	struct inline_query q = { .number = ++in->number, .vaddr = vaddr };
	ssize_t len;
	int n;

	if (send(f->socket, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	for (;;) {
		n = wait_for(f->socket, deadline);
		if (n)
			return n;
		len = recv(f->socket, in->answer, sizeof(in->answer), MSG_DONTWAIT);
		if (len < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (len <= 0)
			return len ? -errno : -ECONNRESET;
		n = inlines_parse_answer(in->answer, (size_t)len, q.number, in->names);
		/* To an earlier query, for which we did not wait. */
		if (n != -EAGAIN)
			return n;
	}
}

static void note_damage(struct inlines *in, struct inline_file *f)
{
	struct inline_answer a;

	memcpy(&a, in->answer, sizeof(a));
	if (!a.damaged || f->damaged)
		return;
	f->damaged = true;
	in->report.damaged++;
	warn(f, "parts of its debug information cannot be read: no inlined calls there");
}

static int find(struct inlines *in, struct inline_file *f, __u64 vaddr)
{
	__u64 start = monotonic_ns(), spent;
	int n = f->socket < 0 ? start_reader(in, f) : 0;

	if (n) {
		give_up(in, f, "cannot start the reader of debug information: no inlined calls");
		return 0;
	}
	f->last_use = in->number + 1;
	n = ask(in, f, vaddr, start + QUERY_NS);
	spent = monotonic_ns() - start;
	f->time_ns += spent;
	in->report.time_ns += spent;
	if (n == -ETIMEDOUT)
		in->report.late++;
	else if (n < 0)
		give_up(in, f, "its debug information cannot be read: no inlined calls");
	else
		note_damage(in, f);
	if (f->fd >= 0 && f->time_ns > FILE_NS)
		give_up(in, f, "reading its debug information takes too long: no inlined calls");
	if (n == -ETIMEDOUT && f->fd >= 0)
		return -EAGAIN;
	return n < 0 ? 0 : n;
}

int inlines_find(struct inlines *in, __u32 file, __u64 vaddr, const char *const **names)
{
	__u32 i;
	int n;

	if (!idmap_find(&in->by_number, file, 0, &i) || in->files[i].fd < 0)
		return 0;
	in->report.queries++;
	n = find(in, &in->files[i], vaddr);
	in->report.answered += n > 0;
	*names = in->names;
	return n;
}
