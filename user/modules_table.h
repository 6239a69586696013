/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What modules.c (which files there are) and modules_load.c (reading them) share. No one else's. */
#ifndef RPROF_MODULES_TABLE_H
#define RPROF_MODULES_TABLE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>

#include "idmap.h"
#include "modules.h"
#include "roots.h"

/* For the tables of all files together; less where that is more than a quarter of the memory. */
#define MODULES_MAX_TABLES (2ULL << 30)

enum entry_state {
	ENTRY_NEW,		/* not opened yet, or it could not be */
	ENTRY_OPEN,		/* its file is open, or can be opened again */
	ENTRY_LOADING,		/* the thread's */
	ENTRY_DONE,		/* read, or known to be unreadable */
};

struct entry {
	__u32 number;
	__u32 next;		/* another file of the same key; 0: none */
	__u64 inode;
	__u64 dev;
	char *path;		/* without " (deleted)" */
	char *name;		/* for people */
	bool has_stat;		/* size and mtime are known */
	off_t size;
	struct timespec mtime;
	enum entry_state state;
	struct module *module;	/* NULL: no ELF file of ours, or not opened */
	bool counts_open;	/* in n_open */
	__u64 taken;		/* of the budget, bytes */
	const char *why;	/* it has no symbols, if known without a module; static */
	int root;		/* of roots, until it is read; -1 */
	size_t in_root;		/* where in .path that begins which is below the root */
	__u32 tgid;		/* where it was mapped last: to open it again */
	__u64 start;
	__u64 end;
	size_t refs;
	struct entry *older, *newer;	/* idle ones, by when they became so */
};

struct modules {
	struct modules_config config;
	struct entry **entries;
	size_t n, cap;
	__u32 last_number;
	struct idmap by_number;	/* to an index of entries */
	struct idmap by_file;	/* (inode, device) to the number of the first entry */
	struct idmap by_device;	/* to its enum target_file_place */
	struct roots roots;
	struct entry *oldest, *newest;	/* idle */
	size_t n_idle;
	size_t n_open, max_open;
	bool full;		/* said so */
	__u64 budget;		/* what tables may take still, bytes; the thread takes from it */
	bool over_budget;	/* said so */
	struct loader *loader;	/* NULL: none */
	size_t n_read;		/* files whose tables were read, */
	__u64 read_ns;		/* how long that took, */
	__u64 read_bytes;	/* and what they held */
};

struct entry *modules_find(const struct modules *m, __u32 number);
bool modules_equal_stat(const struct entry *e, const struct stat *st);
void modules_attach(struct modules *m, struct entry *e, int fd); /* takes @fd */
void modules_let_file_go(struct modules *m, struct entry *e);	/* it is read or given up */
void modules_evict(struct modules *m, struct entry *e);		/* an idle one */
__u64 modules_table_budget(void);

#endif
