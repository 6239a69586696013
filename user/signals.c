// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The state is written by the handler, and otherwise only while the signals are blocked. What the
 * handler calls is async-signal-safe (signal-safety(7)).
 */
#include "signals.h"

#include <errno.h>
#include <linux/types.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "log.h"
#include "monotonic.h"
#include "outfile.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* Longer than what a shell, sudo or timeout needs to say it twice, shorter than a person. */
#define SAME_REQUEST_NS 250000000ULL

static const int end_signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP };

/* Those that were not ignored: of end_signals[], and with SIGUSR1. */
static sigset_t ending, handled;
static volatile pid_t command;
static volatile sig_atomic_t n_requests, last_signal, asked;
static volatile __u64 last_ns;	/* of the last request */

/* A signal that asks for the end. Return: is it the one that waits for nothing any more? */
static bool take(int sig)
{
	__u64 now = monotonic_ns();
	bool same = last_ns && now - last_ns < SAME_REQUEST_NS;

	if (same && sig == last_signal)
		return false;
	last_signal = sig;
	asked = 1;
	if (!same) {
		last_ns = now;
		n_requests++;
	}
	if (n_requests >= 2) {
		if (command)
			kill(command, SIGKILL);
		return true;
	}
	if (command && (sig == SIGTERM || sig == SIGHUP))
		kill(command, sig);
	return false;
}

static void on_signal(int sig)
{
	int saved_errno = errno;

	if (take(sig)) {
		outfile_remove_temp();
		_exit(128 + sig);
	}
	errno = saved_errno;
}

static bool is_ignored(int sig)
{
	struct sigaction now;

	return !sigaction(sig, NULL, &now) && now.sa_handler == SIG_IGN;
}

int signals_init(void)
{
	struct sigaction handler = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	/* A write to a closed pipe is an error where it happens, not a death in the middle. */
	signal(SIGPIPE, SIG_IGN);
	/* Ignored, as some services are started, it would take the command's status from us. */
	signal(SIGCHLD, SIG_DFL);

	sigemptyset(&ending);
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++) {
		if (!is_ignored(end_signals[i]))
			sigaddset(&ending, end_signals[i]);
	}
	handled = ending;
	if (!is_ignored(SIGUSR1))
		sigaddset(&handled, SIGUSR1);
	if (sigprocmask(SIG_BLOCK, &handled, NULL)) {
		int err = -errno;

		log_error("signals: cannot be blocked: %s (a seccomp filter may forbid it: try "
			  "outside of the container)",
			  strerror(-err));
		return err;
	}
	handler.sa_mask = handled;
	for (size_t i = 0; i < ARRAY_SIZE(end_signals); i++) {
		if (sigismember(&ending, end_signals[i]))
			sigaction(end_signals[i], &handler, NULL);
	}
	return 0;
}

int signals_open(void)
{
	int fd = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int signals_read(int fd)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo != SIGUSR1)
		take(info.ssi_signo);
	return info.ssi_signo;
}

void signals_set_command(pid_t pid)
{
	command = pid;
}

void signals_unblock(void)
{
	sigprocmask(SIG_UNBLOCK, &ending, NULL);
}

void signals_block(void)
{
	sigprocmask(SIG_BLOCK, &ending, NULL);
}

void signals_end_loop(void)
{
	/*
	 * A Ctrl-C that crosses the end of the duration asks for nothing new. A command lives on: the
	 * first request from here on is for it.
	 */
	n_requests = command ? 0 : 1;
	last_ns = monotonic_ns();
	signals_unblock();
}

bool signals_asked(void)
{
	return asked;
}
