/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The table of mapped files, shared by all address spaces. A file is (device, inode, name) and the
 * size and time that tell a rebuilt file from the one whose inode it got. Its number is never given
 * to another file. Files that nothing maps any more are kept for a while, the last ones longest.
 */
#ifndef RPROF_MODULES_H
#define RPROF_MODULES_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct maps_entry;
struct module;
struct modules;

struct modules_config {
	bool debuginfod;	/* ask servers for debug files (DEBUGINFOD_URLS) */
	bool want_dwarf;	/* keep the file with debug information: modules_take_dwarf() */
	bool keep_going;	/* files are read by a thread: modules_get() says -EAGAIN meanwhile */
};

struct modules *modules_new(const struct modules_config *config);
void modules_free(struct modules *m);

/*
 * modules_add() - the file behind a mapping, opened at first sight so that it keeps its name.
 * @proc_dir: descriptor of /proc/@tgid; -1: the process is gone: the file is looked for by its path
 *            below our root, and taken if device and inode are the same
 *
 * Return: its number, from 1, with a reference for the caller; 0: no file, or no room.
 */
__u32 modules_add(struct modules *m, int proc_dir, __u32 tgid, const struct maps_entry *e);

void modules_ref(struct modules *m, __u32 number);	/* 0: nothing */
void modules_unref(struct modules *m, __u32 number);

/* Do the two mean one file, perhaps renamed since? */
bool modules_same_file(const struct modules *m, __u32 a, __u32 b);

/*
 * modules_get() - the module of a file, its tables read.
 * @out: NULL when it cannot be opened or is no ELF file
 * Return: 0, or -EAGAIN: being read; ask again when modules_fd() is readable.
 */
int modules_get(struct modules *m, __u32 number, struct module **out);

/* Readable when a file has been read that was -EAGAIN; modules_loaded() makes it unreadable. */
int modules_fd(const struct modules *m);
void modules_loaded(struct modules *m);
/* Wait until nothing is being read, at most so long. Return: is anything still? */
bool modules_wait(struct modules *m, __u64 timeout_ns);

/* Address in the file's own address space: 0 or -ENOENT. Does not open anything. */
int modules_vaddr(const struct modules *m, __u32 number, __u64 file_offset, __u64 *vaddr);

/* Short name for people: base name of the path, "[vdso]", "[anon]"; never NULL. */
const char *modules_name(const struct modules *m, __u32 number);

/* The file itself, which may have grown, open for reading once more, the caller's; -errno. */
int modules_open(struct modules *m, __u32 number);

/* Descriptor of the file with debug information, once, now the caller's; -1. After modules_get(). */
int modules_take_dwarf(struct modules *m, __u32 number);

/* Once a second: which file system a device number means may have changed. */
void modules_tick(struct modules *m);

/* For --stats: files read, time, and what has no symbols and why. */
void modules_print(struct modules *m, FILE *f);

#endif
