// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "loop.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "log.h"
#include "monotonic.h"
#include "profiler.h"
#include "session.h"
#include "signals.h"
#include "target.h"

#define SECOND_NS 1000000000ULL

enum watch {
	WATCH_RING,
	WATCH_DRAIN,
	WATCH_DURATION,
	WATCH_SIGNAL,
	WATCH_PID,
	WATCH_COMMAND,
	WATCH_READER,
	WATCH_LOADED,
};

struct loop {
	struct loop_config c;
	int epoll_fd, drain_fd, duration_fd, signal_fd;
	int command_fd;
	int *pid_fds;		/* one per pid; -1: ended */
	size_t n_alive;		/* of pids and tids */
	bool done, named_ended, reader_gone, cpus_failed;
	int wstatus;		/* of the command, once reaped */
	bool reaped;
	__u64 start_ns, next_second_ns;
};

static int watch(struct loop *l, int fd, enum watch what, __u32 index)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = (__u64)index << 32 | what };

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int make_timer(struct loop *l, __u64 ns, __u64 every_ns, enum watch what, int *fd)
{
	struct itimerspec spec = {
		.it_value = { ns / SECOND_NS, ns % SECOND_NS },
		.it_interval = { every_ns / SECOND_NS, every_ns % SECOND_NS },
	};

	*fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (*fd < 0 || timerfd_settime(*fd, 0, &spec, NULL))
		return -errno;
	return watch(l, *fd, what, 0);
}

/* Readable when the process has ended, all its threads. -ESRCH: it has already. */
static int watch_pid(struct loop *l, pid_t pid, enum watch what, __u32 index, int *fd)
{
	*fd = syscall(SYS_pidfd_open, pid, 0);
	if (*fd < 0)
		return -errno;
	return watch(l, *fd, what, index);
}

/* Without events of its own: that the reader is gone (EPOLLERR, EPOLLHUP) is always reported. */
static int watch_reader(struct loop *l)
{
	struct epoll_event e = { .data.u64 = WATCH_READER };

	if (l->c.reader_fd < 0)
		return 0;
	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->c.reader_fd, &e) ? -errno : 0;
}

static int watch_all(struct loop *l)
{
	int err;

	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll_fd < 0)
		return -errno;
	err = watch(l, session_ring_fd(l->c.session), WATCH_RING, 0);
	if (err)
		return err;
	err = make_timer(l, l->c.drain_ns, l->c.drain_ns, WATCH_DRAIN, &l->drain_fd);
	if (err)
		return err;
	l->signal_fd = signals_open();
	if (l->signal_fd < 0)
		return l->signal_fd;
	err = watch(l, l->signal_fd, WATCH_SIGNAL, 0);
	if (!err)
		err = watch_reader(l);
	if (!err && l->c.loaded_fd >= 0)
		err = watch(l, l->c.loaded_fd, WATCH_LOADED, 0);
	if (err)
		return err;
	if (l->c.command)
		return watch_pid(l, l->c.command, WATCH_COMMAND, 0, &l->command_fd);
	for (size_t i = 0; i < l->c.n_pids; i++) {
		err = watch_pid(l, l->c.pids[i], WATCH_PID, i, &l->pid_fds[i]);
		if (!err)
			l->n_alive++;
		else if (err != -ESRCH)
			return err;
	}
	l->n_alive += l->c.n_tids;
	return 0;
}

int loop_new(const struct loop_config *config, struct loop **out)
{
	struct loop *l = calloc(1, sizeof(*l));
	int err = -ENOMEM;

	if (!l)
		goto fail;
	l->c = *config;
	l->epoll_fd = l->drain_fd = l->duration_fd = l->signal_fd = l->command_fd = -1;
	l->pid_fds = malloc((config->n_pids + 1) * sizeof(int));
	if (!l->pid_fds)
		goto fail;
	for (size_t i = 0; i < config->n_pids; i++)
		l->pid_fds[i] = -1;
	err = watch_all(l);
	if (err)
		goto fail;
	*out = l;
	return 0;
fail:
	log_error("waiting for events: %s%s", strerror(-err),
		  err == -EMFILE || err == -ENFILE ? " (raise ulimit -n)" :
		  err == -ENOMEM ? " (free memory, or raise this cgroup's limit)" :
				   "");
	loop_free(l);
	return err;
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	close_fd(l->drain_fd);
	close_fd(l->duration_fd);
	close_fd(l->signal_fd);
	close_fd(l->command_fd);
	for (size_t i = 0; l->pid_fds && i < l->c.n_pids; i++)
		close_fd(l->pid_fds[i]);
	close_fd(l->epoll_fd);
	free(l->pid_fds);
	free(l);
}

/* Threads have no pidfd before 6.9: look at them once a second. */
static size_t count_ended_tids(struct loop *l)
{
	size_t ended = 0;
	__u32 tgid;

	for (size_t i = 0; i < l->c.n_tids; i++) {
		enum target_state state = target_look(l->c.tids[i], &tgid);

		ended += state == TARGET_GONE || state == TARGET_ZOMBIE;
	}
	return ended;
}

