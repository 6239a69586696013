/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One reading of a process's mappings, whole or not at all. */
#ifndef RPROF_PROC_MAPS_H
#define RPROF_PROC_MAPS_H

#include <linux/types.h>
#include <stddef.h>

#include "maps.h"

struct proc_maps {
	struct maps_entry *entries;	/* sorted, not overlapping; paths point into text */
	size_t n;
	size_t cap;
	char *text;
	size_t text_cap;
	__u64 start_time;		/* of the process, ticks since boot: a reused pid differs */
};

void proc_maps_init(struct proc_maps *p);
void proc_maps_fini(struct proc_maps *p);

/*
 * proc_maps_read() - read the mappings of the process @proc_dir, a descriptor of /proc/PID.
 *
 * Memory of an earlier reading is reused. Return: 0, or -errno (-ESRCH: gone; -ENODATA: none:
 * kernel thread, zombie, or the address space was replaced while reading).
 */
int proc_maps_read(struct proc_maps *p, int proc_dir);

#endif
