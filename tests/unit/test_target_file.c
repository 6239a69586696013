// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A directory of ours stands for /proc/PID: map_files with ordinary links in place of the kernel's,
 * and a root that tries to lead out of itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "compile.h"
#include "target_file.h"

static int dir = -1;

static int set_up(void **state)
{
	compile_path("");
	shell("cd '%s' && chmod 755 . && mkdir -p map_files root/lib root/etc &&"
	      " echo real > root/lib/x &&"
	      " echo other > root/lib/y && mkfifo root/lib/pipe && ln -s /lib/x root/lib/inside &&"
	      " ln -s /etc/passwd root/lib/escape && ln -s ../../../../../../etc/passwd root/up &&"
	      " ln -s /proc/self/root/etc/passwd root/magic && chmod -R a+rX .",
	      compile_dir);
	dir = open(compile_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	return 0;
}

/* The mapping that maps would show of @path below our directory. */
static struct maps_entry entry_of(const char *path)
{
	struct maps_entry e = { .start = 0x1000, .end = 0x2000 };
	struct stat st;

	assert_int_equal(fstatat(dir, path, &st, 0), 0);
	e.inode = st.st_ino;
	e.dev_major = major(st.st_dev);
	e.dev_minor = minor(st.st_dev);
	return e;
}

static void link_map_file(const char *target)
{
	unlinkat(dir, "map_files/1000-2000", 0);
	assert_int_equal(symlinkat(target, dir, "map_files/1000-2000"), 0);
}

static void mapped_file_is_found_and_read(void **state)
{
	struct maps_entry e = entry_of("root/lib/x");
	char text[16] = "";
	struct stat st;
	int path_fd, fd;

	link_map_file("../root/lib/x");
	path_fd = target_file_find(dir, &e, "/lib/x", &st);
	assert_true(path_fd >= 0);
	assert_int_equal(st.st_ino, e.inode);
	/* Found, not opened. */
	assert_int_equal(read(path_fd, text, sizeof(text)), -1);
	fd = target_file_open(path_fd);
	assert_int_equal(read(fd, text, sizeof(text)), 5);
	assert_memory_equal(text, "real\n", 5);
	close(fd);
	close(path_fd);
}

static void mapping_that_was_replaced_since_is_stale(void **state)
{
	struct maps_entry e = entry_of("root/lib/x");
	struct stat st;

	link_map_file("../root/lib/y");
	assert_int_equal(target_file_find(dir, &e, "/lib/x", &st), -ESTALE);
	unlinkat(dir, "map_files/1000-2000", 0);
	assert_int_equal(target_file_find(dir, &e, "/lib/x", &st), -ENOENT);
}

/* btrfs and overlayfs: the numbers differ, the link's text is the path that maps shows. */
static void other_numbers_are_believed_where_the_link_has_the_name(void **state)
{
	struct maps_entry e = entry_of("root/lib/x");
	char path[600];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "%s/root/lib/x", compile_dir);
	link_map_file(path);
	e.inode++;
	e.dev_minor++;
	fd = target_file_find(dir, &e, path, &st);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(target_file_find(dir, &e, "/lib/x", &st), -ESTALE);
	assert_int_equal(target_file_find(dir, &e, "", &st), -ESTALE);
}

static void only_regular_files_are_taken(void **state)
{
	static const char *const others[] = { "root/lib/pipe", "root/lib" };
	struct stat st;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct maps_entry e = entry_of(others[i]);
		char link[64];

		snprintf(link, sizeof(link), "../%s", others[i]);
		link_map_file(link);
		assert_int_equal(target_file_find(dir, &e, "/x", &st), -EINVAL);
	}
}

/* Without the capability for map_files: by path, below the target's root and nowhere else. */
static void path_does_not_lead_out_of_the_targets_root(void **state)
{
	struct maps_entry e = entry_of("root/lib/x"), passwd = { .start = 0x1000, .end = 0x2000 };
	struct stat st;
	int fd, err[4];
	uid_t uid = geteuid();

	assert_int_equal(stat("/etc/passwd", &st), 0);
	passwd.inode = st.st_ino;
	passwd.dev_major = major(st.st_dev);
	passwd.dev_minor = minor(st.st_dev);
	shell("chmod 0 '%s/map_files'", compile_dir);
	if (!uid)
		assert_int_equal(seteuid(65534), 0);
	fd = target_file_find(dir, &e, "/lib/inside", &st);
	/* The mapping says passwd's inode, and still: not from here. */
	err[0] = target_file_find(dir, &passwd, "/lib/escape", &st);
	err[1] = target_file_find(dir, &passwd, "/up", &st);
	err[2] = target_file_find(dir, &passwd, "/magic", &st);
	/* A file of the right name that is not the mapped one. */
	err[3] = target_file_find(dir, &e, "/lib/y", &st);
	if (!uid)
		assert_int_equal(seteuid(uid), 0);
	shell("chmod 755 '%s/map_files'", compile_dir);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, e.inode);
	close(fd);
	for (int i = 0; i < 3; i++)
		assert_int_equal(err[i], -ENOENT);
	assert_int_equal(err[3], -ESTALE);
}

