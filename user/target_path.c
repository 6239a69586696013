/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "target_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "target_file.h"

#define MAX_PATH 4096
#define MAX_LINKS 40	/* as the kernel's MAXSYMLINKS */

/* A path on its way below a root: what is behind us has no link in it, so ".." takes away a name. */
struct walk {
	int root_fd;
	bool no_last_link;
	bool is_checked;	/* @dev_major:@dev_minor is known to answer */
	__u32 dev_major, dev_minor;
	unsigned int n_links;
	char done[MAX_PATH];	/* "/a/b" */
	char rest[MAX_PATH];
};

/* The kind of file that @fd is; its file system is asked nothing that it could leave unanswered. */
static int check_step(struct walk *w, int fd, __u16 *mode)
{
	const int flags = AT_EMPTY_PATH | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
	struct statx stx;

	if (statx(fd, "", flags, STATX_TYPE, &stx))
		return -errno;
	*mode = stx.stx_mode;
	if (w->is_checked && w->dev_major == stx.stx_dev_major && w->dev_minor == stx.stx_dev_minor)
		return 0;
	if (target_file_may_not_answer(fd, stx.stx_dev_major, stx.stx_dev_minor))
		return -EREMOTE;
	w->is_checked = true;
	w->dev_major = stx.stx_dev_major;
	w->dev_minor = stx.stx_dev_minor;
	return 0;
}

/* Take the first name from @rest. False if there is none. */
static bool next_name(struct walk *w, char name[static NAME_MAX + 1], int *err)
{
	char *at = w->rest + strspn(w->rest, "/");
	size_t len = strcspn(at, "/");

	*err = len > NAME_MAX ? -ENAMETOOLONG : 0;
	if (!len || *err)
		return false;
	memcpy(name, at, len);
	name[len] = '\0';
	memmove(w->rest, at + len, strlen(at + len) + 1);
	return true;
}

/* What the link says goes in front of the rest. Links of procfs are not what they say. */
static int follow_link(struct walk *w, int fd)
{
	char target[MAX_PATH];
	size_t rest_len = strlen(w->rest);
	struct statfs st;
	ssize_t len;

	if ((w->no_last_link && !rest_len) || ++w->n_links > MAX_LINKS || fstatfs(fd, &st) ||
	    st.f_type == PROC_SUPER_MAGIC)
		return -ELOOP;
	len = readlinkat(fd, "", target, sizeof(target));
	if (len <= 0)
		return len ? -errno : -ENOENT;
	if ((size_t)len + rest_len + 2 > sizeof(w->rest))
		return -ENAMETOOLONG;
	memmove(w->rest + len, w->rest, rest_len + 1);
	memcpy(w->rest, target, (size_t)len);
	if (target[0] == '/')
		w->done[0] = '\0';
	return 0;
}

/* To @name. Return: an O_PATH descriptor of it, or of where we are after "..", or -errno. */
static int step(struct walk *w, const char *name, __u16 *mode)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS,
	};
	size_t len = strlen(w->done);
	char *last = strrchr(w->done, '/');
	int fd, err;

	if (!strcmp(name, "..") && last)
		*last = '\0';
	if (strcmp(name, ".") && strcmp(name, "..") &&
	    (size_t)snprintf(w->done + len, sizeof(w->done) - len, "/%s", name) >=
		    sizeof(w->done) - len)
		return -ENAMETOOLONG;
	fd = (int)syscall(SYS_openat2, w->root_fd, w->done[0] ? w->done : "/", &how, sizeof(how));
	if (fd < 0)
		return -errno;
	err = check_step(w, fd, mode);
	if (!err && S_ISLNK(*mode)) {
		*strrchr(w->done, '/') = '\0';
		err = follow_link(w, fd);
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}

int target_path_find(int root_fd, const char *path, bool no_last_link)
{
	struct walk w = { .root_fd = root_fd, .no_last_link = no_last_link };
	char name[NAME_MAX + 1];
	__u16 mode = 0;
	int fd = -ENOENT, err;

	if (strlen(path) >= sizeof(w.rest))
		return -ENAMETOOLONG;
	strcpy(w.rest, path);
	/* Even the root's own file system may be one that does not answer. */
	err = check_step(&w, root_fd, &mode);
	if (err)
		return err;
	while (next_name(&w, name, &err)) {
		if (fd >= 0)
			close(fd);
		fd = step(&w, name, &mode);
		if (fd < 0)
			return fd;
	}
	if (fd >= 0 && (err || S_ISLNK(mode))) {
		close(fd);
		return err ? err : -ELOOP;
	}
	return err ? err : fd;
}
