// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What each capability is for, and what is missing without it. capabilities(7); which of them the
 * kernel asks for is beside each one. caps.c has the short form, for a run.
 */
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>

#include "caps.h"
#include "check_parts.h"
#include "check_report.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define BIT(cap) (1ull << (cap))

struct right {
	__u64 any_of;		/* one of these is enough */
	const char *name;	/* the narrowest */
	enum check_state without;
	bool as_user;		/* only for a command of the user who called sudo */
	const char *use;
	const char *cost;
};

static const struct right rights[] = {
	/* bpf_prog_load() in kernel/bpf/syscall.c */
	{ BIT(CAP_BPF) | BIT(CAP_SYS_ADMIN), "CAP_BPF", CHECK_IMPOSSIBLE, false,
	  "BPF programs can be loaded", "BPF programs cannot be loaded: no sampling" },
	/* the same, for tracing programs; perf_event_open() of all tasks of a CPU */
	{ BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN), "CAP_PERFMON", CHECK_IMPOSSIBLE, false,
	  "CPUs can be sampled and stacks read",
	  "CPUs cannot be sampled, and stacks cannot be read: no sampling" },
	/*
	 * ptrace_may_access() in kernel/ptrace.c guards /proc/PID/root and map_files, and before 6.13
	 * (mm_access(): CAP_PERFMON) also maps
	 */
	{ BIT(CAP_SYS_PTRACE), "CAP_SYS_PTRACE", CHECK_DEGRADED, false,
	  "files that any process has mapped can be opened",
	  "files that processes of other users, or with more rights than ours, have mapped cannot be "
	  "opened: their functions have no names" },
	/* proc_map_files_get_link() in fs/proc/base.c */
	{ BIT(CAP_CHECKPOINT_RESTORE) | BIT(CAP_SYS_ADMIN), "CAP_CHECKPOINT_RESTORE",
	  CHECK_DEGRADED, false, "mapped files can be opened as they are mapped",
	  "mapped files are opened by path: functions of those deleted, replaced or "
	  "without a path have no names" },
	/* generic_permission() in fs/namei.c; /proc/PID/map_files is its owner's alone, too */
	{ BIT(CAP_DAC_READ_SEARCH) | BIT(CAP_DAC_OVERRIDE), "CAP_DAC_READ_SEARCH", CHECK_DEGRADED,
	  false, "files can be read whoever may read them",
	  "files that our user may not read are not: their functions have no names" },
	/* command.c: setgroups(), setresgid(), setresuid() */
	{ BIT(CAP_SETUID), "CAP_SETUID", CHECK_DEGRADED, true,
	  "-- COMMAND can run as the user who called sudo",
	  "-- COMMAND cannot run as the user who called sudo: only with --as-root" },
	{ BIT(CAP_SETGID), "CAP_SETGID", CHECK_DEGRADED, true,
	  "-- COMMAND can have the groups of the user who called sudo",
	  "-- COMMAND cannot run as the user who called sudo: only with --as-root" },
	/* check_kill_permission() in kernel/signal.c */
	{ BIT(CAP_KILL), "CAP_KILL", CHECK_DEGRADED, true, "signals can be passed on to -- COMMAND",
	  "SIGTERM and SIGHUP are not passed on to -- COMMAND, which runs as another user" },
	/* outfile.c: fchown() */
	{ BIT(CAP_CHOWN), "CAP_CHOWN", CHECK_DEGRADED, true,
	  "-o FILE can be given to the user who called sudo", "-o FILE stays root's" },
};

static void advise(const struct caps_facts *caps, const struct right *w, char *buf, size_t size)
{
	if (caps->euid)
		snprintf(buf, size, "run it as root (sudo), or setcap " CAPS_SETCAP " FILE");
	else
		snprintf(buf, size, "we are root without it, as in a container: --cap-add=%s",
			 w->name + strlen("CAP_"));
}

/* A namespace of users has all capabilities and none that count here: ns_capable() of the first. */
static bool check_user_namespace(struct check_report *r, const struct caps_facts *caps)
{
	if (!caps->user_namespace)
		return true;
	check_add(r, CHECK_IMPOSSIBLE, "user namespace", "run it on the host, as root",
		  "this is a user namespace (a rootless container?): its capabilities do not count "
		  "for BPF");
	return false;
}

bool check_rights(struct check_report *r, const struct caps_facts *caps, bool as_user)
{
	bool allowed = check_user_namespace(r, caps);
	char advice[160];

	for (size_t i = 0; i < ARRAY_SIZE(rights); i++) {
		const struct right *w = &rights[i];

		if (w->as_user && !as_user)
			continue;
		if (caps->effective & w->any_of) {
			check_add(r, CHECK_FINE, w->name, NULL, "%s", w->use);
			continue;
		}
		advise(caps, w, advice, sizeof(advice));
		check_add(r, w->without, w->name, advice, "missing: %s", w->cost);
		allowed &= w->without != CHECK_IMPOSSIBLE;
	}
	return allowed;
}
