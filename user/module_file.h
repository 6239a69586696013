/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How the file behind a mapping is found and opened, and what it is called. */
#ifndef RPROF_MODULE_FILE_H
#define RPROF_MODULE_FILE_H

#include <linux/types.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "idmap.h"

struct maps_entry;

/* What was found of one. */
struct module_file {
	int fd;			/* open for reading; -1 */
	int path_fd;		/* O_PATH, closed by module_file_close(); -1 */
	bool has_stat;
	struct stat st;
	const char *why;	/* there is no fd; static text */
};

/* Has a mapping of this path a name to lend? "[anon:...]" is the target's text, and no file. */
bool module_file_has_name(const char *path);

/* The path of the mapping, without the mark of a deleted file; malloc'd; NULL. */
char *module_file_path(const struct maps_entry *e);

/* Base name of a path from maps, malloc'd. @path_fd: the file itself, O_PATH; -1 */
char *module_file_name(const char *path, int path_fd);

/*
 * module_file_in_root() - the path as the process itself has it, without the way to its root.
 * @proc_dir: descriptor of /proc/PID; -1: gone, the path is taken to be that already
 * Return: a part of @path.
 */
const char *module_file_in_root(int proc_dir, const char *path);

/*
 * module_file_find() - without opening it for reading.
 * @proc_dir: descriptor of /proc/PID; -1: gone, see modules_add()
 * @places: cache of where devices are, the caller's
 */
void module_file_find(struct module_file *f, int proc_dir, const struct maps_entry *e,
		      const char *path, struct idmap *places);
/* Open what was found: f->fd, or f->why. */
void module_file_open(struct module_file *f, const struct maps_entry *e, const char *path);
void module_file_close(struct module_file *f); /* not .fd */

#endif
