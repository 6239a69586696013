// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "module_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "maps.h"
#include "target_file.h"

#define MAX_NAME 255		/* NAME_MAX */
#define MAX_PATH 4096		/* PATH_MAX */
#define MAX_VDSO (1u << 20)

static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]");
}

bool module_file_has_name(const char *path)
{
	return path[0] == '/' || is_vdso(path) || !strcmp(path, "[vsyscall]") ||
	       !strcmp(path, "[uprobes]");
}

char *module_file_path(const struct maps_entry *e)
{
	static const char deleted[] = " (deleted)";
	const size_t mark = sizeof(deleted) - 1;
	size_t len = e->path_len;

	if (len > mark && !memcmp(e->path + len - mark, deleted, mark))
		len -= mark;
	if (len > 4 * MAX_PATH) /* each byte escaped */
		return NULL;
	return strndup(e->path, len);
}

/*
 * A newline is \\012 in maps, and so is the text "\\012" (show_map_vma() in fs/proc/task_mmu.c
 * escapes nothing else): the file itself says which.
 */
char *module_file_name(const char *path, int path_fd)
{
	char raw[MAX_PATH];
	const char *slash;

	if (path_fd >= 0 && strstr(path, "\\012") && !target_file_path(path_fd, raw, sizeof(raw)))
		path = raw;
	slash = strrchr(path, '/');
	return strndup(slash && slash[1] ? slash + 1 : path, MAX_NAME);
}

/* maps shows paths from our root, the events from that of the process. */
const char *module_file_in_root(int proc_dir, const char *path)
{
	char root[MAX_PATH];
	ssize_t len = proc_dir >= 0 ? readlinkat(proc_dir, "root", root, sizeof(root)) : -1;

	if (len > 1 && (size_t)len < sizeof(root) && !strncmp(path, root, (size_t)len) &&
	    path[len] == '/')
		return path + len;
	return path;
}

static __u64 device_of(const struct maps_entry *e)
{
	return (__u64)e->dev_major << 32 | e->dev_minor;
}

static enum target_file_place place_of(int proc_dir, const struct maps_entry *e,
				       struct idmap *places)
{
	__u32 place;

	if (idmap_find(places, device_of(e), 0, &place))
		return place;
	place = target_file_place(proc_dir, e);
	/* Without memory it is looked up again. */
	idmap_put(places, device_of(e), 0, place);
	return place;
}

/* Of a process that is gone: the file at its path, if it is the one that was mapped. */
static void find_without_process(struct module_file *f, const struct maps_entry *e,
				 const char *path)
{
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	f->why = "the file that was mapped is no longer at its path";
	if (root < 0)
		return;
	f->fd = target_file_open_below(root, path, &f->st);
	close(root);
	if (f->fd < 0) {
		f->fd = -1;
		return;
	}
	if (f->st.st_ino != e->inode || f->st.st_dev != makedev(e->dev_major, e->dev_minor)) {
		close(f->fd);
		f->fd = -1;
		return;
	}
	f->has_stat = true;
	f->why = NULL;
}

static const char *explain(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
		return "the file may not be opened (CAP_CHECKPOINT_RESTORE, CAP_SYS_PTRACE, "
		       "CAP_DAC_READ_SEARCH)";
	case -ESTALE:
		return "the file at its path is another one";
	case -EINVAL:
		return "not a regular file";
	case -EMFILE:
	case -ENFILE:
		return "too many open files (raise ulimit -n)";
	default:
		return "the file cannot be opened";
	}
}

static bool is_in_our_user_ns(int proc_dir)
{
	struct stat theirs, ours;

	return !fstatat(proc_dir, "ns/user", &theirs, 0) && !stat("/proc/self/ns/user", &ours) &&
	       theirs.st_ino == ours.st_ino;
}

void module_file_find(struct module_file *f, int proc_dir, const struct maps_entry *e,
		      const char *path, struct idmap *places)
{
	enum target_file_place place;

	*f = (struct module_file){ .fd = -1, .path_fd = -1 };
	if (path[0] != '/')
		return;
	if (proc_dir < 0) {
		find_without_process(f, e, path);
		return;
	}
	place = place_of(proc_dir, e, places);
	/* What others than root have stacked may lie on anything. */
	if (place == TARGET_FILE_STACKED && !is_in_our_user_ns(proc_dir))
		place = TARGET_FILE_REMOTE;
	if (place != TARGET_FILE_REMOTE)
		f->path_fd = target_file_find(proc_dir, e, path, &f->st);
	else
		f->path_fd = -EREMOTE;
	f->has_stat = f->path_fd >= 0;
	if (place == TARGET_FILE_UNKNOWN && f->path_fd >= 0 &&
	    target_file_may_not_answer(f->path_fd, major(f->st.st_dev), minor(f->st.st_dev)))
		place = TARGET_FILE_REMOTE;
	if (place == TARGET_FILE_REMOTE)
		f->why = "file on a network or user-space file system";
	else if (f->path_fd < 0)
		f->why = explain(f->path_fd);
	/* It has ended since, or mapped something else there. */
	if (f->path_fd == -ENOENT || f->path_fd == -ESRCH || f->path_fd == -ESTALE)
		find_without_process(f, e, path);
	if (f->path_fd < 0)
		f->path_fd = -1;
}

/* Every process has the same one, and ours is not the target's to change. */
static int open_vdso(const struct maps_entry *e)
{
	const void *image = (const void *)getauxval(AT_SYSINFO_EHDR);
	size_t size = (size_t)(e->end - e->start);
	int fd;

	if (!image || e->end - e->start > MAX_VDSO)
		return -ENOENT;
	fd = memfd_create("vdso", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* EFAULT if ours is shorter than the target's: then it is not the same. */
	if (write(fd, image, size) != (ssize_t)size) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

void module_file_open(struct module_file *f, const struct maps_entry *e, const char *path)
{
	int fd = -ENOENT;

	if (f->fd >= 0 || f->why)
		return;
	if (f->path_fd >= 0)
		fd = target_file_open(f->path_fd);
	else if (is_vdso(path))
		fd = open_vdso(e);
	f->fd = fd < 0 ? -1 : fd;
	if (fd < 0)
		f->why = explain(fd);
}

void module_file_close(struct module_file *f)
{
	if (f->path_fd >= 0)
		close(f->path_fd);
	f->path_fd = -1;
}
