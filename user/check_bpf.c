// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Other BPF programs. While a kprobe, uprobe or tracepoint program runs on a CPU the kernel runs no
 * sampling program there and counts nothing: bpf_overflow_handler() in kernel/events/core.c and
 * trace_call_bpf() in kernel/trace/bpf_trace.c share the counter bpf_prog_active. Raw tracepoints
 * do not use it (measured, too), and sampling programs run in interrupts that do not nest.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check_parts.h"
#include "check_report.h"
#include "escape.h"
#include "monotonic.h"
#include "proc.h"

#define MAX_PROGRAMS 4096	/* looked at */
#define MAX_HAZARDS 64		/* named */
#define SEARCH_NS                                                                                  \
	1000000000ULL /* for where they are attached; there may be a million descriptors */

struct hazard {
	__u32 id;
	__u32 type;
	char name[BPF_OBJ_NAME_LEN];
	char place[128];	/* "raw_syscalls:sys_enter"; "": not known */
	__u32 holder;		/* process that holds it; 0: not known */
};

struct survey {
	struct hazard hazards[MAX_HAZARDS];
	size_t n_hazards, n_unnamed;	/* beyond MAX_HAZARDS */
	size_t n_programs;
	__u64 deadline_ns;
};

static bool is_hazard(__u32 type)
{
	return type == BPF_PROG_TYPE_KPROBE || type == BPF_PROG_TYPE_TRACEPOINT;
}

static void take_program(struct survey *s, __u32 id)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	struct hazard *h;
	int fd = bpf_prog_get_fd_by_id(id), err;

	if (fd < 0)
		return;
	err = bpf_obj_get_info_by_fd(fd, &info, &len);
	close(fd);
	if (err)
		return;
	s->n_programs++;
	if (!is_hazard(info.type))
		return;
	if (s->n_hazards == MAX_HAZARDS) {
		s->n_unnamed++;
		return;
	}
	h = &s->hazards[s->n_hazards++];
	h->id = id;
	h->type = info.type;
	snprintf(h->name, sizeof(h->name), "%s", info.name);
}

/* Return: 0 or -errno: they cannot be listed. */
static int list_programs(struct survey *s)
{
	__u32 id = 0;

	for (int i = 0; i < MAX_PROGRAMS; i++) {
		if (bpf_prog_get_next_id(id, &id))
			return errno == ENOENT ? 0 : -errno;
		take_program(s, id);
	}
	return 0;
}

/* Is that descriptor what one of them is attached by? */
static void look_at_fd(struct survey *s, __u32 pid, int fd)
{
	char place[sizeof(s->hazards[0].place)];
	__u32 len = sizeof(place), prog_id = 0, type = 0;
	__u64 offset, addr;

	if (bpf_task_fd_query((int)pid, fd, 0, place, &len, &prog_id, &type, &offset, &addr))
		return;
	for (size_t i = 0; i < s->n_hazards; i++) {
		struct hazard *h = &s->hazards[i];

		if (h->id != prog_id || *h->place)
			continue;
		snprintf(h->place, sizeof(h->place), "%s", place);
		h->holder = pid;
	}
}

static void look_at_process(struct survey *s, __u32 pid)
{
	char path[64], link[64];
	struct dirent *entry;
	DIR *dir;

	proc_path(path, sizeof(path), "%u/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)) && monotonic_ns() < s->deadline_ns) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		if (len <= 0)
			continue;
		link[len] = '\0';
		if (!strcmp(link, "anon_inode:[perf_event]"))
			look_at_fd(s, pid, atoi(entry->d_name));
	}
	if (dir)
		closedir(dir);
}

/* Only descriptors say where a program is attached, and who holds it. */
static void find_places(struct survey *s)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	proc_path(path, sizeof(path), ".");
	dir = opendir(path);
	s->deadline_ns = monotonic_ns() + SEARCH_NS;
	while (dir && (entry = readdir(dir)) && monotonic_ns() < s->deadline_ns) {
		__u32 pid = strtoul(entry->d_name, NULL, 10);

		if (pid)
			look_at_process(s, pid);
	}
	if (dir)
		closedir(dir);
}

static void report_hazard(struct check_report *r, const struct hazard *h)
{
	char *name = escape_string(h->name, strlen(h->name));
	char *place = escape_string(h->place, strlen(h->place));
	char holder[32] = "";

	if (h->holder)
		snprintf(holder, sizeof(holder), ", held by process %u", h->holder);
	check_add(r, CHECK_DEGRADED, "other BPF programs",
		  "end them, or read \"missed\" of the run",
		  "%s: %s%s%s%s: samples on a CPU that runs it are missed",
		  name && *name ? name : "(no name)",
		  h->type == BPF_PROG_TYPE_KPROBE ? "kprobe or uprobe" : "tracepoint",
		  h->place[0] ? " " : "", place ? place : "", holder);
	free(name);
	free(place);
}

void check_bpf_programs(struct check_report *r)
{
	struct survey *s = calloc(1, sizeof(*s));
	int err = s ? list_programs(s) : -ENOMEM;

	if (err) {
		check_add(r, CHECK_DEGRADED, "other BPF programs",
			  err == -EPERM ? "CAP_SYS_ADMIN; a run counts what it missed" :
					  "a run counts what it missed",
			  "cannot be listed (%s): whether some cause missed samples is not known",
			  strerror(-err));
		free(s);
		return;
	}
	if (s->n_hazards)
		find_places(s);
	for (size_t i = 0; i < s->n_hazards; i++)
		report_hazard(r, &s->hazards[i]);
	if (s->n_unnamed)
		check_add(r, CHECK_DEGRADED, "other BPF programs", "end them",
			  "%zu more kprobe, uprobe or tracepoint programs", s->n_unnamed);
	if (!s->n_hazards)
		check_add(r, CHECK_FINE, "other BPF programs", NULL,
			  "%zu loaded, none of a kind that samples are missed for", s->n_programs);
	free(s);
}
