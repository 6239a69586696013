// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

/* Inode of the first pid namespace: PROC_PID_INIT_INO, include/linux/proc_ns.h. */
#define INIT_PID_NS 0xEFFFFFFCu

static char prefix[64] = "/proc/";

void proc_path(char *buf, size_t size, const char *format, ...)
{
	int len = snprintf(buf, size, "%s", prefix);
	va_list args;

	va_start(args, format);
	if (len >= 0 && (size_t)len < size)
		vsnprintf(buf + len, size - (size_t)len, format, args);
	va_end(args);
}

int proc_open(__u32 pid)
{
	char path[64];
	int fd;

	proc_path(path, sizeof(path), "%u", pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

/*
 * NSpid of proc_pid_status(), fs/proc/array.c: our number in the namespace that this /proc is of, and
 * in each one below it, down to our own.
 */
static bool is_ours(void)
{
	char path[64], text[4096], *p, *end;
	size_t n = 0;
	FILE *f;

	proc_path(path, sizeof(path), "self/status");
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	p = strstr(text, "\nNSpid:");
	if (!p)
		return false;
	return strtol(p + strlen("\nNSpid:"), &end, 10) == getpid() && *end == '\n';
}

/* Descriptor of a new /proc of our pid namespace; -errno. Linux 5.2. */
static int private_proc(void)
{
	int fs = syscall(SYS_fsopen, "proc", FSOPEN_CLOEXEC), fd;

	if (fs < 0)
		return -errno;
	fd = -1;
	if (!syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		fd = syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
	if (fd < 0)
		fd = -errno;
	close(fs);
	return fd;
}

int proc_init(void)
{
	int fd, err = 0;

	if (is_ours())
		return 0;
	fd = private_proc();
	if (fd < 0)
		err = fd;
	if (!err) {
		snprintf(prefix, sizeof(prefix), "/proc/self/fd/%d/", fd);
		if (!is_ours())
			err = -ENOENT;
	}
	if (err)
		log_error(
			"/proc is not mounted, or is another pid namespace's, and a private one cannot "
			"be made: %s (mount -t proc proc /proc; unshare -pf --mount-proc)",
			strerror(-err));
	return err;
}

bool proc_is_nested(void)
{
	char path[64];
	struct stat st;

	proc_path(path, sizeof(path), "self/ns/pid");
	return !stat(path, &st) && st.st_ino != INIT_PID_NS;
}
