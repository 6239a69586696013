/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The CPython interpreters of the processes we see: found by what their files and memory hold, never
 * by a name; validated; given to the kernel side. Again after an exec, in a child, and when code was
 * mapped. What is not supported is said once, with the reason, and its native stacks go on.
 */
#ifndef RPROF_PYTHONS_H
#define RPROF_PYTHONS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "python_candidate.h"
#include "rprof/config.h"

struct modules;
struct pythons;
struct session;
struct space;
struct spaces;

struct pythons_config {
	struct session
		*session; /* borrowed, as are the others; NULL: nothing is published, or said */
	struct spaces *spaces;
	struct modules *modules;
	bool required;			/* what is refused is said as an error, not as a warning */
};

struct pythons *pythons_new(const struct pythons_config *config); /* NULL: no memory */
/* What is not supported beside one that was waited for to the end is said now. */
void pythons_free(struct pythons *p);

/*
 * pythons_look() - the mappings of @tgid are new or have changed: is there an interpreter in them?
 * @execs: of the image that they are of (session_execs())
 *
 * Bounded in time per drain; what is left over, or not live yet, is looked at again by
 * pythons_again(). Cheap where the mapped files are the same as before.
 */
void pythons_look(struct pythons *p, __u32 tgid, __u32 execs);
/* @child is a copy of @parent: what is known of it holds until it is looked at itself. */
void pythons_fork(struct pythons *p, __u32 child, __u32 parent);
/*
 * The kernel side did not find a thread state in @tgid: it is told where they are at the end of the
 * drain, at most every 250 ms.
 */
void pythons_lost(struct pythons *p, __u32 tgid);
/* At the end of each drain: those that have a runtime and no live interpreter yet, or lost a state. */
void pythons_again(struct pythons *p);
/*
 * Before sampling begins: what did not hold up because its process runs on, or was not tried yet for
 * want of time, is tried again at once, for about @limit_ns.
 */
void pythons_settle(struct pythons *p, __u64 limit_ns);
/* A new image, or the end. */
void pythons_forget(struct pythons *p, __u32 tgid);

/* How the interpreter of @tgid is read; NULL: it has none that is known. */
const struct rprof_python *pythons_find(const struct pythons *p, __u32 tgid);
/* The number of the file that holds it, or one that is not in use yet (modules.h); 0: none. */
__u32 pythons_module(const struct pythons *p, __u32 tgid);

enum pythons_state {
	PYTHONS_NONE,		/* nothing of Python is mapped */
	PYTHONS_WAITING,	/* not live yet, or not yet to be told from what is no interpreter */
	PYTHONS_FOUND,
	PYTHONS_REFUSED,
};

/* What is known of one process, for `check`. */
struct pythons_report {
	enum pythons_state state;
	bool proved;		/* FOUND: a frame held up, not only the interpreter */
	struct python_candidate of; /* .module 0: none */
	struct python_tried tried;
	bool unfinished;	/* not all files were looked at yet, for want of time */
	__u64 asyncio;		/* address of .AsyncioDebug in any file; 0: none */
};
void pythons_report(const struct pythons *p, __u32 tgid, struct pythons_report *out);

struct pythons_stats {
	__u64 found, refused;	/* processes, ever */
	__u64 waiting;		/* now */
	__u64 second;		/* processes with a live interpreter beside the one that is read */
};
void pythons_stats(const struct pythons *p, struct pythons_stats *out);

#endif
