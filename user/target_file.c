/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "array.h"
#include "target_path.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MAX_MOUNTS (16u << 20)	/* bytes of text; fs.mount-max is 100,000 mounts */

/* Types as mountinfo has them, and the same as statfs() has them where <linux/magic.h> has not. */
static const char *const remote_types[] = {
	"fuse", "fuseblk", "virtiofs", "nfs",  "nfs4",	 "cifs",   "smb3",
	"9p",	"ceph",	   "afs",      "coda", "lustre", "autofs",
};

#define LUSTRE_MAGIC 0x0bd00bd0	/* lustre_user.h */
#define FUSECTL_MAGIC 0x65735543	/* fs/fuse/control.c */

static bool is_remote_type(const char *type, size_t len)
{
	/* "fuse.sshfs" */
	if (len > 5 && !memcmp(type, "fuse.", 5))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(remote_types); i++) {
		if (strlen(remote_types[i]) == len && !memcmp(type, remote_types[i], len))
			return true;
	}
	return false;
}

static enum target_file_place place_of_type(const char *type, size_t len)
{
	static const char *const stacked[] = { "overlay", "ecryptfs", "aufs" };

	if (is_remote_type(type, len))
		return TARGET_FILE_REMOTE;
	for (size_t i = 0; i < ARRAY_SIZE(stacked); i++) {
		if (strlen(stacked[i]) == len && !memcmp(type, stacked[i], len))
			return TARGET_FILE_STACKED;
	}
	return TARGET_FILE_LOCAL;
}

/* "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS": is it that device? */
static bool is_on_device(const char *line, size_t len, __u32 dev_major, __u32 dev_minor)
{
	unsigned int a, b;
	char head[64];

	snprintf(head, sizeof(head), "%.*s", (int)(len < 63 ? len : 63), line);
	return sscanf(head, "%*u %*u %u:%u ", &a, &b) == 2 && a == dev_major && b == dev_minor;
}

enum target_file_place target_file_parse_mounts(const char *text, size_t len, __u32 dev_major,
						__u32 dev_minor)
{
	for (size_t at = 0; at < len;) {
		const char *line = text + at;
		const char *eol = memchr(line, '\n', len - at);
		size_t line_len = eol ? (size_t)(eol - line) : len - at;
		const char *type, *end;

		at += line_len + 1;
		if (!is_on_device(line, line_len, dev_major, dev_minor))
			continue;
		/* Blanks in the fields before it are escaped. */
		type = memmem(line, line_len, " - ", 3);
		if (!type)
			continue;
		type += 3;
		end = memchr(type, ' ', (size_t)(line + line_len - type));
		if (!end)
			end = line + line_len;
		return place_of_type(type, (size_t)(end - type));
	}
	return TARGET_FILE_UNKNOWN;
}

