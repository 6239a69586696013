// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * seccomp MS: after MS milliseconds of spinning installs a long filter, and then spends its time in
 * it. The kernel translates it to native code that is in no list of symbols.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "workload.h"

#define LENGTH 4000

static void install(void)
{
	static struct sock_filter f[LENGTH];
	struct sock_fprog program = { LENGTH, f };
	int n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16);
	for (; n < LENGTH - 2; n++)
		f[n] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, n * 7 + 1);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_MISC | BPF_TAX, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double start = now(), wait = argc > 1 ? atof(argv[1]) / 1000 : 1;

	ready();
	while (now() < start + wait)
		burn(1000);
	install();
	for (;;)
		syscall(SYS_lseek, -1, 0, 0);
}
