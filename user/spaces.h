/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Address spaces of the processes we see: what is mapped where, from when on. A process has a new
 * space after an exec and when an executable mapping was replaced or removed, so that equal
 * addresses cannot lend names. Two sources: readings of /proc/PID/maps, and the kernel's events in
 * order of time (timeline.c). session.c publishes a space's mappings to the kernel side.
 */
#ifndef RPROF_SPACES_H
#define RPROF_SPACES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "rprof/config.h"

struct modules;

struct space {
	__u32 tgid;
	__u32 number;			/* from 1; no two spaces have the same, of any process */
	__u64 from_ns;			/* CLOCK_MONOTONIC; 0: from before we looked */
	struct rprof_mapping *mappings;	/* sorted; .module is a number of modules.c */
	size_t n_mappings;
};

struct spaces;

/* @modules: borrowed */
struct spaces *spaces_new(struct modules *modules);
void spaces_free(struct spaces *s);

/*
 * What has happened to a process, but is not told yet: a reading shows it too early. Told by
 * spaces_map() and the others when its time has come.
 */
struct spaces_pending {
	bool image;		/* an exec, or its very start: the reading is of what comes then */
	const struct spaces_range {
		__u64 start, end;
	} * ranges; /* executable mappings */
	size_t n_ranges;
};

/*
 * spaces_read() - read /proc/@tgid/maps now.
 * @pending: called after the reading, may be NULL: what it shows too early; result valid until
 *           the next call
 * @out: the space; owned by @s, as all spaces, until it is two spaces old or spaces_end()
 *
 * A read that finds only additions extends the newest space in place (the array may move); if an
 * executable mapping was replaced or removed, or @tgid is another process now, there is a new one.
 * Mappings without a file have no names to lend: they come and go, unless a file takes their place.
 * Return: 0, or -errno (-ESRCH: no such process; -ENODATA: no mappings: kernel thread, zombie, or
 * an exec during the read; -EAGAIN: the reading is of an image whose exec is pending, or shows that
 * something was replaced or removed while mappings are pending: read again when they were told).
 */
int spaces_read(struct spaces *s, __u32 tgid,
		const struct spaces_pending *(*pending)(void *ctx, __u32 tgid), void *ctx,
		const struct space **out);

/*
 * spaces_map() - an executable mapping was made at @time_ns.
 * @m: .module with a reference, taken over; .bias as spaces_read() has it
 * @offset: of its start in its file
 *
 * Of a process that is not known: nothing. Return: 0 or -ENOMEM.
 */
int spaces_map(struct spaces *s, __u32 tgid, __u64 time_ns, const struct rprof_mapping *m,
	       __u64 offset);
/* @tgid has a new, empty image. */
int spaces_exec(struct spaces *s, __u32 tgid, __u64 time_ns);
/* @child is a copy of what @parent was then; nothing if that is not known. */
int spaces_fork(struct spaces *s, __u32 child, __u32 parent, __u64 time_ns);
/* @tgid has ended, and all was told: its spaces are freed. */
void spaces_end(struct spaces *s, __u32 tgid);

/* The space of @tgid at @time_ns, NULL: not known, or older than the last but one. */
const struct space *spaces_at(const struct spaces *s, __u32 tgid, __u64 time_ns);
const struct space *spaces_newest(const struct spaces *s, __u32 tgid);

/* The mapping of @sp that holds @addr, or NULL. */
const struct rprof_mapping *space_mapping(const struct space *sp, __u64 addr);

/* Where @addr, inside mapping @m of @sp, lies in its file. */
__u64 space_file_offset(const struct space *sp, const struct rprof_mapping *m, __u64 addr);

/* Number of processes with a space: of ended ones there is none. */
size_t spaces_n(const struct spaces *s);

#endif
