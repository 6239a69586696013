// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "followed.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cputime.h"
#include "log.h"
#include "options.h"
#include "processes.h"
#include "session.h"
#include "target.h"

static int explain(const char *option, __u32 id, int err)
{
	if (err == -ESRCH)
		log_error("%s %u: ended before sampling could start (rprof-bpf -- COMMAND starts a "
			  "program and samples it from its first instruction)",
			  option, id);
	else if (err == -EMFILE)
		log_error("%s %u: too many open files, one per thread is needed (raise ulimit -n)",
			  option, id);
	else if (err == -E2BIG)
		log_error("%s %u: too many processes, %u can be followed (-a follows all)", option,
			  id, RPROF_MAX_PROCS);
	else
		log_error("%s %u: %s", option, id, strerror(-err));
	return err;
}

static int add_process(__u32 pid, struct processes *processes, struct cputime *cputime)
{
	int err = processes_follow(processes, pid, RPROF_PROC_FOLLOW);

	return err ? err : cputime_add_process(cputime, pid, false);
}

static bool has_id(const __u32 *ids, size_t n, __u32 id)
{
	for (size_t i = 0; i < n; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* Follow those of @ids that are not among the @n_old sorted ones. Return: how many, or -errno. */
static int follow_new(const __u32 *ids, size_t n, const __u32 *old, size_t n_old,
		      struct processes *processes)
{
	int n_new = 0;

	for (size_t i = 0, k = 0; i < n; i++) {
		int err;

		while (k < n_old && old[k] < ids[i])
			k++;
		if (k < n_old && old[k] == ids[i])
			continue;
		err = processes_follow(processes, ids[i], RPROF_PROC_FOLLOW | RPROF_PROC_TREE);
		n_new++;
		/* Ended meanwhile; or the kernel side has it already, and says so in a record. */
		if (err && err != -ESRCH && err != -ENOENT && err != -EEXIST)
			return err;
	}
	return n_new;
}

/*
 * Everything below @roots. Once a process is followed the kernel side follows its children, so that
 * what is missed is older than that, and seen by the next look. Return: 0 or -errno.
 */
static int follow_trees(const __u32 *roots, size_t n_roots, struct processes *processes)
{
	__u32 *ids, *old = NULL;
	size_t n, n_old = 0;
	int found = 1, err;

	while (found > 0) {
		err = target_descendants(roots, n_roots, &ids, &n);
		if (err) {
			found = err;
			break;
		}
		found = follow_new(ids, n, old, n_old, processes);
		free(old);
		old = ids;
		n_old = n;
	}
	for (size_t i = 0; !found && i < n_roots; i++)
		if (!has_id(old, n_old, roots[i]))
			found = -ESRCH;
	free(old);
	return found;
}

static int add_thread(__u32 tid, struct processes *processes, struct session *session,
		      struct cputime *cputime)
{
	enum target_state state;
	__u32 tgid;
	int err;

	state = target_look(tid, &tgid);
	if (state == TARGET_GONE || state == TARGET_ZOMBIE)
		return -ESRCH;
	/* The thread matches, its process only gets a mapping table. */
	err = processes_follow(processes, tgid, 0);
	if (!err)
		err = session_follow_tid(session, tid);
	return err ? err : cputime_add_thread(cputime, tid);
}

int followed_add(const struct options *o, pid_t command, struct processes *processes,
		 struct session *session, struct cputime *cputime)
{
	const __u32 tree = o->subprocesses ? RPROF_PROC_TREE : 0;
	int err;

	if (o->subprocesses)
		cputime_with_children(cputime);
	if (o->subprocesses && o->n_pids) {
		err = follow_trees(o->pids, o->n_pids, processes);
		if (!err)
			err = cputime_add_trees(cputime, o->pids, o->n_pids);
		if (err)
			return explain("-s -p", o->pids[0], err);
	}
	for (size_t i = 0; i < o->n_pids && !o->subprocesses; i++) {
		err = add_process(o->pids[i], processes, cputime);
		if (err)
			return explain("-p", o->pids[i], err);
	}
	for (size_t i = 0; i < o->n_tids; i++) {
		err = add_thread(o->tids[i], processes, session, cputime);
		if (err)
			return explain("--tid", o->tids[i], err);
	}
	if (command) {
		err = processes_follow(processes, command,
				       RPROF_PROC_FOLLOW | RPROF_PROC_WAIT_EXEC | tree);
		if (!err)
			err = cputime_add_process(cputime, command, true);
		if (err)
			return explain("command: process", command, err);
	}
	if (o->all) {
		err = cputime_add_all(cputime);
		if (err)
			log_warn("/proc/stat: %s: \"expected\" is not known", strerror(-err));
	}
	return 0;
}
