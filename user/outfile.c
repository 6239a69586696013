// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Everything happens in one directory that is opened once: whoever renames or replaces the
 * directories above it cannot make us write elsewhere. The last component is never followed.
 */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "escape.h"
#include "invoker.h"
#include "log.h"

#define TEMP_TRIES 100
/* Of the name; the rest of the temporary name must fit into NAME_MAX (255) beside it. */
#define TEMP_NAME_MAX 200

struct outfile {
	int dir;		/* O_PATH */
	FILE *stream;
	char *shown;		/* path as given, escaped, for messages */
	char *name;		/* last component of it */
	char temp[NAME_MAX + 1];
};

/* The one whose temporary file exists, for outfile_remove_temp(). */
static struct outfile *volatile unfinished;

static void free_outfile(struct outfile *f)
{
	/* First: the handler must not see a descriptor that is somebody else's by then. */
	if (unfinished == f)
		unfinished = NULL;
	if (f->dir >= 0)
		close(f->dir);
	if (f->stream)
		fclose(f->stream);
	free(f->shown);
	free(f->name);
	free(f);
}

static int fail(const struct outfile *f, int err, const char *why)
{
	log_error("output: %s: %s", f->shown, why);
	return err;
}

/* What helps against the errors that people meet. */
static const char *remedy(int err)
{
	switch (err) {
	case -ENOENT:
	case -ENOTDIR:
		return " (create the directory first, or name another)";
	case -EACCES:
	case -EPERM:
	case -EROFS:
		return " (name a file in a directory that may be written to)";
	case -ENOSPC:
	case -EDQUOT:
		return " (free space, or name a file elsewhere)";
	case -ENAMETOOLONG:
		return " (choose a shorter name)";
	default:
		return "";
	}
}

static int fail_errno(const struct outfile *f, int err)
{
	log_error("output: %s: %s%s", f->shown, strerror(-err), remedy(err));
	return err;
}

/* Opens the directory of @path, keeps the last component. */
static int open_dir(struct outfile *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir;

	f->name = strdup(slash ? slash + 1 : path);
	if (!slash)
		dir = strdup(".");
	else if (slash == path)
		dir = strdup("/");
	else
		dir = strndup(path, slash - path);
	if (!f->name || !dir) {
		free(dir);
		return fail_errno(f, -ENOMEM);
	}

	f->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(dir);
	if (f->dir < 0)
		return fail_errno(f, -errno);
	return 0;
}

/* May the destination be made, or replaced? */
static int check_destination(const struct outfile *f)
{
	struct stat st;

	if (!*f->name)
		return fail(f, -EISDIR, "is the name of a directory (name a file)");
	if (fstatat(f->dir, f->name, &st, AT_SYMLINK_NOFOLLOW)) {
		if (errno == ENOENT)
			return 0;
		return fail_errno(f, -errno);
	}

	if (S_ISLNK(st.st_mode))
		return fail(f, -ELOOP,
			    "is a symbolic link; rprof-bpf neither follows nor replaces links "
			    "(name the file itself, or use standard output: > FILE)");
	if (S_ISDIR(st.st_mode))
		return fail(f, -EISDIR, "is a directory (name a file)");
	if (!S_ISREG(st.st_mode))
		return fail(f, -EINVAL,
			    "is a device, pipe or socket (use standard output: > FILE)");
	if (!invoker_may_replace(st.st_uid))
		return fail(f, -EPERM,
			    "belongs to another user; as root, rprof-bpf replaces only root's "
			    "files and those of the user who called sudo");
	return 0;
}

/* A name that nobody can guess: otherwise it could be taken, and we stopped, by anyone. */
static int make_temp_name(struct outfile *f)
{
	static const char letters[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX";
	unsigned char random[6];
	char suffix[sizeof(random) + 1];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		suffix[i] = letters[random[i] % (sizeof(letters) - 1)];
	suffix[sizeof(random)] = '\0';
	snprintf(f->temp, sizeof(f->temp), ".%.*s.rprof-%s", TEMP_NAME_MAX, f->name, suffix);
	return 0;
}

static int open_temp(struct outfile *f)
{
	int fd = -1, err;

	for (int i = 0; i < TEMP_TRIES && fd < 0; i++) {
		err = make_temp_name(f);
		if (err)
			return fail_errno(f, err);
		fd = openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return fail_errno(f, -errno);

	f->stream = fdopen(fd, "w");
	if (!f->stream) {
		err = -errno;
		close(fd);
		unlinkat(f->dir, f->temp, 0);
		return fail_errno(f, err);
	}
	unfinished = f;
	return 0;
}

int outfile_open(const char *path, struct outfile **out)
{
	struct outfile *f = calloc(1, sizeof(*f));
	int err;

	if (!f) {
		log_error("output: out of memory");
		return -ENOMEM;
	}
	f->dir = -1;
	f->shown = escape_string(path, strlen(path));
	if (!f->shown) {
		log_error("output: out of memory");
		err = -ENOMEM;
		goto out;
	}
	err = open_dir(f, path);
	if (err)
		goto out;
	err = check_destination(f);
	if (err)
		goto out;
	err = open_temp(f);
	if (err)
		goto out;
	*out = f;
	return 0;
out:
	free_outfile(f);
	return err;
}

FILE *outfile_stream(struct outfile *f)
{
	return f->stream;
}

/* A failure leaves a complete file that is root's, so it is only worth a warning. */
static void give_to_invoker(const struct outfile *f)
{
	uid_t uid;
	gid_t gid;

	if (!invoker_ids(&uid, &gid))
		return;
	if (fchown(fileno(f->stream), uid, gid))
		log_warn("output: %s: cannot be given to user %u: %s", f->shown, uid,
			 strerror(errno));
}

/* Closing matters too: network file systems and quotas report there what they could not keep. */
static int close_stream(struct outfile *f)
{
	int err = 0;

	errno = 0;
	if (fflush(f->stream) || ferror(f->stream))
		err = errno ? -errno : -EIO;
	else
		give_to_invoker(f);
	if (fclose(f->stream) && !err)
		err = -errno;
	f->stream = NULL;
	return err;
}

int outfile_commit(struct outfile *f)
{
	int err = close_stream(f);

	if (err) {
		fail_errno(f, err);
		goto out;
	}
	err = check_destination(f);
	if (err)
		goto out;
	if (renameat(f->dir, f->temp, f->dir, f->name)) {
		err = -errno;
		fail_errno(f, err);
	}
out:
	if (err)
		unlinkat(f->dir, f->temp, 0);
	free_outfile(f);
	return err;
}

void outfile_abort(struct outfile *f)
{
	if (!f)
		return;
	unlinkat(f->dir, f->temp, 0);
	free_outfile(f);
}

int outfile_fail(struct outfile *f, int err)
{
	fail_errno(f, err);
	outfile_abort(f);
	return err;
}

void outfile_remove_temp(void)
{
	const struct outfile *f = unfinished;

	if (f)
		unlinkat(f->dir, f->temp, 0);
}
