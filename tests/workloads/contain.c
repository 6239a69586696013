// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A small container: contain ROOT PROGRAM [ARGUMENT]... runs the program with ROOT as its root, in
 * mount, pid and user namespaces of its own, as process 1, whose root user is a nobody outside.
 * Needs root.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "workload.h"

#define OUTER_ROOT "100000"

static void must(int err, const char *what)
{
	if (err < 0) {
		perror(what);
		exit(1);
	}
}

static void write_map(pid_t pid, const char *file)
{
	static const char map[] = "0 " OUTER_ROOT " 65536\n";
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	must(fd, path);
	must((int)write(fd, map, sizeof(map) - 1), path);
	close(fd);
}

static void enter_root(const char *root)
{
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "private");
	must(mount(root, root, NULL, MS_BIND, NULL), root);
	must(chdir(root), root);
	must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "umount");
	must(chdir("/"), "/");
}

/* In the new user namespace, which has its numbers by now. */
static void run(char **argv)
{
	int status;
	pid_t pid;

	must(setresgid(0, 0, 0), "setgid");
	must(setresuid(0, 0, 0), "setuid");
	/* Who started us ends us; a change of identity clears it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	must(unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare");
	pid = fork();
	must(pid, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execv(argv[2], argv + 2);
		must(-1, argv[2]);
	}
	/* Its number here, which it does not know itself. */
	printf("contains %d\n", pid);
	fflush(stdout);
	must(waitpid(pid, &status, 0), "wait");
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

int main(int argc, char **argv)
{
	int in[2], out[2], status;
	char byte = 0;
	pid_t pid;

	if (argc < 3)
		return 2;
	must(pipe2(in, O_CLOEXEC), "pipe");
	must(pipe2(out, O_CLOEXEC), "pipe");
	pid = fork();
	must(pid, "fork");
	if (!pid) {
		/* The root first: who is in a chroot may make no user namespace. */
		must(unshare(CLONE_NEWNS), "unshare");
		enter_root(argv[1]);
		must(unshare(CLONE_NEWUSER), "unshare");
		must((int)write(out[1], &byte, 1), "pipe");
		must((int)read(in[0], &byte, 1), "pipe");
		run(argv);
	}
	must((int)read(out[0], &byte, 1), "pipe");
	write_map(pid, "uid_map");
	write_map(pid, "gid_map");
	must((int)write(in[1], &byte, 1), "pipe");
	must(waitpid(pid, &status, 0), "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
