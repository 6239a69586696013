/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool same_inode(const struct stat *st, const struct maps_entry *e)
{
	return st->st_ino == e->inode && st->st_dev == makedev(e->dev_major, e->dev_minor);
}

/*
 * btrfs gives each subvolume a device number of its own in stat() but not in maps, and overlayfs
 * shows the layer's inode in maps: there the numbers differ although the file is, by the nature of
 * map_files, the mapped one. What remains is that the mapping was replaced since maps was read;
 * then the link says another name.
 */
static bool same_link(int proc_dir, const char *link, const char *path)
{
	char target[4096 + 16];
	ssize_t len = readlinkat(proc_dir, link, target, sizeof(target) - 1);
	size_t path_len = strlen(path);

	if (len <= 0)
		return false;
	target[len] = '\0';
	return !strncmp(target, path, path_len) &&
	       (!target[path_len] || !strcmp(target + path_len, " (deleted)"));
}

static int find_by_map_files(int proc_dir, const struct maps_entry *e, const char *path,
			     struct stat *st)
{
	char link[64];
	int fd;

	snprintf(link, sizeof(link), "map_files/%llx-%llx", e->start, e->end);
	fd = openat(proc_dir, link, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, st) || !(same_inode(st, e) || same_link(proc_dir, link, path))) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

static int find_by_path(int proc_dir, const struct maps_entry *e, const char *path, struct stat *st)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int root, fd;

	root = openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -errno;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(root);
	if (fd >= 0 && (fstat(fd, st) || !same_inode(st, e))) {
		close(fd);
		return -ESTALE;
	}
	return fd;
}

int target_file_find(int proc_dir, const struct maps_entry *e, const char *path, struct stat *st)
{
	int fd = find_by_map_files(proc_dir, e, path, st);

	if ((fd == -EPERM || fd == -EACCES) && path[0] == '/')
		fd = find_by_path(proc_dir, e, path, st);
	if (fd >= 0 && !S_ISREG(st->st_mode)) {
		close(fd);
		return -EINVAL;
	}
	return fd;
}

int target_file_open(int path_fd)
{
	char self[64];
	int fd;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	/* O_NONBLOCK: a lease on the file must not hold us. */
	fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int target_file_path(int path_fd, char *path, size_t size)
{
	static const char deleted[] = " (deleted)";
	char self[64];
	struct stat st;
	ssize_t len;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	len = readlink(self, path, size - 1);
	if (len < 0)
		return -errno;
	path[len] = '\0';
	if (!fstat(path_fd, &st) && !st.st_nlink && (size_t)len > sizeof(deleted) &&
	    !strcmp(path + len - (sizeof(deleted) - 1), deleted))
		path[len - (sizeof(deleted) - 1)] = '\0';
	return 0;
}
