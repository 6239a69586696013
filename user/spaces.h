/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Address spaces of the processes we see: what is mapped where. A space is (tgid, number); the
 * number grows on exec and when an executable mapping was replaced or removed, so that equal
 * addresses cannot lend names. session.c publishes a space's mappings to the kernel side.
 */
#ifndef RPROF_SPACES_H
#define RPROF_SPACES_H

#include <linux/types.h>
#include <stddef.h>

#include "rprof/config.h"

struct module;

struct space {
	__u32 tgid;
	__u32 number;			/* from 1 */
	struct rprof_mapping *mappings;	/* sorted; .module indexes the table of modules */
	size_t n_mappings;
};

struct spaces;

struct spaces *spaces_new(void);
void spaces_free(struct spaces *s);

/*
 * spaces_read() - read /proc/@tgid/maps now.
 * @number: 0: keep the newest number of @tgid, or take the next one if an executable mapping was
 *          replaced or removed since, or @tgid is another process now; else the number to give it
 *          (the kernel side saw an exec). One that is not new counts as 0: numbers only grow.
 * @out: the space; owned by @s, valid until spaces_free()
 *
 * A read that finds only additions extends the space in place and keeps its number (the array may
 * move). One that finds nothing new allocates nothing. Mappings without a file have no names to
 * lend: they come and go without a new number, unless a file takes their place.
 * Return: 0, or -errno (-ESRCH: no such process, -ENODATA: no mappings: kernel thread, zombie, or
 * an exec during the read).
 */
int spaces_read(struct spaces *s, __u32 tgid, __u32 number, const struct space **out);

/* The space (tgid, number), or NULL. number 0: the newest of tgid. */
const struct space *spaces_find(const struct spaces *s, __u32 tgid, __u32 number);

/* The mapping of @sp that holds @addr, or NULL. */
const struct rprof_mapping *space_mapping(const struct space *sp, __u64 addr);

/*
 * Where @addr, inside mapping @m of @sp, lies in its file: offset, and address in the file's own
 * address space (0, or -ENOENT: no ELF file of this machine, or not in a segment of it).
 */
__u64 space_file_offset(const struct space *sp, const struct rprof_mapping *m, __u64 addr);
int spaces_vaddr(struct spaces *s, const struct space *sp, const struct rprof_mapping *m,
		 __u64 addr, __u64 *vaddr);

/* The file behind rprof_mapping.module, opened at first use; NULL for 0 or when it cannot be. */
struct module *spaces_module(struct spaces *s, __u32 module);

/* Short name for people: base name of the path, "[vdso]", "[anon]"; never NULL. */
const char *spaces_module_name(const struct spaces *s, __u32 module);

#endif
