// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Parent and child talk over one socket pair: the child says that it is ready (or what failed), the
 * parent says go, the child says why exec failed or, by closing on exec, that it did not. A socket,
 * not two pipes, since MSG_NOSIGNAL spares us SIGPIPE when the child is gone.
 */
#include "command.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"
#include "invoker.h"
#include "log.h"

/* What a step of the child came to; err 0: done. */
struct report {
	int err;	/* errno */
	int step;	/* index into steps[] */
};

enum step { STEP_READY, STEP_GROUPS, STEP_GID, STEP_UID, STEP_ENVIRONMENT, STEP_EXEC };

static const char *const steps[] = {
	[STEP_READY] = "start",
	[STEP_GROUPS] = "take the user's groups",
	[STEP_GID] = "take the user's group",
	[STEP_UID] = "become the user who called sudo",
	[STEP_ENVIRONMENT] = "set the environment",
	[STEP_EXEC] = "run",
};

/* Whom the child becomes. Looked up before fork(): name services may use threads and sockets. */
struct identity {
	bool change;
	uid_t uid;
	gid_t gid;
	gid_t *groups;
	int n_groups;
	char *name;	/* NULL: no entry in the password database */
	char *home;
};

static void identity_fini(struct identity *id)
{
	free(id->groups);
	free(id->name);
	free(id->home);
}

static int find_groups(struct identity *id)
{
	int n = 0;

	getgrouplist(id->name, id->gid, NULL, &n);
	if (n <= 0)
		return -EINVAL;
	id->groups = calloc(n, sizeof(*id->groups));
	if (!id->groups)
		return -ENOMEM;
	if (getgrouplist(id->name, id->gid, id->groups, &n) < 0)
		return -EAGAIN; /* they changed meanwhile */
	id->n_groups = n;
	return 0;
}

static int find_identity(bool as_root, struct identity *id)
{
	const struct passwd *pw;

	*id = (struct identity){ 0 };
	if (as_root || !invoker_ids(&id->uid, &id->gid))
		return 0;
	id->change = true;

	pw = getpwuid(id->uid);
	if (!pw)
		return 0;
	id->name = strdup(pw->pw_name);
	id->home = strdup(pw->pw_dir);
	if (!id->name || !id->home)
		return -ENOMEM;
	return find_groups(id);
}

static void say(int fd, int err, enum step step)
{
	struct report r = { .err = err, .step = step };

	/* If nobody listens, the end of this process says it. */
	(void)!send(fd, &r, sizeof(r), MSG_NOSIGNAL);
}

static void __attribute__((noreturn)) child_fail(int fd, enum step step)
{
	say(fd, errno, step);
	_exit(COMMAND_EXIT_OURS);
}

/* exec() resets handlers, but what is ignored or blocked stays so and would surprise the command. */
static void child_reset_signals(void)
{
	struct sigaction current, none = { .sa_handler = SIG_DFL };
	sigset_t empty;

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if ((sig == SIGHUP || sig == SIGINT || sig == SIGQUIT) &&
		    !sigaction(sig, NULL, &current) && current.sa_handler == SIG_IGN)
			continue;
		sigaction(sig, &none, NULL); /* fails for SIGKILL, SIGSTOP and libc's own */
	}
	sigemptyset(&empty);
	sigprocmask(SIG_SETMASK, &empty, NULL);
}

static void child_set_variable(int fd, const char *name, const char *value)
{
	/* Without an entry in the database no value is right; root's would be wrong. */
	if (value ? setenv(name, value, 1) : unsetenv(name))
		child_fail(fd, STEP_ENVIRONMENT);
}

static void child_become(int fd, const struct identity *id)
{
	if (!id->change)
		return;
	/* Groups first, the user last: without uid 0 the others may no longer be changed. */
	if (id->groups ? setgroups(id->n_groups, id->groups) : setgroups(1, &id->gid))
		child_fail(fd, STEP_GROUPS);
	if (setresgid(id->gid, id->gid, id->gid))
		child_fail(fd, STEP_GID);
	if (setresuid(id->uid, id->uid, id->uid))
		child_fail(fd, STEP_UID);
	child_set_variable(fd, "HOME", id->home);
	child_set_variable(fd, "USER", id->name);
	child_set_variable(fd, "LOGNAME", id->name);
}

/*
 * execvp() fails with EACCES also when a folder of PATH may not be searched (root's own, after we
 * became the user). If no folder has the command, it is not found, as a shell would say.
 */
