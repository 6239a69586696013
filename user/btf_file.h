/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where members lie in structs, from a file of BTF (Documentation/bpf/btf.rst). libbpf's reader
 * copies and checks all 150,000 types of a kernel, 110 ms at every start; this one looks for six.
 */
#ifndef RPROF_BTF_FILE_H
#define RPROF_BTF_FILE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct btf_file {
	const unsigned char *data;
	size_t len;
	bool mapped;		/* from mmap(), else malloc() */
	__u32 *types;		/* offset of each type in data, by id */
	size_t n_types;
	const char *strings;
	size_t strings_len;
};

/* Return: 0 or -errno (-EINVAL: no BTF of this machine). */
int btf_file_open(struct btf_file *f, const char *path);
/* The same of bytes in memory, which stay the caller's. */
int btf_file_parse(struct btf_file *f, const void *data, size_t len);
void btf_file_close(struct btf_file *f);

/*
 * btf_file_member() - byte offset of a member, also inside anonymous structs and unions.
 * @size: of the struct, may be NULL
 * Return: -ENOENT: there is no such struct, or no such member in any of that name.
 */
int btf_file_member(const struct btf_file *f, const char *type, const char *member, __u32 *size);

#endif