static int open_below(const char *path)
{
	struct stat st;
	int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = target_file_open_below(root, path, &st);

	close(root);
	return fd;
}

static void expect_text_below(const char *path, const char *text)
{
	char got[16] = "";
	int fd = open_below(path);

	assert_true(fd >= 0);
	assert_true(read(fd, got, sizeof(got) - 1) > 0);
	assert_string_equal(got, text);
	close(fd);
}

static void file_below_a_root_is_found_by_links_as_the_target_sees_them(void **state)
{
	shell("cd '%s/root' && mkdir -p usr/lib/deep && echo deep > usr/lib/deep/f &&"
	      " ln -s /usr/lib/deep usr/rel && ln -s ../../../../lib/x usr/lib/deep/over &&"
	      " ln -s ./deep//../deep usr/lib/dots",
	      compile_dir);
	expect_text_below("/lib/x", "real\n");
	expect_text_below("lib//y", "other\n");
	expect_text_below("lib/inside", "real\n");
	expect_text_below("/usr/rel/f", "deep\n");
	/* ".." at the root is the root. */
	expect_text_below("usr/rel/over", "real\n");
	expect_text_below("../../usr/lib/dots/./f", "deep\n");
	assert_int_equal(open_below("lib/none"), -ENOENT);
	assert_int_equal(open_below("lib/x/y"), -ENOTDIR);
	assert_int_equal(open_below(""), -ENOENT);
}

static void nothing_outside_of_a_root_is_opened(void **state)
{
	shell("cd '%s/root' && ln -s loop2 loop1 && ln -s loop1 loop2 && ln -s / slash && ln -s "
	      "lib/pipe topipe",
	      compile_dir);
	assert_int_equal(open_below("lib/escape"), -ENOENT);
	assert_int_equal(open_below("up"), -ENOENT);
	assert_int_equal(open_below("magic"), -ENOENT);
	assert_int_equal(open_below("../../../../../../../etc/passwd"), -ENOENT);
	assert_int_equal(open_below("loop1"), -ELOOP);
	assert_true(open_below("slash") < 0);
	assert_int_equal(open_below("lib"), -EINVAL);
	/* Neither opened nor waited for. */
	assert_int_equal(open_below("lib/pipe"), -EINVAL);
	assert_int_equal(open_below("topipe"), -EINVAL);
}

