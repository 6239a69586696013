// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "outfile.h"

static char dir[64];

static int setup(void **state)
{
	strcpy(dir, "/tmp/rprof-test-XXXXXX");
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	umask(022);
	return !mkdtemp(dir) || chdir(dir);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	return chdir("/") || nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static unsigned int count_entries(void)
{
	DIR *d = opendir(".");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2; /* . and .. */
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void assert_content(const char *name, const char *expected)
{
	char text[64] = "";
	FILE *f = fopen(name, "r");

	assert_non_null(f);
	(void)!fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	assert_string_equal(text, expected);
}

/* Opens, writes "new", commits. */
static int write_new(const char *name)
{
	struct outfile *f;
	int err = outfile_open(name, &f);

	if (err)
		return err;
	fputs("new", outfile_stream(f));
	return outfile_commit(f);
}

static void assert_refused(const char *name, int err)
{
	struct outfile *f = NULL;
	unsigned int before = count_entries();

	assert_int_equal(outfile_open(name, &f), err);
	assert_null(f);
	assert_int_equal(count_entries(), before);
}

static void file_appears_at_commit(void **state)
{
	struct outfile *f;
	struct stat st;

	assert_int_equal(outfile_open("out", &f), 0);
	fputs("new", outfile_stream(f));
	fflush(outfile_stream(f));
	assert_int_equal(access("out", F_OK), -1);
	assert_int_equal(outfile_commit(f), 0);
	assert_content("out", "new");
	assert_int_equal(count_entries(), 1);
	assert_int_equal(stat("out", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
}

static void abort_leaves_nothing(void **state)
{
	struct outfile *f;

	put("out", "old");
	assert_int_equal(outfile_open("out", &f), 0);
	fputs("new", outfile_stream(f));
	outfile_abort(f);
	outfile_abort(NULL);
	assert_content("out", "old");
	assert_int_equal(count_entries(), 1);
}

static void old_file_is_replaced_whole(void **state)
{
	put("out", "something long and old");
	assert_int_equal(write_new("out"), 0);
	assert_content("out", "new");
	assert_int_equal(count_entries(), 1);
}

static void directories_in_the_path_are_opened_once(void **state)
{
	struct outfile *f;

	assert_int_equal(mkdir("sub", 0755), 0);
	assert_int_equal(outfile_open("sub/out", &f), 0);
	fputs("new", outfile_stream(f));
	assert_int_equal(rename("sub", "moved"), 0);
	assert_int_equal(symlink("/", "sub"), 0);
	assert_int_equal(outfile_commit(f), 0);
	assert_content("moved/out", "new");
}

static void umask_is_kept(void **state)
{
	struct stat st;

	umask(077);
	assert_int_equal(write_new("out"), 0);
	assert_int_equal(stat("out", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void links_are_neither_followed_nor_replaced(void **state)
{
	put("target", "old");
	assert_int_equal(symlink("target", "link"), 0);
	assert_int_equal(symlink("nowhere", "dangling"), 0);
	assert_refused("link", -ELOOP);
	assert_refused("dangling", -ELOOP);
	assert_content("target", "old");
}

static void link_that_comes_later_is_refused_too(void **state)
{
	struct outfile *f;

	put("target", "old");
	assert_int_equal(outfile_open("out", &f), 0);
	assert_int_equal(symlink("target", "out"), 0);
	assert_int_equal(outfile_commit(f), -ELOOP);
	assert_content("target", "old");
	assert_int_equal(count_entries(), 2);
}

static void what_is_no_file_is_refused(void **state)
{
	assert_int_equal(mkdir("sub", 0755), 0);
	assert_int_equal(mkfifo("fifo", 0644), 0);
	assert_refused("sub", -EISDIR);
	assert_refused("sub/", -EISDIR);
	assert_refused(".", -EISDIR);
	assert_refused("fifo", -EINVAL);
	assert_refused("/dev/null", -EINVAL);
}

static void missing_directory_is_an_error_at_open(void **state)
{
	assert_refused("no/such/out", -ENOENT);
	put("plain", "");
	assert_refused("plain/out", -ENOTDIR);
}

static void longest_name_works_and_a_longer_one_does_not(void **state)
{
	char name[300];

	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	assert_int_equal(write_new(name), 0);
	assert_content(name, "new");
	name[255] = 'n';
	name[256] = '\0';
	assert_refused(name, -ENAMETOOLONG);
}

static void root_gives_the_file_to_who_called_sudo(void **state)
{
	bool root = getuid() == 0;
	struct stat st;

	setenv("SUDO_UID", "12345", 1);
	setenv("SUDO_GID", "12346", 1);
	assert_int_equal(write_new("out"), 0);
	assert_int_equal(stat("out", &st), 0);
	assert_int_equal(st.st_uid, root ? 12345 : getuid());
	if (root)
		assert_int_equal(st.st_gid, 12346);
	/* Again: now it exists and is theirs. */
	assert_int_equal(write_new("out"), 0);
}

static void root_leaves_files_of_others_alone(void **state)
{
	put("theirs", "old");
	if (getuid() == 0) {
		assert_int_equal(chown("theirs", 12345, 12345), 0);
		assert_refused("theirs", -EPERM);
		assert_content("theirs", "old");
		return;
	}
	assert_int_equal(write_new("theirs"), 0);
}

/* /dev/full under the stream of an outfile: what a full disk does, without a file system. */
static void full_disk_leaves_the_old_file(void **state)
{
	struct outfile *f;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	assert_true(full >= 0);
	put("out", "old");
	assert_int_equal(outfile_open("out", &f), 0);
	assert_true(dup2(full, fileno(outfile_stream(f))) >= 0);
	close(full);
	fputs("new", outfile_stream(f));
	assert_int_equal(outfile_commit(f), -ENOSPC);
	assert_content("out", "old");
	assert_int_equal(count_entries(), 1);
}

static void failed_write_leaves_the_old_file(void **state)
{
	struct outfile *f;

	put("out", "old");
	assert_int_equal(outfile_open("out", &f), 0);
	fputs("new", outfile_stream(f));
	assert_int_equal(outfile_fail(f, -ENOSPC), -ENOSPC);
	assert_content("out", "old");
	assert_int_equal(count_entries(), 1);
}

/* What a signal handler that ends the program does. */
static void temporary_file_can_be_removed_without_the_outfile(void **state)
{
	struct outfile *f;

	put("out", "old");
	assert_int_equal(outfile_open("out", &f), 0);
	assert_int_equal(count_entries(), 2);
	outfile_remove_temp();
	assert_content("out", "old");
	assert_int_equal(count_entries(), 1);
	outfile_abort(f);
}

static void nothing_is_removed_when_no_file_is_unfinished(void **state)
{
	outfile_remove_temp();
	assert_int_equal(write_new("committed"), 0);
	outfile_remove_temp();
	assert_content("committed", "new");
	assert_refused("no/such/out", -ENOENT);
	outfile_remove_temp();
	assert_int_equal(count_entries(), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(file_appears_at_commit),
		TEST(abort_leaves_nothing),
		TEST(old_file_is_replaced_whole),
		TEST(directories_in_the_path_are_opened_once),
		TEST(umask_is_kept),
		TEST(links_are_neither_followed_nor_replaced),
		TEST(link_that_comes_later_is_refused_too),
		TEST(what_is_no_file_is_refused),
		TEST(missing_directory_is_an_error_at_open),
		TEST(longest_name_works_and_a_longer_one_does_not),
		TEST(root_gives_the_file_to_who_called_sudo),
		TEST(root_leaves_files_of_others_alone),
		TEST(full_disk_leaves_the_old_file),
		TEST(failed_write_leaves_the_old_file),
		TEST(temporary_file_can_be_removed_without_the_outfile),
		TEST(nothing_is_removed_when_no_file_is_unfinished),
	};

	/* The errors are meant here; they would only confuse the test report. */
	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
