// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One process: can it be sampled, and what of it can be read. Nothing of it is stopped or changed. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_parts.h"
#include "check_report.h"
#include "escape.h"
#include "jit.h"
#include "module_file.h"
#include "monotonic.h"
#include "proc.h"
#include "proc_maps.h"
#include "rprof/config.h"
#include "target.h"
#include "target_file.h"

/* Of /proc/PID/status. */
struct status {
	char comm[128];		/* escaped: a name of 16 bytes has at most 60 */
	char state;
	unsigned int threads, uid, inner_pid; /* effective uid; number in its own pid namespace */
	bool nested;		/* inner_pid is not the number we know it by */
};

static size_t read_at(int dir, const char *name, void *buf, size_t size)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, size);

	if (fd >= 0)
		close(fd);
	return n > 0 ? (size_t)n : 0;
}

/* "NSpid:\t4711\t12\t1": the outermost that we see first, its own last. */
static void parse_numbers(struct status *s, const char *line)
{
	unsigned int n;
	int used, count = 0;

	while (sscanf(line, "%u%n", &n, &used) == 1) {
		s->inner_pid = n;
		s->nested = count++ > 0;
		line += used;
		if (*line == '\n')
			return;
	}
}

static bool read_status(int dir, struct status *s)
{
	char text[4096], comm[64] = "", *escaped;
	size_t n = read_at(dir, "status", text, sizeof(text) - 1);
	const char *p;

	*s = (struct status){ .state = '?' };
	text[n] = '\0';
	/* The kernel escapes newline and backslash of a name here, so that no line is forged. */
	if (!n || sscanf(text, "Name:\t%63[^\n]", comm) != 1)
		return false;
	escaped = escape_string(comm, strlen(comm));
	snprintf(s->comm, sizeof(s->comm), "%s", escaped ? escaped : "?");
	free(escaped);
	if ((p = strstr(text, "\nState:\t")))
		s->state = p[8];
	if ((p = strstr(text, "\nUid:\t")))
		sscanf(p, "\nUid: %*u %u", &s->uid);
	if ((p = strstr(text, "\nThreads:\t")))
		sscanf(p, "\nThreads: %u", &s->threads);
	if ((p = strstr(text, "\nNSpid:\t")))
		parse_numbers(s, p + 8);
	return true;
}

/* AT_PHENT is the size of a program header. Pairs of numbers as wide as the process's words. */
int check_auxv_bits(const void *auxv, size_t size)
{
	for (size_t at = 0; at + 16 <= size; at += 16) {
		__u64 pair[2];

		memcpy(pair, (const char *)auxv + at, sizeof(pair));
		if (pair[0] == AT_PHENT && pair[1] == sizeof(Elf64_Phdr))
			return 64;
	}
	for (size_t at = 0; at + 8 <= size; at += 8) {
		__u32 pair[2];

		memcpy(pair, (const char *)auxv + at, sizeof(pair));
		if (pair[0] == AT_PHENT && pair[1] == sizeof(Elf32_Phdr))
			return 32;
	}
	return 0;
}

static bool is_supported(struct check_report *r, int dir)
{
	char auxv[1024];
	const bool narrow = check_auxv_bits(auxv, read_at(dir, "auxv", auxv, sizeof(auxv))) == 32;

	if (narrow)
		check_add(
			r, CHECK_IMPOSSIBLE, "32-bit process", "a 64-bit build of the program",
			"its user frames are not read: [unsupported: 32-bit process] stands there");
	return !narrow;
}

static void check_state(struct check_report *r, const struct status *s)
{
	if (s->state == 'T' || s->state == 't')
		check_add(r, CHECK_DEGRADED, "state",
			  s->state == 'T' ? "kill -CONT it" : "let its debugger continue it",
			  "%s, %u thread%s, stopped: no samples until it is continued", s->comm,
			  s->threads, s->threads == 1 ? "" : "s");
	else
		check_add(r, CHECK_FINE, "state", NULL, "%s, %u thread%s, user %u", s->comm,
			  s->threads, s->threads == 1 ? "" : "s", s->uid);
}

/* Is the namespace of a kind ours? -1: not known. */
static int same_namespace(int dir, const char *kind)
{
	char path[32], own[64];
	struct stat its, ours;

	snprintf(path, sizeof(path), "ns/%s", kind);
	proc_path(own, sizeof(own), "self/ns/%s", kind);
	if (fstatat(dir, path, &its, 0) || stat(own, &ours))
		return -1;
	return its.st_ino == ours.st_ino;
}

static const char *namespace_word(int same)
{
	return same < 0 ? "not known" : same ? "ours" : "its own";
}

static void check_namespaces(struct check_report *r, int dir, const struct status *s)
{
	int pid = same_namespace(dir, "pid"), mnt = same_namespace(dir, "mnt");
	int user = same_namespace(dir, "user");
	char number[48] = "";

	if (pid < 0 && mnt < 0 && user < 0)
		return; /* the rights say why, and "mappings" what follows */
	if (s->nested)
		snprintf(number, sizeof(number), ", where it is number %u", s->inner_pid);
	check_add(r, CHECK_FINE, "namespaces", NULL, "pid: %s%s; mount: %s; user: %s",
		  namespace_word(pid), number, namespace_word(mnt), namespace_word(user));
}

static bool is_run_time_code(const struct maps_entry *e)
{
	char *path = e->executable ? module_file_path(e) : NULL;
	bool is = path && !module_file_has_name(path);

	free(path);
	return is;
}

