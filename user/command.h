/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * "-- COMMAND": a child that waits until the profiler is ready and then becomes the command, so that
 * it is sampled from its first instruction.
 *
 * The child before its exec is a copy of us: it runs our code under the command's pid, and what is
 * sampled of it until then is ours, not the command's. It does nothing but wait in read(); if we
 * die, it sees the end of the socket and exits without exec.
 *
 * All our descriptors must be close-on-exec; what else the command is to inherit (standard streams,
 * descriptors of our caller) is left alone. Start it before limits are raised: it inherits them.
 */
#ifndef RPROF_COMMAND_H
#define RPROF_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

#define COMMAND_EXIT_OURS 125		/* the profiler failed; as env(1), timeout(1) */
#define COMMAND_EXIT_NOT_EXECUTABLE 126
#define COMMAND_EXIT_NOT_FOUND 127

struct command {
	pid_t pid;
	int fd;			/* our end of the socket to the waiting child; -1: released */
	const char *name;	/* argv[0], borrowed */
};

/*
 * command_start() - fork the child that waits.
 * @argv: NULL-terminated, at least one word; looked up in PATH at exec, as execvp() does
 * @as_root: false: becomes the user who called sudo, if there is one: uid, gid, groups, and HOME,
 *           USER and LOGNAME of the password database
 * @c: the result; @c->pid is reaped by the caller after command_release() succeeded
 *
 * Signals are unblocked and at their defaults in the child, but SIGHUP, SIGINT and SIGQUIT stay
 * ignored if they are (nohup, background jobs).
 * Return: 0 or -errno, logged; there is no child then.
 */
int command_start(char **argv, bool as_root, struct command *c);

/*
 * command_release() - let it exec. Waits until it has.
 *
 * Return: 0: it has, or was killed meanwhile (its wait status tells). -errno of exec: logged, the
 * child is reaped; command_exit_code() makes an exit code of it.
 */
int command_release(struct command *c);

/* Kills and reaps the child if it still waits. After command_release() it does nothing. */
void command_abort(struct command *c);

/* Exit code for a failed exec, as shells have it: 127 if not found, else 126. @err: -errno */
int command_exit_code(int err);

/* Exit code for a wait status, as shells have it: the command's own, or 128 + signal. */
int command_status(int wstatus);

#endif
