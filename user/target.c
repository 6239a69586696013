// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	/* Fields 3, 9 and 22. */
	if (sscanf(fields,
		   " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d"
		   " %llu",
		   &s.state, &s.flags, &start_time) != 3)
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

enum target_state target_look(__u32 pid, __u32 *tgid)
{
	char path[64], text[4096];
	struct target_stat stat;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (!read_file(path, text, sizeof(text)))
		return TARGET_GONE;
	*tgid = status_number(text, "\nTgid:");
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	n = read_file(path, text, sizeof(text));
	if (!n || target_parse_stat(text, n, &stat))
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
	snprintf(path, sizeof(path), "/proc/%u/task", tgid);
	return stat(path, &st) || st.st_nlink <= 3;
}
