/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting: drains the ring on a timer, and ends when a signal, the duration, the command's end or
 * the end of everything followed says so.
 */
#ifndef RPROF_LOOP_H
#define RPROF_LOOP_H

#include <linux/types.h>
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
	void *ctx;
	int (*dump)(void *ctx);		/* SIGUSR1: write the profile so far */
	void (*tick)(void *ctx, __u64 elapsed_ns); /* once a second */
};

/*
 * loop_block_signals() - from here on, the signals that end or ask something wait for the loop.
 * Before anything is made that a signal must not leave behind.
 */
int loop_block_signals(void);

/* Return: 0 or -errno, logged. */
int loop_new(const struct loop_config *config, struct loop **out);
void loop_free(struct loop *l);

/* Run until the end. Return: 0, or -errno, logged. */
int loop_run(struct loop *l, __u64 *elapsed_ns);

/*
 * loop_command_code() - wait for the command and take its exit code (128 + signal).
 * After a SIGTERM the command gets one as well; another signal ends the waiting.
 * Return: the code, or 125 if the waiting was ended.
 */
int loop_command_code(struct loop *l);

#endif
