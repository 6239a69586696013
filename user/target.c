// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"
#include "proc.h"

#define KTHREAD_FLAG 0x00200000ul /* PF_KTHREAD, include/linux/sched.h */

int target_parse_stat(const char *text, size_t len, struct target_stat *out)
{
	/* The comm is in parentheses and may hold any byte, so: the last closing one. */
	const char *p = memrchr(text, ')', len);
	unsigned long long start_time;
	struct target_stat s;
	char fields[1024];
	size_t left;

	left = p ? len - (size_t)(p + 1 - text) : 0;
	if (!left || left >= sizeof(fields) || memchr(p, '\0', left))
		return -EINVAL;
	memcpy(fields, p + 1, left);
	fields[left] = '\0';
	/* Fields 3, 4, 9 and 22. */
	if (sscanf(fields,
		   " %c %u %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
		   " %llu",
		   &s.state, &s.ppid, &s.flags, &start_time) != 4)
		return -EINVAL;
	s.start_time = start_time;
	*out = s;
	return 0;
}

static size_t read_file(const char *path, char *text, size_t size)
{
	FILE *f = fopen(path, "re");
	size_t n;

	if (!f)
		return 0;
	n = fread(text, 1, size - 1, f);
	fclose(f);
	text[n] = '\0';
	return n;
}

/* The number after "@key:" of a /proc/PID/status text, 0 if there is none. */
static __u32 status_number(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? strtoul(p + strlen(key), NULL, 10) : 0;
}

static int read_stat(__u32 pid, struct target_stat *stat)
{
	char path[64], text[4096];
	size_t n;

	proc_path(path, sizeof(path), "%u/stat", pid);
	n = read_file(path, text, sizeof(text));
	return n ? target_parse_stat(text, n, stat) : -ESRCH;
}

enum target_state target_look(__u32 pid, __u32 *tgid)
{
	char path[64], text[4096];
	struct target_stat stat;

	proc_path(path, sizeof(path), "%u/status", pid);
	if (!read_file(path, text, sizeof(text)))
		return TARGET_GONE;
	*tgid = status_number(text, "\nTgid:");
	if (read_stat(pid, &stat))
		return TARGET_GONE;
	if (stat.state == 'Z' || stat.state == 'X')
		return TARGET_ZOMBIE;
	if (stat.flags & KTHREAD_FLAG)
		return TARGET_KTHREAD;
	return *tgid == pid ? TARGET_OK : TARGET_THREAD;
}

bool target_has_ended(__u32 tgid)
{
	enum target_state state;
	char path[64];
	struct stat st;
	__u32 of;

	state = target_look(tgid, &of);
	if (state != TARGET_ZOMBIE)
		return state == TARGET_GONE;
	/* Links to a directory of /proc/PID/task: one per thread, and its own two. */
	proc_path(path, sizeof(path), "%u/task", tgid);
	return stat(path, &st) || st.st_nlink <= 3;
}

bool target_has_thread(__u32 tgid, __u32 tid)
{
	char path[64];

	proc_path(path, sizeof(path), "%u/task/%u", tgid, tid);
	return !access(path, F_OK);
}

struct process {
	__u32 pid, ppid;
	bool below;		/* one of the roots, or below one */
};

struct process_list {
	struct process *items;
	size_t n, cap;
};

static int compare_processes(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct process *find_process(const struct process_list *list, __u32 pid)
{
	const struct process key = { .pid = pid };

	return bsearch(&key, list->items, list->n, sizeof(key), compare_processes);
}

/* All processes, sorted. */
static int read_processes(struct process_list *list)
{
	struct dirent *e;
	char path[64];
	DIR *dir;
	int err = 0;

	proc_path(path, sizeof(path), "%s", "");
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (!err && (e = readdir(dir))) {
		struct target_stat stat;
		struct process *items;
		__u32 pid;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		pid = strtoul(e->d_name, NULL, 10);
		if (read_stat(pid, &stat))
			continue;
		items = array_grow(list->items, &list->cap, list->n + 1, sizeof(*items));
		if (!items) {
			err = -ENOMEM;
			break;
		}
		list->items = items;
		list->items[list->n++] = (struct process){ pid, stat.ppid, false };
	}
	closedir(dir);
	qsort(list->items, list->n, sizeof(*list->items), compare_processes);
	return err;
}

/* Mark what is below a marked one, as deep as it goes. Return: number of marked ones. */
static size_t mark_descendants(struct process_list *list)
{
	size_t marked, before = 0;

	for (;;) {
		marked = 0;
		for (size_t i = 0; i < list->n; i++) {
			struct process *p = &list->items[i];
			const struct process *parent = p->below ? p : find_process(list, p->ppid);

			p->below = parent && parent->below;
			marked += p->below;
		}
		if (marked == before)
			return marked;
		before = marked;
	}
}

int target_descendants(const __u32 *roots, size_t n_roots, __u32 **ids, size_t *n)
{
	struct process_list list = {};
	int err = read_processes(&list);
	__u32 *found = NULL;
	size_t at = 0;

	for (size_t i = 0; !err && i < n_roots; i++) {
		struct process *root = find_process(&list, roots[i]);

		if (root)
			root->below = true;
	}
	if (!err) {
		found = calloc(mark_descendants(&list) + 1, sizeof(*found));
		err = found ? 0 : -ENOMEM;
	}
	for (size_t i = 0; !err && i < list.n; i++)
		if (list.items[i].below)
			found[at++] = list.items[i].pid;
	free(list.items);
	if (err)
		return err;
	*ids = found;
	*n = at;
	return 0;
}
