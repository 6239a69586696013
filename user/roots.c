// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "roots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "array.h"

#define MAX_ROOTS 256 /* held at one time; containers, mostly */

/* STATX_MNT_ID, 5.8: the same directory mounted twice may have other things below it. */
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000U
#endif

void roots_fini(struct roots *r)
{
	for (size_t i = 0; i < r->n; i++) {
		if (r->items[i].fd >= 0)
			close(r->items[i].fd);
	}
	free(r->items);
	memset(r, 0, sizeof(*r));
}

static int identify(int fd, struct root *root)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_MNT_ID, &stx))
		return -errno;
	*root = (struct root){
		.dev = (__u64)stx.stx_dev_major << 32 | stx.stx_dev_minor,
		.ino = stx.stx_ino,
		.mount = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0,
		.fd = fd,
		.refs = 1,
	};
	return 0;
}

/* Where @root is already, or a free place, or the end. */
static size_t place_of(const struct roots *r, const struct root *root)
{
	size_t place = r->n;

	for (size_t i = 0; i < r->n; i++) {
		const struct root *have = &r->items[i];

		if (have->fd < 0)
			place = i;
		else if (have->dev == root->dev && have->ino == root->ino &&
			 have->mount == root->mount)
			return i;
	}
	return place;
}

int roots_add(struct roots *r, int proc_dir)
{
	int fd = proc_dir >= 0 ? openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC) :
				 open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct root root, *grown;
	size_t i;
	int err;

	if (fd < 0)
		return -errno;
	err = identify(fd, &root);
	i = err ? 0 : place_of(r, &root);
	if (!err && i < r->n && r->items[i].fd >= 0) {
		r->items[i].refs++;
		close(fd);
		return (int)i;
	}
	if (!err && i >= MAX_ROOTS)
		err = -EMFILE;
	grown = err ? NULL : array_grow(r->items, &r->cap, i + 1, sizeof(*grown));
	if (!grown) {
		close(fd);
		return err ? err : -ENOMEM;
	}
	r->items = grown;
	r->items[i] = root;
	if (i == r->n)
		r->n++;
	return (int)i;
}

void roots_unref(struct roots *r, int index)
{
	if (index < 0 || --r->items[index].refs)
		return;
	close(r->items[index].fd);
	r->items[index].fd = -1;
}

int roots_fd(const struct roots *r, int index)
{
	return index < 0 ? -1 : r->items[index].fd;
}