static int exec_error(const char *name, int err)
{
	const char *path = getenv("PATH");

	if (err != EACCES || strchr(name, '/') || !path)
		return err;
	for (;;) {
		size_t len = strcspn(path, ":");
		char file[PATH_MAX];
		int n;

		n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, path, len ? "/" : "", name);
		if (n < (int)sizeof(file) && !access(file, F_OK))
			return err;
		if (!path[len])
			return ENOENT;
		path += len + 1;
	}
}

static void __attribute__((noreturn)) child_run(int fd, char **argv, const struct identity *id)
{
	ssize_t n;
	char go;
	int err;

	child_reset_signals();
	child_become(fd, id);
	say(fd, 0, STEP_READY);

	do {
		n = read(fd, &go, sizeof(go));
	} while (n < 0 && errno == EINTR);
	if (n != sizeof(go))
		_exit(COMMAND_EXIT_OURS); /* the profiler is gone: nothing is to be run */

	execvp(argv[0], argv);
	err = exec_error(argv[0], errno);
	say(fd, err, STEP_EXEC);
	_exit(command_exit_code(-err));
}

/* The child's next report. Return: 1; 0: the socket was closed; -errno. */
static int hear(const struct command *c, struct report *r)
{
	ssize_t n;

	do {
		n = recv(c->fd, r, sizeof(*r), MSG_WAITALL);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != ECONNRESET)
		return -errno;
	if (n != sizeof(*r))
		return 0;
	if (r->step < 0 || r->step > STEP_EXEC)
		r->step = STEP_READY;
	return 1;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void log_failure(const struct command *c, const char *step, int err)
{
	char *name = escape_string(c->name, strlen(c->name));

	log_error("command: %s: cannot %s: %s", name ? name : "?", step, strerror(-err));
	free(name);
}

/* Fork with all signals blocked: our handlers must never run in the child. */
static pid_t fork_quietly(void)
{
	sigset_t all, before;
	pid_t pid;
	int saved_errno;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		return 0;
	saved_errno = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = saved_errno;
	return pid;
}

static int start(char **argv, const struct identity *id, struct command *c)
{
	int fds[2];

	/* SEQPACKET: a report comes whole, and a closed end is told from a short one. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	fflush(NULL); /* nothing buffered may be written twice */
	c->pid = fork_quietly();
	if (c->pid < 0) {
		int err = -errno;

		close(fds[0]);
		close(fds[1]);
		return err;
	}
	if (c->pid == 0) {
		close(fds[0]);
		child_run(fds[1], argv, id);
	}
	close(fds[1]);
	c->fd = fds[0];
	return 0;
}

int command_start(char **argv, bool as_root, struct command *c)
{
	struct report r = { 0 };
	struct identity id;
	int err;

	*c = (struct command){ .pid = -1, .fd = -1, .name = argv[0] };
	err = find_identity(as_root, &id);
	if (!err)
		err = start(argv, &id, c);
	identity_fini(&id);
	if (err) {
		log_failure(c, steps[STEP_READY], err);
		return err;
	}

	err = hear(c, &r);
	if (err == 1 && !r.err)
		return 0;
	if (err == 1)
		err = -r.err;
	else if (!err)
		err = -ECHILD; /* killed before it was ready */
	log_failure(c, steps[r.step], err);
	command_abort(c);
	return err;
}

int command_release(struct command *c)
{
	struct report r;
	int got;

	/* If this fails, the child is gone, which its wait status tells. */
	(void)!send(c->fd, "", 1, MSG_NOSIGNAL);
	got = hear(c, &r);
	close(c->fd);
	c->fd = -1;
	if (got == 0)
		return 0;
	if (got < 0) {
		log_failure(c, steps[STEP_EXEC], got);
		kill(c->pid, SIGKILL);
		reap(c->pid);
		return got;
	}
	log_failure(c, steps[r.step], -r.err);
	reap(c->pid);
	return -r.err;
}

void command_abort(struct command *c)
{
	if (c->fd < 0)
		return;
	close(c->fd);
	c->fd = -1;
	kill(c->pid, SIGKILL);
	reap(c->pid);
}

int command_exit_code(int err)
{
	return err == -ENOENT ? COMMAND_EXIT_NOT_FOUND : COMMAND_EXIT_NOT_EXECUTABLE;
}

int command_status(int wstatus)
{
	if (WIFEXITED(wstatus))
		return WEXITSTATUS(wstatus);
	if (WIFSIGNALED(wstatus))
		return 128 + WTERMSIG(wstatus);
	return COMMAND_EXIT_OURS;
}