static enum target_file_place look_in_mounts(int dir, const char *path, __u32 dev_major,
					     __u32 dev_minor)
{
	enum target_file_place place = TARGET_FILE_UNKNOWN;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	size_t len = 0, cap = 0;
	char *text = NULL;
	ssize_t n = 1;

	while (fd >= 0 && n > 0 && len < MAX_MOUNTS) {
		char *grown = array_grow(text, &cap, len + 65536, 1);

		if (!grown)
			break;
		text = grown;
		n = read(fd, text + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (len)
		place = target_file_parse_mounts(text, len, dev_major, dev_minor);
	free(text);
	if (fd >= 0)
		close(fd);
	return place;
}

static enum target_file_place look_in_our_mounts(__u32 dev_major, __u32 dev_minor)
{
	return look_in_mounts(AT_FDCWD, "/proc/self/mountinfo", dev_major, dev_minor);
}

enum target_file_place target_file_place(int proc_dir, const struct maps_entry *e)
{
	enum target_file_place place =
		look_in_mounts(proc_dir, "mountinfo", e->dev_major, e->dev_minor);

	return place ? place : look_in_our_mounts(e->dev_major, e->dev_minor);
}

bool target_file_is_remote(int path_fd)
{
	static const __u32 magics[] = {
		FUSE_SUPER_MAGIC, NFS_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB_SUPER_MAGIC,
		SMB2_SUPER_MAGIC, V9FS_MAGIC,	    CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC,
		AFS_FS_MAGIC,	  CODA_SUPER_MAGIC, LUSTRE_MAGIC,
	};
	struct statfs st;

	if (fstatfs(path_fd, &st))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
		if ((__u32)st.f_type == magics[i])
			return true;
	}
	return false;
}

/* fusectl, which has a folder for each FUSE file system of whatever namespace; -errno */
static int open_fusectl(void)
{
	struct statfs st;
	int fs, fd = -1;

	fs = (int)syscall(SYS_fsopen, "fusectl", FSOPEN_CLOEXEC);
	if (fs >= 0) {
		/* A mount that is nowhere in the tree of files. */
		if (!syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
			fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
		close(fs);
	}
	if (fd < 0)
		fd = open("/sys/fs/fuse/connections", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 && (fstatfs(fd, &st) || (__u32)st.f_type != FUSECTL_MAGIC)) {
		close(fd);
		return -ENOENT;
	}
	return fd < 0 ? -errno : fd;
}

static bool may_be_fuse(__u32 dev_major, __u32 dev_minor)
{
	char name[16];
	bool is_fuse;
	int fd;

	/* Where it is not, FUSE is not in the kernel; to ask for fusectl would bring it there. */
	if (dev_major || access("/sys/fs/fuse", F_OK))
		return false;
	fd = open_fusectl();
	if (fd < 0)
		return true;
	snprintf(name, sizeof(name), "%u", dev_minor);
	is_fuse = !faccessat(fd, name, F_OK, 0);
	close(fd);
	return is_fuse;
}

bool target_file_may_not_answer(int path_fd, __u32 dev_major, __u32 dev_minor)
{
	enum target_file_place place = look_in_our_mounts(dev_major, dev_minor);

	if (place != TARGET_FILE_UNKNOWN)
		return place == TARGET_FILE_REMOTE;
	return may_be_fuse(dev_major, dev_minor) || target_file_is_remote(path_fd);
}

int target_file_stat(int fd, struct stat *st)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &stx))
		return -errno;
	*st = (struct stat){
		.st_dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
		.st_ino = stx.stx_ino,
		.st_mode = stx.stx_mode,
		.st_nlink = stx.stx_nlink,
		.st_uid = stx.stx_uid,
		.st_gid = stx.stx_gid,
		.st_size = (off_t)stx.stx_size,
		.st_mtim = { stx.stx_mtime.tv_sec, stx.stx_mtime.tv_nsec },
		.st_ctim = { stx.stx_ctime.tv_sec, stx.stx_ctime.tv_nsec },
	};
	return 0;
}

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
	if (target_file_stat(fd, st) || !(same_inode(st, e) || same_link(proc_dir, link, path))) {
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
	if (fd >= 0 && (target_file_stat(fd, st) || !same_inode(st, e))) {
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
	if (!target_file_stat(path_fd, &st) && !st.st_nlink && (size_t)len > sizeof(deleted) &&
	    !strcmp(path + len - (sizeof(deleted) - 1), deleted))
		path[len - (sizeof(deleted) - 1)] = '\0';
	return 0;
}

static int open_below(int root_fd, const char *path, bool no_last_link, struct stat *st)
{
	int path_fd = target_path_find(root_fd, path, no_last_link);
	int fd;

	if (path_fd < 0)
		return path_fd;
	if (target_file_stat(path_fd, st))
		fd = -errno;
	else
		fd = S_ISREG(st->st_mode) ? target_file_open(path_fd) : -EINVAL;
	close(path_fd);
	return fd;
}

int target_file_open_below(int root_fd, const char *path, struct stat *st)
{
	return open_below(root_fd, path, false, st);
}

int target_file_open_no_link(int root_fd, const char *path, struct stat *st)
{
	return open_below(root_fd, path, true, st);
}
