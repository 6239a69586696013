/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Files that a target has mapped, opened without letting the target choose what we open. */
#ifndef RPROF_TARGET_FILE_H
#define RPROF_TARGET_FILE_H

#include <stddef.h>
#include <sys/stat.h>

#include "maps.h"

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
