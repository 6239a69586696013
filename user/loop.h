/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting: drains the ring on a timer, and ends when a signal, the duration, the command's end or
 * the end of everything followed says so.
 */
#ifndef RPROF_LOOP_H
#define RPROF_LOOP_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct loop;
struct session;

struct loop_config {
	struct session *session;
	__u64 duration_ns;		/* 0: none */
	const __u32 *pids, *tids;	/* borrowed; the run ends when all of them have ended */
	size_t n_pids, n_tids;
	pid_t command;			/* our child, reaped by the loop; 0: none */
	int loaded_fd;			/* readable: .loaded is called */
	int reader_fd;			/* pipe or socket; the run ends when its reader is gone; -1 */
	void *ctx;
	__u64 drain_ns;			/* how often .drain is called, which empties the ring: */
	int (*drain)(void *ctx);	/* 0 or -errno */
	void (*loaded)(void *ctx);
	/* NULL, or: the run goes on while it is true, also when .pids and .command have ended */
	bool (*any_followed)(void *ctx);
	void (*dump)(void *ctx);	/* SIGUSR1: write the profile so far */
	void (*tick)(void *ctx, __u64 elapsed_ns); /* once a second */
};

/* Return: 0 or -errno, logged. */
int loop_new(const struct loop_config *config, struct loop **out);
void loop_free(struct loop *l);

/*
 * loop_run() - run until the end. After it, signals may end the program (signals.h).
 * Return: 0, or -errno, logged; what was collected so far is good in either case.
 */
int loop_run(struct loop *l, __u64 *elapsed_ns);
void loop_end(struct loop *l);		/* from a callback or sink: this round is the last */
bool loop_reader_gone(const struct loop *l);

/*
 * loop_command_code() - wait for the command and take its exit code (128 + signal).
 * A SIGTERM or SIGHUP meanwhile is passed on to it; a second request to end kills it.
 */
int loop_command_code(struct loop *l);

#endif
