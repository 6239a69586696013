/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel side of a run: BPF object, maps and sampling events. The only file that includes the
 * skeleton is session.c. Everything a session makes in the kernel hangs on its file descriptors and
 * is gone with the process, however that ends.
 */
#ifndef RPROF_SESSION_H
#define RPROF_SESSION_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"

struct session;
struct space;

struct session_config {
	__u64 period_ns;	/* between two samples of a CPU */
	enum rprof_filter filter;
	__u32 flags;		/* RPROF_CONFIG_* */
	__u32 ring_size;	/* bytes, a power of two */
	__u32 max_mappings;	/* of all processes together */
	bool forks;		/* follow what processes with RPROF_PROC_TREE start */
	bool ends;		/* keep the CPU time of followed processes that are gone */
};

/* Where the records of the ring go; called from session_drain(). Records were checked. */
struct session_sink {
	void *ctx;
	void (*begin)(void *ctx); /* of a drain: what follows is older */
	void (*stack)(void *ctx, const struct rprof_stack *s);
	void (*sample)(void *ctx, const struct rprof_sample *s);
	void (*space)(void *ctx, const struct rprof_space *s);
	void (*code)(void *ctx, const struct rprof_code *c);
};

/* Load the programs. Return: 0 or -errno, logged with object, reason and remedy. */
int session_open(const struct session_config *config, const struct session_sink *sink,
		 struct session **out);
void session_free(struct session *s);

/*
 * session_follow() - let samples of process @tgid match, and give it a mapping table.
 * @flags: RPROF_PROC_*
 * @table: index of the table, for session_unfollow()
 * Return: 0, -EEXIST, or -E2BIG when RPROF_MAX_PROCS processes are followed already.
 */
int session_follow(struct session *s, __u32 tgid, __u32 flags, __u32 *table);
/*
 * session_give_table() - a mapping table for a process that the kernel side follows by itself, that
 * is after its SPACE record with RPROF_SPACE_FORK.
 * @table: as session_follow()'s
 *
 * The kernel side writes it into its entry in place: an exec at the same time is counted.
 * Return: 0, -ENOENT: it has ended; -EEXIST: it has one; -E2BIG as session_follow().
 */
int session_give_table(struct session *s, __u32 tgid, __u32 *table);
/* Does the kernel side follow children? False: not asked to, or no BTF; -s needs another way then. */
bool session_follows_forks(const struct session *s);

/*
 * session_set_python() - how the interpreter of a followed process is read; NULL: none.
 * @p: .execs is not looked at
 * @execs: the image that it was found in (session_execs())
 *
 * Through shared memory: no program is held up. Return: 0; -ENOENT: it has ended, or has no table yet.
 */
int session_set_python(struct session *s, __u32 tgid, const struct rprof_python *p, __u32 execs);

/*
 * session_set_hint() - where the PyThreadState of thread @tid may be; the kernel side tells whether
 * it is. The oldest are forgotten first. Return: 0 or -errno.
 */
int session_set_hint(struct session *s, __u32 tid, const struct rprof_hint *hint);

/*
 * session_ended_cpu() - the CPU time of all threads of a followed process that is no zombie any more.
 * The kernel gives it back some time later than its number: a grace period of RCU, 10 to 100 ms.
 * Return: 0; -ENOENT: not yet; -ENOTSUP: not asked for, or no BTF.
 */
int session_ended_cpu(struct session *s, __u32 tgid, __u64 *ns);
bool session_knows_ends(const struct session *s);

/* The keys of hash.h that this run has. */
void session_hash_keys(const struct session *s, __u64 *seed, __u64 *key);

/* No more samples of @tgid match, if the kernel side has not seen to that yet; gives @table back. */
void session_unfollow(struct session *s, __u32 tgid, __u32 table);
int session_follow_tid(struct session *s, __u32 tid);

/* Number of exec calls the kernel side has seen of a followed @tgid; -ENOENT. */
int session_execs(struct session *s, __u32 tgid, __u32 *execs);

/*
 * session_publish() - give the kernel side the mappings of a followed process.
 * @execs: the image they were read from (session_execs() before and after reading agree)
 * Return: 0; -ENOENT: it has ended, or has no table yet; -ENOSPC when the table of mappings is full:
 * the process then goes unchecked.
 */
int session_publish(struct session *s, const struct space *space, __u32 execs);

/* Open and start a sampling event on every CPU that is online. Return: 0 or -errno, logged. */
int session_start(struct session *s);
/* Follow CPUs that came or went since. Return: number of CPUs sampled, or -errno. */
int session_follow_cpus(struct session *s);
/* Stop sampling. When it returns no program runs any more. */
void session_stop(struct session *s);

/* User space forgets the stack @id: the kernel side is to send it again, should it come again. */
void session_forget_stack(struct session *s, __u64 id);

/* Readable when the ring is filling up; drain on a timer all the same. */
int session_ring_fd(const struct session *s);
/*
 * session_drain() - pass on what is in the ring now, for at most about @limit_ns.
 * Return: 0, 1: there is more; or -errno.
 */
int session_drain(struct session *s, __u64 limit_ns);

/* Sums over all CPUs. Return: 0 or -errno. */
int session_counters(struct session *s, __u64 counters[RPROF_COUNT_MAX]);
/* Records that broke the contract or were of no known type. */
__u64 session_bad_records(const struct session *s);

#endif
