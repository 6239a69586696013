/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals that end the run, or ask for a dump. They are blocked and read from a descriptor, except
 * where we may hang: in a dump, and after the loop. There a handler ends the program.
 *
 * SIGINT, SIGQUIT, SIGTERM and SIGHUP each ask for the end. What comes right after another is the
 * same request: timeout(1) signals its child and then the group. SIGTERM and SIGHUP are passed on to
 * the command; a terminal's Ctrl-C reaches it anyway. The second request kills what is left to wait
 * for. A signal that was ignored when we were started (nohup, background jobs) stays ignored.
 */
#ifndef RPROF_SIGNALS_H
#define RPROF_SIGNALS_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * signals_init() - from here on they wait for signals_read().
 * Before anything is made that a signal must not leave behind. SIGPIPE becomes an error of write().
 * Return: 0 or -errno, logged.
 */
int signals_init(void);

/* A descriptor that is readable when there is one; the caller's to close. Return: it, or -errno. */
int signals_open(void);
/* The next one: SIGUSR1, or one that asks for the end and was passed on. 0: none. */
int signals_read(int fd);

/* Who gets SIGTERM and SIGHUP too, and SIGKILL at the second request: our child; 0: nobody. */
void signals_set_command(pid_t command);

/*
 * Around what may hang: the second request removes the temporary output file and ends the program
 * with 128 + signal; so does the first one after signals_end_loop(), if there is no command.
 */
void signals_unblock(void);
void signals_block(void);	/* back to the descriptor */
void signals_end_loop(void);

/* Did one ask for the end? Also between signals_unblock() and signals_block(). */
bool signals_asked(void);

#endif
