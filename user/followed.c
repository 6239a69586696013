// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "followed.h"

#include <errno.h>
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
	int err;

	for (size_t i = 0; i < o->n_pids; i++) {
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
				       RPROF_PROC_FOLLOW | RPROF_PROC_WAIT_EXEC);
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
