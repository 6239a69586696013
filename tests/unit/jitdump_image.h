/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A jitdump file as a JIT compiler writes it, in memory. */
#ifndef RPROF_TESTS_JITDUMP_IMAGE_H
#define RPROF_TESTS_JITDUMP_IMAGE_H

#include <linux/types.h>
#include <string.h>

#include "arch.h"

struct image {
	unsigned char bytes[4096];
	size_t len;
};

static inline void image_u32(struct image *f, __u32 v)
{
	memcpy(f->bytes + f->len, &v, sizeof(v));
	f->len += sizeof(v);
}

static inline void image_u64(struct image *f, __u64 v)
{
	memcpy(f->bytes + f->len, &v, sizeof(v));
	f->len += sizeof(v);
}

static inline void image_header(struct image *f, __u64 flags)
{
	image_u32(f, 0x4a695444);
	image_u32(f, 1);
	image_u32(f, 40);
	image_u32(f, ARCH_ELF_MACHINE);
	image_u32(f, 0);
	image_u32(f, 1234);
	image_u64(f, 5);
	image_u64(f, flags);
}

static inline void image_record(struct image *f, __u32 id, __u32 size, __u64 time)
{
	image_u32(f, id);
	image_u32(f, size);
	image_u64(f, time);
}

/* The code's bytes are 0xcc; the virtual address is another one, which is not to be used. */
static inline void image_load(struct image *f, __u64 time, __u64 addr, __u32 size, const char *name)
{
	size_t name_size = strlen(name) + 1;

	image_record(f, 0, (__u32)(56 + name_size + size), time);
	image_u32(f, 1234);
	image_u32(f, 1234);
	image_u64(f, ~addr);
	image_u64(f, addr);
	image_u64(f, size);
	image_u64(f, 1);
	memcpy(f->bytes + f->len, name, name_size);
	memset(f->bytes + f->len + name_size, 0xcc, size);
	f->len += name_size + size;
}

static inline void image_move(struct image *f, __u64 time, __u64 from, __u64 to, __u64 size)
{
	image_record(f, 1, 64, time);
	image_u32(f, 1234);
	image_u32(f, 1234);
	image_u64(f, ~to);
	image_u64(f, from);
	image_u64(f, to);
	image_u64(f, size);
	image_u64(f, 1);
}

#endif
