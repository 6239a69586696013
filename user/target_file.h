/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that a target has mapped, opened without letting the target choose what we open. */
#ifndef RPROF_TARGET_FILE_H
#define RPROF_TARGET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "maps.h"

/*
 * What a file system that another machine or a process of the target serves is asked may never be
 * answered: not stat(), not statfs(), not even the look at a link to it. So before the first of
 * them the list of mounts is asked, which is in memory.
 */
enum target_file_place {
	TARGET_FILE_UNKNOWN,	/* its device is not in a list of mounts: memfd, layers of overlayfs */
	TARGET_FILE_LOCAL,
	TARGET_FILE_REMOTE,	/* FUSE, NFS, CIFS, 9p, Ceph and the like */
	TARGET_FILE_STACKED,	/* overlay and the like: what is below is its maker's to know */
};

/* target_file_place() - of the file behind a mapping: in the mounts of /proc/PID, or in ours. */
enum target_file_place target_file_place(int proc_dir, const struct maps_entry *e);

/* The same for what target_file_find() found, by statfs(): where the mounts do not say. */
bool target_file_is_remote(int path_fd);

/*
 * The same before a file system is asked a thing, by its device. A mount that only another mount
 * namespace has is not in our list; FUSE is known from fusectl, of the others the kernel is asked.
 */
bool target_file_may_not_answer(int path_fd, __u32 dev_major, __u32 dev_minor);

/* Of the text of a mountinfo file, proc(5); pure. */
enum target_file_place target_file_parse_mounts(const char *text, size_t len, __u32 dev_major,
						__u32 dev_minor);

/*
 * target_file_find() - the file behind a mapping, as an O_PATH descriptor.
 * @proc_dir: descriptor of /proc/PID
 * @path: e's path, NUL-terminated, "" if not known
 * @st: its attributes; a regular file
 *
 * Through map_files, which names the file itself: deleted, renamed, in whatever mount namespace.
 * Where that is not allowed (it needs CAP_CHECKPOINT_RESTORE), by path below the target's own root,
 * and only if device and inode are the mapping's. Nothing is opened for reading yet: opening a
 * device or a pipe can have effects.
 * Return: descriptor or -errno (-ESTALE: not the file that is mapped).
 */
int target_file_find(int proc_dir, const struct maps_entry *e, const char *path, struct stat *st);

/* As fstat(), from memory: a file system is not asked. */
int target_file_stat(int fd, struct stat *st);

/* Open what target_file_find() found, for reading. Return: descriptor or -errno. */
int target_file_open(int path_fd);

/*
 * target_file_open_below() - a file by its path in a target's own root, open for reading.
 * @root_fd: descriptor of the root directory, O_PATH will do (/proc/PID/root)
 * @path: from that root, with or without a slash in front
 * @st: its attributes; a regular file
 *
 * By target_path_find(): no link leads out of the root.
 * Return: descriptor or -errno (-EINVAL: not a regular file, -ELOOP: links that do not end or are
 * procfs', -EREMOTE: on a file system that may not answer).
 */
int target_file_open_below(int root_fd, const char *path, struct stat *st);

/* The same, but if the last name of the path is a link: -ELOOP. */
int target_file_open_no_link(int root_fd, const char *path, struct stat *st);

/* Its path, raw bytes as the file system has them, without the mark of a deleted file. 0 or -errno. */
int target_file_path(int path_fd, char *path, size_t size);

#endif
