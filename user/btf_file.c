// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "btf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "array.h"

#define MAX_SIZE (256u << 20)	/* bytes; a kernel with every debug option has 30 MB */
#define MAX_DEPTH 8		/* of anonymous members */

/* Bytes behind the common part of a type; -1: a kind that we do not know. */
static long tail_size(const struct btf_type *t)
{
	const long n = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case 17: /* BTF_KIND_DECL_TAG, 5.16 */
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return n * (long)sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return n * (long)sizeof(struct btf_enum);
	case BTF_KIND_FUNC_PROTO:
		return n * (long)sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return n * (long)sizeof(struct btf_var_secinfo);
	case 19: /* BTF_KIND_ENUM64, 6.0 */
		return n * 12;
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case 18: /* BTF_KIND_TYPE_TAG, 5.17 */
		return 0;
	default:
		return -1;
	}
}

static int index_types(struct btf_file *f, size_t at, size_t end)
{
	size_t cap = 0;

	/* Id 0 is void. */
	f->types = array_grow(NULL, &cap, 1, sizeof(*f->types));
	if (!f->types)
		return -ENOMEM;
	f->types[f->n_types++] = 0;
	while (end - at >= sizeof(struct btf_type)) {
		const struct btf_type *t = (const void *)(f->data + at);
		long tail = tail_size(t);
		__u32 *grown;

		if (tail < 0 || (size_t)tail > end - at - sizeof(*t))
			return 0;
		grown = array_grow(f->types, &cap, f->n_types + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->types = grown;
		grown[f->n_types++] = (__u32)at;
		at += sizeof(*t) + (size_t)tail;
	}
	return 0;
}

static bool is_part(size_t len, __u64 at, __u64 size)
{
	return at <= len && size <= len - at;
}

int btf_file_parse(struct btf_file *f, const void *data, size_t len)
{
	const struct btf_header *h = data;
	__u64 types, strings;

	memset(f, 0, sizeof(*f));
	f->data = data;
	f->len = len;
	if (len < sizeof(*h) || len > MAX_SIZE || h->magic != BTF_MAGIC || h->hdr_len < sizeof(*h))
		return -EINVAL;
	types = (__u64)h->hdr_len + h->type_off;
	strings = (__u64)h->hdr_len + h->str_off;
	if (!is_part(len, types, h->type_len) || !is_part(len, strings, h->str_len) || types % 4 ||
	    !h->str_len || f->data[strings + h->str_len - 1])
		return -EINVAL;
	f->strings = (const char *)f->data + strings;
	f->strings_len = h->str_len;
	return index_types(f, types, types + h->type_len);
}

/* sysfs gives a page for each read(); mmap() works from 6.16 on. */
static unsigned char *read_whole(int fd, size_t len)
{
	unsigned char *data = malloc(len);
	size_t at = 0;

	while (data && at < len) {
		ssize_t n = read(fd, data + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			free(data);
			return NULL;
		}
		at += (size_t)n;
	}
	return data;
}

int btf_file_open(struct btf_file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;
	void *data = MAP_FAILED;
	bool mapped;
	struct stat st;

	memset(f, 0, sizeof(*f));
	if (fd < 0)
		return -errno;
	err = fstat(fd, &st) ? -errno : 0;
	if (!err && (st.st_size <= 0 || st.st_size > MAX_SIZE))
		err = -EINVAL;
	if (!err)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	mapped = data != MAP_FAILED;
	if (!err && !mapped)
		data = read_whole(fd, (size_t)st.st_size);
	close(fd);
	if (err || !data)
		return err ? err : -EIO;
	err = btf_file_parse(f, data, (size_t)st.st_size);
	f->mapped = mapped;
	if (err)
		btf_file_close(f);
	return err;
}

void btf_file_close(struct btf_file *f)
{
	if (f->mapped)
		munmap((void *)f->data, f->len);
	else
		free((void *)f->data);
	free(f->types);
	memset(f, 0, sizeof(*f));
}

static const struct btf_type *type_by_id(const struct btf_file *f, __u32 id)
{
	return id && id < f->n_types ? (const void *)(f->data + f->types[id]) : NULL;
}

static bool has_name(const struct btf_file *f, __u32 offset, const char *name)
{
	return offset < f->strings_len && !strcmp(f->strings + offset, name);
}

static int find_member(const struct btf_file *f, const struct btf_type *t, const char *name,
		       int depth)
{
	const struct btf_member *m = (const void *)(t + 1);
	const unsigned int kind = BTF_INFO_KIND(t->info);

	if ((kind != BTF_KIND_STRUCT && kind != BTF_KIND_UNION) || depth > MAX_DEPTH)
		return -ENOENT;
	for (unsigned int i = 0; i < BTF_INFO_VLEN(t->info); i++, m++) {
		__u32 bits = BTF_INFO_KFLAG(t->info) ? BTF_MEMBER_BIT_OFFSET(m->offset) : m->offset;
		const struct btf_type *inner;
		int at;

		if (has_name(f, m->name_off, name))
			return (int)(bits / 8);
		inner = has_name(f, m->name_off, "") ? type_by_id(f, m->type) : NULL;
		at = inner ? find_member(f, inner, name, depth + 1) : -ENOENT;
		if (at >= 0)
			return (int)(bits / 8) + at;
	}
	return -ENOENT;
}

int btf_file_member(const struct btf_file *f, const char *type, const char *member, __u32 *size)
{
	for (__u32 id = 1; id < f->n_types; id++) {
		const struct btf_type *t = type_by_id(f, id);
		int at;

		if (BTF_INFO_KIND(t->info) != BTF_KIND_STRUCT || !has_name(f, t->name_off, type))
			continue;
		at = find_member(f, t, member, 0);
		if (at >= 0 && size)
			*size = t->size;
		if (at >= 0)
			return at;
	}
	return -ENOENT;
}
