// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KTHREAD_FLAG 0x00200000ul /* PF_KTHREAD, include/linux/sched.h */

int target_parse_stat(const char *text, size_t len, char *state, unsigned long *flags)
{
	/* The comm is in parentheses and may hold any byte, so: the last closing one. */
	const char *p = memrchr(text, ')', len);
	int n;

	if (!p || len - (p - text) < 4 || memchr(p, '\0', len - (p - text)))
		return -EINVAL;
	n = sscanf(p + 1, " %c %*d %*d %*d %*d %*d %lu", state, flags);
	return n == 2 ? 0 : -EINVAL;
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
	char path[64], text[4096], state;
	unsigned long flags;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	if (!read_file(path, text, sizeof(text)))
		return TARGET_GONE;
	*tgid = status_number(text, "\nTgid:");
	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	n = read_file(path, text, sizeof(text));
	if (!n || target_parse_stat(text, n, &state, &flags))
		return TARGET_GONE;
	if (state == 'Z' || state == 'X')
		return TARGET_ZOMBIE;
	if (flags & KTHREAD_FLAG)
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
