/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Paths of a target, walked name by name: the kernel's own walk would ask whatever file system is on
 * the way, and one that another machine or a process of the target serves may never answer.
 */
#ifndef RPROF_TARGET_PATH_H
#define RPROF_TARGET_PATH_H

#include <stdbool.h>

/*
 * target_path_find() - what is at @path below a root.
 * @root_fd: descriptor of the root directory, O_PATH will do
 * @no_last_link: a link as the last name of the path is refused, not followed
 *
 * Links are followed as the target's: none leads out of the root, those of procfs lead nowhere.
 * Return: an O_PATH descriptor of a file that is no link, or -errno (-ELOOP: links that do not end,
 * are procfs', or @no_last_link; -EREMOTE: a file system on the way may not answer).
 */
int target_path_find(int root_fd, const char *path, bool no_last_link);

#endif
