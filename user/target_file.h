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
};

/* target_file_place() - of the file behind a mapping: in the mounts of /proc/PID, or in ours. */
enum target_file_place target_file_place(int proc_dir, const struct maps_entry *e);

/* The same for what target_file_find() found, by statfs(): where the mounts do not say. */
bool target_file_is_remote(int path_fd);

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

/* Open what target_file_find() found, for reading. Return: descriptor or -errno. */
int target_file_open(int path_fd);

/* Its path, raw bytes as the file system has them, without the mark of a deleted file. 0 or -errno. */
int target_file_path(int path_fd, char *path, size_t size);

#endif
