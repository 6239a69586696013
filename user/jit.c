/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The process writes these files while we read them, and may write anything: a call reads to the
 * end that the file had when the call began, and all of a process's calls together read a bounded
 * number of bytes.
 */
#include "jit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "jitdump.h"
#include "log.h"
#include "monotonic.h"
#include "perf_map.h"
#include "target_file.h"

#define MAX_MAP (64u << 20)		/* bytes of text */
#define MAX_READ (1ULL << 30)		/* of both files, what was read again included */
#define MAX_KEPT (256u << 20)		/* memory, of all processes */
#define RETRY_NS 1000000000ULL
#define NS 1000000000LL

struct file {
	int fd;
	__u64 at;		/* what lies before it is done with */
	struct stat st;		/* when it was last looked at */
};

struct jit {
	struct file map_file;
	struct file dump_file;
	struct perf_map map;
	struct jitdump dump;
	int pid;		/* as /proc has it; 0: not known yet */
	__u64 retry_ns;		/* not to be looked for before */
	__u64 n_read;
	__u64 n_changes;
	const char *problem;
};

/* What a process is asked for: its numbers, user, and start. */
struct owner {
	int pid;
	int own_pid;
	unsigned int uid;
	__s64 start_ns;		/* CLOCK_BOOTTIME */
};

static size_t kept;	/* by all processes */

struct jit *jit_new(void)
{
	struct jit *j = calloc(1, sizeof(*j));

	if (j)
		j->map_file.fd = j->dump_file.fd = -1;
	return j;
}

static size_t size_of(const struct jit *j)
{
	return code_ranges_size(&j->map.ranges) + code_ranges_size(&j->dump.ranges);
}

static void forget_map(struct jit *j)
{
	kept -= code_ranges_size(&j->map.ranges);
	perf_map_fini(&j->map);
	j->map_file.at = 0;
}

static void forget_dump(struct jit *j)
{
	kept -= code_ranges_size(&j->dump.ranges);
	jitdump_fini(&j->dump);
	j->dump_file.at = 0;
}

