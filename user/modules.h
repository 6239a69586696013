/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of mapped files, shared by all address spaces. A file is (device, inode, path) and the
 * size and time that tell a rebuilt file from the one whose inode it got.
 */
#ifndef RPROF_MODULES_H
#define RPROF_MODULES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct maps_entry;
struct module;
struct modules;

struct modules *modules_new(void);
void modules_free(struct modules *m);

/*
 * modules_add() - the file behind a mapping, opened at first sight so that it keeps its name.
 * @proc_dir: descriptor of /proc/@tgid
 *
 * Return: its index, from 1; 0: no file (anonymous memory), or no room.
 */
__u32 modules_add(struct modules *m, int proc_dir, __u32 tgid, const struct maps_entry *e);

/* Do the two mean one file, perhaps renamed since? */
bool modules_same_file(const struct modules *m, __u32 a, __u32 b);

/* The module, its file open or already read; NULL when that cannot be. */
struct module *modules_get(struct modules *m, __u32 index);

/* Address in the file's own address space: 0 or -ENOENT. Does not open anything. */
int modules_vaddr(const struct modules *m, __u32 index, __u64 file_offset, __u64 *vaddr);

const char *modules_name(const struct modules *m, __u32 index);

#endif