static void last_name_that_is_a_link_is_refused_where_it_is_not_wanted(void **state)
{
	struct stat st;
	int root = openat(dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd;

	assert_int_equal(target_file_open_no_link(root, "lib/inside", &st), -ELOOP);
	/* One on the way is the target's own business. */
	fd = target_file_open_no_link(root, "usr/rel/f", &st);
	assert_true(fd >= 0);
	close(fd);
	close(root);
}

/* Of a root that has procfs: a link of a process leads to where its text does not say. */
static void links_of_procfs_are_not_followed(void **state)
{
	struct stat st;
	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(target_file_open_below(root, "/proc/self/exe", &st), -ELOOP);
	assert_int_equal(target_file_open_below(root, "/proc/self/root/etc/passwd", &st), -ELOOP);
	close(root);
}

static void path_below_a_root_that_is_too_long_is_refused(void **state)
{
	static char path[10000];

	memset(path, '/', 4095);
	assert_int_equal(open_below(path), -ENOENT);
	memset(path, '/', sizeof(path) - 1);
	assert_int_equal(open_below(path), -ENAMETOOLONG);
	memset(path, 'a', 300);
	path[300] = '\0';
	assert_int_equal(open_below(path), -ENAMETOOLONG);
	/* A link that makes what is left of the path longer each time. */
	shell("cd '%s/root' && ln -s \"grow/$(printf 'x%%.0s' $(seq 200))\" grow", compile_dir);
	assert_true(open_below("grow") < 0);
}

static const char mounts[] =
	"22 28 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
	"28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
	"30 28 0:40 / /mnt/a\\040-\\040nfs rw master:3 - overlay overlay rw,lowerdir=/ - nfs x\n"
	"31 28 0:41 / /home/x rw shared:2 master:1 - fuse.sshfs host:/x rw,user_id=0\n"
	"32 28 8:17 / /ntfs rw - fuseblk /dev/sdb1 rw\n"
	"33 28 0:43 /export /nfs rw - nfs4 server:/export rw\n"
	"34 28 0:44 / /9 rw - 9p hostshare rw\n"
	"35 28 0:45 / /v rw - virtiofs tag rw\n"
	"36 28 0:46 / /f rw - fuse";

static void mounts_say_what_may_not_answer(void **state)
{
	static const struct {
		__u32 dev_major, dev_minor;
		enum target_file_place place;
	} cases[] = {
		{ 254, 0, TARGET_FILE_LOCAL },	  { 0, 40, TARGET_FILE_STACKED },
		{ 0, 41, TARGET_FILE_REMOTE },	  { 8, 17, TARGET_FILE_REMOTE },
		{ 0, 43, TARGET_FILE_REMOTE },	  { 0, 44, TARGET_FILE_REMOTE },
		{ 0, 45, TARGET_FILE_REMOTE },	  { 0, 46, TARGET_FILE_REMOTE },
		{ 0, 4, TARGET_FILE_UNKNOWN },	  { 0, 1, TARGET_FILE_UNKNOWN },
		{ 254, 21, TARGET_FILE_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(target_file_parse_mounts(mounts, sizeof(mounts) - 1,
							  cases[i].dev_major, cases[i].dev_minor),
				 cases[i].place);
	/* Cut anywhere it is still nothing but unknown or right. */
	for (size_t len = 0; len < sizeof(mounts); len++) {
		char *copy = malloc(len ? len : 1);

		memcpy(copy, mounts, len);
		assert_int_not_equal(target_file_parse_mounts(copy, len, 254, 0),
				     TARGET_FILE_REMOTE);
		free(copy);
	}
}

/* In a chroot our own mounts need not show the one below it: then only the file can say. */
static enum target_file_place place_by_our_mounts(const struct maps_entry *e)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	unsigned int major, minor;
	char line[4096];
	bool found = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found |= sscanf(line, "%*u %*u %u:%u ", &major, &minor) == 2 &&
			 major == e->dev_major && minor == e->dev_minor;
	fclose(f);
	return found ? TARGET_FILE_LOCAL : TARGET_FILE_UNKNOWN;
}

static void mounts_of_the_target_then_ours_are_asked(void **state)
{
	struct maps_entry here = entry_of("root/lib/x"), e = { .dev_minor = 41 };
	enum target_file_place ours = place_by_our_mounts(&here);
	int fd = openat(dir, "mountinfo", O_CREAT | O_WRONLY | O_TRUNC, 0644);

	assert_int_equal(write(fd, mounts, sizeof(mounts) - 1), sizeof(mounts) - 1);
	close(fd);
	assert_int_equal(target_file_place(dir, &e), TARGET_FILE_REMOTE);
	assert_int_equal(target_file_place(dir, &here) == TARGET_FILE_UNKNOWN,
			 ours == TARGET_FILE_UNKNOWN);
	e.dev_major = 4000;
	assert_int_equal(target_file_place(dir, &e), TARGET_FILE_UNKNOWN);
	fd = open("/proc/self/exe", O_PATH);
	assert_false(target_file_is_remote(fd));
	close(fd);
	unlinkat(dir, "mountinfo", 0);
	assert_int_equal(target_file_place(dir, &here) == TARGET_FILE_UNKNOWN,
			 ours == TARGET_FILE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped_file_is_found_and_read),
		cmocka_unit_test(mapping_that_was_replaced_since_is_stale),
		cmocka_unit_test(other_numbers_are_believed_where_the_link_has_the_name),
		cmocka_unit_test(only_regular_files_are_taken),
		cmocka_unit_test(file_below_a_root_is_found_by_links_as_the_target_sees_them),
		cmocka_unit_test(nothing_outside_of_a_root_is_opened),
		cmocka_unit_test(last_name_that_is_a_link_is_refused_where_it_is_not_wanted),
		cmocka_unit_test(links_of_procfs_are_not_followed),
		cmocka_unit_test(path_below_a_root_that_is_too_long_is_refused),
		cmocka_unit_test(mounts_say_what_may_not_answer),
		cmocka_unit_test(mounts_of_the_target_then_ours_are_asked),
		cmocka_unit_test(path_does_not_lead_out_of_the_targets_root),
	};

	return cmocka_run_group_tests_name("target_file", tests, set_up, NULL);
}