struct run_time_code {
	__u64 size;		/* bytes */
	__u64 addr;		/* of some of it */
	bool has_dump;		/* a jit-N.dump is mapped */
};

/* A runtime maps a page of its jitdump executable, so that profilers see where it is. */
static bool is_dump(const struct maps_entry *e)
{
	char *path = e->executable ? module_file_path(e) : NULL;
	const char *slash = path ? strrchr(path, '/') : NULL;
	unsigned int number;
	int len = 0;
	bool is;

	is = slash && sscanf(slash, "/jit-%u.dump%n", &number, &len) == 1 && len && !slash[len];
	free(path);
	return is;
}

static bool is_there(int dir, const char *path)
{
	int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct stat st;

	if (root >= 0) {
		fd = target_file_open_below(root, path, &st);
		close(root);
	}
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* jit.c decides which file of names is believed, here as in a run. */
static void check_perf_map(struct check_report *r, int dir, const struct status *s,
			   const struct run_time_code *code)
{
	static const char subject[] = "run-time code";
	const unsigned long long kib = code->size / 1024;
	struct jit *jit = jit_new();
	const char *problem;
	char path[64];

	if (!jit)
		return;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", s->inner_pid);
	jit_find(jit, dir, code->addr, monotonic_ns());
	problem = jit_problem(jit);
	if (problem)
		check_add(r, CHECK_DEGRADED, subject, "remove that file, or mend it",
			  "%llu KiB without a file; %s in its root: %s", kib, path, problem);
	else if (is_there(dir, path))
		check_add(r, CHECK_FINE, subject, NULL,
			  "%llu KiB without a file; names are read from %s in its root", kib, path);
	else if (code->has_dump)
		check_add(r, CHECK_FINE, subject, NULL,
			  "%llu KiB without a file; its jitdump is among the files", kib);
	else
		check_add(r, CHECK_DEGRADED, subject,
			  "let the runtime write it (node --perf-basic-prof and the like)",
			  "%llu KiB without a file; there is no %s in its root: no names, and "
			  "stacks end there",
			  kib, path);
	jit_free(jit);
}

static void check_mappings(struct check_report *r, int dir, const struct status *s,
			   const struct proc_maps *maps)
{
	struct run_time_code code = { 0 };
	size_t n_exec = 0;

	for (size_t i = 0; i < maps->n; i++) {
		const struct maps_entry *e = &maps->entries[i];

		n_exec += e->executable;
		code.has_dump |= is_dump(e);
		if (!is_run_time_code(e))
			continue;
		code.size += e->end - e->start;
		code.addr = e->start;
	}
	if (n_exec > RPROF_MAX_MAPPINGS)
		check_add(r, CHECK_DEGRADED, "mappings", "nothing to do: the limit is built in",
			  "%zu, %zu of them executable; the %u that matter most are known while "
			  "sampling, frames in others are checked afterwards",
			  maps->n, n_exec, RPROF_MAX_MAPPINGS);
	else
		check_add(r, CHECK_FINE, "mappings", NULL, "%zu, %zu of them executable", maps->n,
			  n_exec);
	if (code.size)
		check_perf_map(r, dir, s, &code);
}

static void explain_maps(struct check_report *r, int err)
{
	if (err == -ESRCH || err == -ENODATA)
		check_add(r, CHECK_IMPOSSIBLE, "mappings", "look for what took its place",
			  "none: it ended, or is another program by now");
	else
		check_add(r, CHECK_DEGRADED, "mappings",
			  err == -EPERM || err == -EACCES ?
				  "CAP_SYS_PTRACE (see the rights above)" :
				  NULL,
			  "cannot be read (%s): its user frames have no names", strerror(-err));
}

static void check_user_process(struct check_report *r, __u32 pid, int dir)
{
	struct proc_maps maps;
	struct status s;
	int err;

	if (!read_status(dir, &s)) {
		explain_maps(r, -ESRCH);
		return;
	}
	check_state(r, &s);
	check_namespaces(r, dir, &s);
	if (!is_supported(r, dir))
		return;
	proc_maps_init(&maps);
	err = proc_maps_read(&maps, dir);
	if (err) {
		explain_maps(r, err);
	} else {
		check_mappings(r, dir, &s, &maps);
		check_files(r, pid, dir, &maps);
	}
	proc_maps_fini(&maps);
}

void check_process(struct check_report *r, __u32 pid)
{
	static const char subject[] = "state";
	int dir = proc_open(pid);
	__u32 tgid = 0;

	check_group(r, "process %u", pid);
	switch (dir < 0 ? TARGET_GONE : target_look(pid, &tgid)) {
	case TARGET_GONE:
		check_add(r, CHECK_IMPOSSIBLE, subject, "it may have ended", "no such process");
		break;
	case TARGET_ZOMBIE:
		check_add(r, CHECK_IMPOSSIBLE, subject, "its parent should wait for it",
			  "it has ended and waits for its parent (a zombie): it runs no more code");
		break;
	case TARGET_THREAD:
		check_add(r, CHECK_IMPOSSIBLE, subject, "-p with the process, or record --tid",
			  "a thread of process %u", tgid);
		break;
	case TARGET_KTHREAD:
		check_add(r, CHECK_FINE, subject, NULL,
			  "a kernel thread: its stacks are kernel "
			  "stacks only");
		break;
	case TARGET_OK:
		check_user_process(r, pid, dir);
		break;
	}
	if (dir >= 0)
		close(dir);
}
