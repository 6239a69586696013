// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a file can make libdw do, this process can do; so it is left nothing but its memory, its CPU
 * time, within limits, and read() and write() on one socket. A crash of it is an answer like others.
 */
#include "inline_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "arch.h"
#include "inline_dwarf.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define FILE_FD 0
#define SOCKET_FD 1

#define MAX_MEMORY (512ULL << 20)	/* bytes, besides the file itself */
#define MAX_CPU 20			/* seconds */
#define NICE 5				/* the profiler waits for us, the target should not */
#define NOBODY 65534

bool inline_worker_wanted(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], INLINE_WORKER_OPTION);
}

/* Whom the system may do without, and whom nobody at the terminal means. */
static void be_humble(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	sigset_t all;

	if (fd >= 0) {
		(void)!write(fd, "1000", 4);
		close(fd);
	}
	prctl(PR_SET_NAME, "rprof-inlines");
	setpriority(PRIO_PROCESS, 0, NICE);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Copy on write: libelf may write into what it is given. */
static void *map_file(size_t *size)
{
	void *image = MAP_FAILED;
	struct stat st;

	if (!fstat(FILE_FD, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
		image = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
			     FILE_FD, 0);
	close(FILE_FD);
	if (image == MAP_FAILED)
		return NULL;
	*size = st.st_size;
	return image;
}

/* On top of what is mapped by now: the file, and with a sanitizer terabytes. */
static int limit_memory(void)
{
	struct rlimit limit;
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return -errno;
	if (fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	fclose(f);
	limit.rlim_cur = pages * (unsigned long long)sysconf(_SC_PAGESIZE) + MAX_MEMORY;
	limit.rlim_max = limit.rlim_cur;
	return !pages || setrlimit(RLIMIT_AS, &limit) ? -EINVAL : 0;
}

static int limit_cpu(void)
{
	/* The hard limit is SIGKILL. */
	const struct rlimit limit = { .rlim_cur = MAX_CPU, .rlim_max = MAX_CPU };

	return setrlimit(RLIMIT_CPU, &limit) ? -errno : 0;
}

static int drop_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	/* A user namespace need not have the user nobody; the capabilities are what counts. */
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		errno = 0;
	if (syscall(SYS_capset, &header, none))
		return -errno;
	/* No core file, no debugger of the same user. After the change of user, which resets both. */
	if (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return 0;
}

/* All other calls fail. Memory, and what libc's malloc() and locks need. */
static int filter_calls(void)
{
	static const __u32 allowed[] = {
		SYS_read,   SYS_write, SYS_brk,	       SYS_mmap,    SYS_munmap,
		SYS_mremap, SYS_futex, SYS_exit_group, SYS_madvise,
	};
	enum { N = ARRAY_SIZE(allowed), HEAD = 4, REFUSE = HEAD + N, ALLOW, LENGTH };
	struct sock_filter code[LENGTH] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_AUDIT, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		[REFUSE] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		[ALLOW] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = LENGTH, .filter = code };

	for (unsigned int i = 0; i < N; i++)
		code[HEAD + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
							      ALLOW - (HEAD + i) - 1, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) ? -errno : 0;
}

static int lock_in(void)
{
	int err = limit_memory();

	if (!err)
		err = limit_cpu();
	if (!err)
		err = drop_rights();
	return err ? err : filter_calls();
}

/* Return: bytes of the answer in @out. */
static size_t answer(struct inline_dwarf *d, const struct inline_query *q, char *out)
{
	struct inline_answer a = { .number = q->number };
	const char *names[INLINE_MAX_CALLS];
	size_t len = sizeof(a);
	int n = inline_dwarf_find(d, q->vaddr, names, ARRAY_SIZE(names));

	a.damaged = n < 0;
	for (int i = 0; i < n; i++) {
		size_t size = strlen(names[i]) + 1;

		/* All of them or none. */
		if (size > INLINE_MAX_ANSWER - len) {
			a.n_calls = 0;
			len = sizeof(a);
			break;
		}
		memcpy(out + len, names[i], size);
		len += size;
		a.n_calls++;
	}
	memcpy(out, &a, sizeof(a));
	return len;
}

int inline_worker_run(void)
{
	static char out[INLINE_MAX_ANSWER];
	struct inline_dwarf *d;
	struct inline_query q;
	size_t size, len;
	void *image;

	be_humble();
	image = map_file(&size);
	if (!image || lock_in() || inline_dwarf_open(image, size, &d))
		return EXIT_FAILURE;
	while (read(SOCKET_FD, &q, sizeof(q)) == sizeof(q)) {
		len = answer(d, &q, out);
		if (write(SOCKET_FD, out, len) != (ssize_t)len)
			break;
	}
	return EXIT_SUCCESS;
}