static void close_file(struct file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

void jit_free(struct jit *j)
{
	if (!j)
		return;
	forget_map(j);
	forget_dump(j);
	close_file(&j->map_file);
	close_file(&j->dump_file);
	free(j);
}

const char *jit_problem(const struct jit *j)
{
	return j->problem;
}

static void say(struct jit *j, const char *file, const char *problem)
{
	if (!j->problem)
		log_warn("%s of process %d: %s: code that the process made may have no names", file,
			 j->pid, problem);
	j->problem = problem;
}

/* A file below /proc/PID as text. False if it cannot be read. */
static bool read_text(int proc_dir, const char *name, char *text, size_t size)
{
	int fd = openat(proc_dir, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	if (n > 0)
		text[n] = '\0';
	return n > 0;
}

/* Last number of a line of /proc/PID/status, proc(5). */
static bool last_number(const char *status, const char *key, int *value)
{
	const char *line = strstr(status, key), *eol, *last;

	eol = line ? strchr(line + 1, '\n') : NULL;
	last = eol ? memrchr(line, '\t', (size_t)(eol - line)) : NULL;
	return last && sscanf(last, "%d", value) == 1;
}

/* The name of a process may hold anything, but no newline in status, and the last ')' in stat. */
static bool ask_owner(int proc_dir, struct owner *o)
{
	char text[4096];
	const char *line;
	unsigned long long ticks;

	if (!read_text(proc_dir, "stat", text, sizeof(text)))
		return false;
	line = strrchr(text, ')');
	/* Field 22 is its start; ')' ends field 2. */
	if (!line ||
	    sscanf(line + 1,
		   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d"
		   " %*d %llu",
		   &ticks) != 1)
		return false;
	o->start_ns = (__s64)(ticks * (NS / sysconf(_SC_CLK_TCK)));
	if (!read_text(proc_dir, "status", text, sizeof(text)))
		return false;
	line = strstr(text, "\nUid:\t");
	return line && sscanf(line, "\nUid: %*u %u", &o->uid) == 1 &&
	       last_number(text, "\nPid:\t", &o->pid) &&
	       last_number(text, "\nNSpid:\t", &o->own_pid);
}

static __s64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * NS + ts.tv_nsec;
}

/* Left by an earlier process of that number. Its change time is the kernel's, not to be set. */
static bool is_older(const struct stat *st, const struct owner *o)
{
	__s64 age = clock_ns(CLOCK_REALTIME) - (st->st_ctim.tv_sec * NS + st->st_ctim.tv_nsec);

	/* Both clocks are coarse: ticks of 10 ms, jiffies. */
	return age > clock_ns(CLOCK_BOOTTIME) - o->start_ns + NS / 10;
}

static const char *why_not(const struct stat *st, const struct owner *o)
{
	if (st->st_uid && st->st_uid != o->uid)
		return "not owned by its user: not read";
	if (st->st_nlink > 1)
		return "has another name: not read";
	if (is_older(st, o))
		return "older than the process: not read";
	return NULL;
}

static const char *why_not_opened(int err)
{
	switch (err) {
	case -ELOOP:
		return "a link: not read";
	case -EINVAL:
		return "not a regular file: not read";
	case -EREMOTE:
		return "on a file system that may not answer: not read";
	default:
		return "cannot be opened";
	}
}

static void open_map(struct jit *j, int proc_dir)
{
	char path[64];
	struct owner owner;
	struct stat st;
	const char *problem;
	int root, fd;

	if (!ask_owner(proc_dir, &owner))
		return;
	root = openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", owner.own_pid);
	fd = target_file_open_no_link(root, path, &st);
	close(root);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return;
	problem = fd < 0 ? why_not_opened(fd) : why_not(&st, &owner);
	if (!problem) {
		j->map_file = (struct file){ .fd = fd };
		return;
	}
	say(j, path, problem);
	if (fd >= 0)
		close(fd);
}

/* Is there more than when it was last looked at? A file that shrank is a new one. */
static bool has_news(struct file *f, bool *is_new)
{
	struct stat st;

	*is_new = false;
	if (f->fd < 0 || fstat(f->fd, &st))
		return false;
	if (st.st_size == f->st.st_size && st.st_mtim.tv_sec == f->st.st_mtim.tv_sec &&
	    st.st_mtim.tv_nsec == f->st.st_mtim.tv_nsec)
		return false;
	*is_new = (__u64)st.st_size < f->at || st.st_size < f->st.st_size;
	f->st = st;
	return true;
}

/* The next bytes of a file, up to the end that has_news() saw. 0: none. */
static size_t next_bytes(struct jit *j, struct file *f, char buf[static JITDUMP_ENOUGH])
{
	__u64 size = (__u64)f->st.st_size;
	size_t want = JITDUMP_ENOUGH;
	ssize_t n;

	if (f->at >= size)
		return 0;
	if (size - f->at < want)
		want = (size_t)(size - f->at);
	n = pread(f->fd, buf, want, (off_t)f->at);
	j->n_read += n > 0 ? (__u64)n : 0;
	return n > 0 ? (size_t)n : 0;
}

static const char *too_much(const struct jit *j)
{
	if (kept > MAX_KEPT)
		return "too many names: not read to its end";
	if (j->n_read > MAX_READ || j->map_file.at > MAX_MAP)
		return "too long: not read to its end";
	return NULL;
}

static void read_map(struct jit *j)
{
	char buf[JITDUMP_ENOUGH];
	bool is_new;
	size_t n;

	if (!has_news(&j->map_file, &is_new))
		return;
	if (is_new)
		forget_map(j);
	j->n_changes++;
	while (!too_much(j) && (n = next_bytes(j, &j->map_file, buf))) {
		size_t before = size_of(j), done = perf_map_parse(&j->map, buf, n);

		kept += size_of(j) - before;
		if (!done)
			break;
		j->map_file.at += done;
	}
	if (too_much(j))
		say(j, "perf-map", too_much(j));
}

static void read_dump(struct jit *j)
{
	char buf[JITDUMP_ENOUGH];
	bool is_new;
	size_t n;

	if (!has_news(&j->dump_file, &is_new))
		return;
	if (is_new)
		forget_dump(j);
	j->n_changes++;
	while (!too_much(j) && (n = next_bytes(j, &j->dump_file, buf))) {
		size_t before = size_of(j);
		__u64 done = jitdump_parse(&j->dump, buf, n);

		kept += size_of(j) - before;
		if (!done)
			break;
		j->dump_file.at += done;
	}
	if (j->dump.problem)
		say(j, "jitdump", j->dump.problem);
	if (too_much(j))
		say(j, "jitdump", too_much(j));
}

void jit_set_dump(struct jit *j, int fd)
{
	struct stat st, now;

	if (fstat(fd, &now) || !S_ISREG(now.st_mode) ||
	    (j->dump_file.fd >= 0 && !fstat(j->dump_file.fd, &st) && st.st_ino == now.st_ino &&
	     st.st_dev == now.st_dev)) {
		close(fd);
		return;
	}
	close_file(&j->dump_file);
	forget_dump(j);
	j->dump_file = (struct file){ .fd = fd };
}

/* The file that is there now: another one may have taken its place. */
static void find_map(struct jit *j, int proc_dir)
{
	__u64 now = monotonic_ns();

	if (proc_dir < 0 || now < j->retry_ns)
		return;
	if (j->map_file.fd >= 0) {
		struct stat st;

		if (!fstat(j->map_file.fd, &st) && st.st_nlink)
			return;
		close_file(&j->map_file);
		forget_map(j);
	}
	j->retry_ns = now + RETRY_NS;
	open_map(j, proc_dir);
}

const char *jit_find(struct jit *j, int proc_dir, __u64 addr, __u64 time_ns)
{
	struct owner owner;
	const char *name;

	/* For the messages. */
	if (!j->pid && proc_dir >= 0 && ask_owner(proc_dir, &owner))
		j->pid = owner.pid;
	read_dump(j);
	name = jitdump_find(&j->dump, addr, time_ns);
	if (name)
		return name;
	find_map(j, proc_dir);
	read_map(j);
	return perf_map_find(&j->map, addr);
}

__u64 jit_changes(struct jit *j)
{
	read_dump(j);
	read_map(j);
	return j->n_changes;
}