/* CPUs that came are tried again every second; what is sampled goes on meanwhile. */
static void follow_cpus(struct loop *l)
{
	int n = session_follow_cpus(l->c.session);

	if (n >= 0 || l->cpus_failed)
		return;
	l->cpus_failed = true;
	log_warn("CPUs that come and go: %s: those that come are not sampled, and count as missed, "
		 "until this works (tried again every second)",
		 strerror(-n));
}

static void every_second(struct loop *l, __u64 now)
{
	follow_cpus(l);
	l->next_second_ns = now + SECOND_NS;
	if (l->c.n_tids && count_ended_tids(l) == l->c.n_tids && !l->c.n_pids)
		l->done = true;
	l->c.tick(l->c.ctx, now - l->start_ns);
}

/* A dump may hang in a pipe that nobody reads: then signals must get through. */
static void dump(struct loop *l)
{
	l->c.drain(l->c.ctx);
	signals_unblock();
	l->c.dump(l->c.ctx);
	signals_block();
	if (signals_asked())
		l->done = true;
}

static void on_signal(struct loop *l)
{
	int sig;

	while ((sig = signals_read(l->signal_fd))) {
		if (sig == SIGUSR1)
			dump(l);
		else
			l->done = true;
	}
}

/* What was named has ended; what that has started may go on. */
static void all_ended(struct loop *l)
{
	if (l->c.any_followed)
		l->named_ended = true;
	else
		l->done = true;
}

static void on_pid_end(struct loop *l, __u32 index)
{
	close_fd(l->pid_fds[index]);
	l->pid_fds[index] = -1;
	if (!--l->n_alive)
		all_ended(l);
}

static void on_command_end(struct loop *l)
{
	signals_set_command(0);
	if (waitpid(l->c.command, &l->wstatus, 0) != l->c.command)
		l->wstatus = W_EXITCODE(EXIT_COMMAND_FAILED, 0);
	l->reaped = true;
	epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, l->command_fd, NULL);
	all_ended(l);
}

static int on_event(struct loop *l, const struct epoll_event *e)
{
	__u64 expirations, now = monotonic_ns();
	int err = 0;

	switch ((enum watch)(__u32)e->data.u64) {
	case WATCH_RING:
		return l->c.drain(l->c.ctx);
	case WATCH_LOADED:
		l->c.loaded(l->c.ctx);
		return 0;
	case WATCH_DRAIN:
		if (read(l->drain_fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
			return -errno;
		err = l->c.drain(l->c.ctx);
		if (l->named_ended && !l->c.any_followed(l->c.ctx))
			l->done = true;
		if (!err && now >= l->next_second_ns)
			every_second(l, now);
		return err;
	case WATCH_DURATION:
		l->done = true;
		return 0;
	case WATCH_SIGNAL:
		on_signal(l);
		return 0;
	case WATCH_PID:
		on_pid_end(l, e->data.u64 >> 32);
		return 0;
	case WATCH_COMMAND:
		on_command_end(l);
		return 0;
	case WATCH_READER:
		l->reader_gone = true;
		l->done = true;
		return 0;
	}
	return 0;
}

int loop_run(struct loop *l, __u64 *elapsed_ns)
{
	struct epoll_event events[16];
	int err = 0;

	signals_set_command(l->c.command);
	l->start_ns = monotonic_ns();
	l->next_second_ns = l->start_ns + SECOND_NS;
	if (l->c.duration_ns)
		err = make_timer(l, l->c.duration_ns, 0, WATCH_DURATION, &l->duration_fd);
	/* Everything that was to be followed ended before we could watch it. */
	if (!l->c.command && (l->c.n_pids || l->c.n_tids) && !l->n_alive)
		l->done = true;
	while (!err && !l->done) {
		int n = epoll_wait(l->epoll_fd, events, 16, -1);

		if (n < 0 && errno != EINTR)
			err = -errno;
		for (int i = 0; i < n && !err; i++)
			err = on_event(l, &events[i]);
	}
	*elapsed_ns = monotonic_ns() - l->start_ns;
	if (err)
		log_error("sampling ended early: %s (the profile until here is written)",
			  strerror(-err));
	signals_end_loop();
	return err;
}

void loop_end(struct loop *l)
{
	l->done = true;
}

bool loop_reader_gone(const struct loop *l)
{
	return l->reader_gone;
}

int loop_command_code(struct loop *l)
{
	struct pollfd fds[] = {
		{ .fd = l->command_fd, .events = POLLIN },
		{ .fd = l->signal_fd, .events = POLLIN },
	};

	signals_block();
	while (!l->reaped) {
		bool failed = poll(fds, 2, -1) < 0 && errno != EINTR;

		while (signals_read(l->signal_fd))
			;
		if (failed || fds[0].revents)
			on_command_end(l);
	}
	return command_status(l->wstatus);
}
