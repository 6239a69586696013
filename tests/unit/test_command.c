// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"

static struct command c;

static char *sh_argv[] = { (char *)"sh", (char *)"-c", NULL, NULL };

static char **sh(const char *script)
{
	sh_argv[2] = (char *)script;
	return sh_argv;
}

static int setup(void **state)
{
	unsetenv("SUDO_UID");
	unsetenv("SUDO_GID");
	return 0;
}

static int wait_for(pid_t pid)
{
	int wstatus = 0;

	assert_int_equal(waitpid(pid, &wstatus, 0), pid);
	return wstatus;
}

/* Starts, releases and waits; the exit code. */
static int run(char **argv)
{
	assert_int_equal(command_start(argv, false, &c), 0);
	assert_int_equal(command_release(&c), 0);
	return command_status(wait_for(c.pid));
}

/* What @script prints on its stdout, without the last newline. */
static void run_output(const char *script, char *text, size_t size)
{
	int fds[2], saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	ssize_t n;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fflush(stdout);
	assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
	close(fds[1]);
	assert_int_equal(run(sh(script)), 0);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	close(saved);
	n = read(fds[0], text, size - 1);
	assert_true(n >= 0);
	close(fds[0]);
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

static void assert_no_children(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void status_is_passed_on(void **state)
{
	assert_int_equal(run(sh("exit 0")), 0);
	assert_int_equal(run(sh("exit 7")), 7);
	assert_int_equal(run(sh("kill -9 $$")), 137);
	assert_int_equal(run(sh("kill -15 $$")), 143);
	assert_no_children();
}

static void nothing_runs_before_the_release(void **state)
{
	char path[] = "/tmp/rprof-test-XXXXXX", script[64];
	int fd = mkstemp(path);
	struct stat st;

	assert_true(fd >= 0);
	snprintf(script, sizeof(script), "echo x > %s", path);
	assert_int_equal(command_start(sh(script), false, &c), 0);
	assert_int_equal(kill(c.pid, 0), 0);
	usleep(50000);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);

	assert_int_equal(command_release(&c), 0);
	assert_int_equal(command_status(wait_for(c.pid)), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 2);
	close(fd);
	unlink(path);
}

static void pid_is_the_commands(void **state)
{
	char text[32], expected[32];

	run_output("echo $$", text, sizeof(text));
	snprintf(expected, sizeof(expected), "%d", c.pid);
	assert_string_equal(text, expected);
}

static void missing_command_is_127(void **state)
{
	char *argv[] = { (char *)"rprof-no-such-command", NULL };
	int err;

	assert_int_equal(command_start(argv, false, &c), 0);
	err = command_release(&c);
	assert_int_equal(err, -ENOENT);
	assert_int_equal(command_exit_code(err), 127);
	assert_no_children();
}

/* execvp() alone would say EACCES; a plain user's PATH may have a folder of root's. */
static void missing_command_is_127_with_a_locked_folder_in_path(void **state)
{
	char *argv[] = { (char *)"rprof-no-such-command", NULL };
	char dir[] = "/tmp/rprof-test-XXXXXX", path[64], *saved = strdup(getenv("PATH"));

	assert_non_null(mkdtemp(dir));
	assert_int_equal(chmod(dir, 0), 0);
	snprintf(path, sizeof(path), "/bin::%s", dir);
	setenv("PATH", path, 1);
	setenv("SUDO_UID", "1", 1);
	setenv("SUDO_GID", "1", 1);
	assert_int_equal(command_start(argv, false, &c), 0);
	assert_int_equal(command_release(&c), -ENOENT);
	setenv("PATH", saved, 1);
	free(saved);
	rmdir(dir);
}

static void file_that_cannot_be_run_is_126(void **state)
{
	char *dir[] = { (char *)"/", NULL }, *plain[] = { (char *)"/etc/passwd", NULL };
	int err;

	assert_int_equal(command_start(dir, false, &c), 0);
	err = command_release(&c);
	assert_int_equal(err, -EACCES);
	assert_int_equal(command_exit_code(err), 126);
	assert_int_equal(command_start(plain, false, &c), 0);
	assert_int_equal(command_exit_code(command_release(&c)), 126);
	assert_no_children();
}

static void script_without_interpreter_line_runs_as_in_a_shell(void **state)
{
	char path[] = "/tmp/rprof-test-XXXXXX";
	char *argv[] = { path, NULL };
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "exit 9\n", 7), 7);
	fchmod(fd, 0755);
	close(fd);
	assert_int_equal(run(argv), 9);
	unlink(path);
}

static void abort_leaves_no_child(void **state)
{
	pid_t pid;

	assert_int_equal(command_start(sh("exit 0"), false, &c), 0);
	pid = c.pid;
	command_abort(&c);
	assert_no_children();
	assert_int_equal(kill(pid, 0), -1);
	command_abort(&c);
}

static void abort_after_release_leaves_the_command_alone(void **state)
{
	assert_int_equal(command_start(sh("sleep 0.05; exit 3"), false, &c), 0);
	assert_int_equal(command_release(&c), 0);
	command_abort(&c);
	assert_int_equal(command_status(wait_for(c.pid)), 3);
}

static void child_killed_while_it_waits_is_told_by_its_status(void **state)
{
	assert_int_equal(command_start(sh("exit 0"), false, &c), 0);
	kill(c.pid, SIGTERM);
	usleep(20000);
	assert_int_equal(command_release(&c), 0);
	assert_int_equal(command_status(wait_for(c.pid)), 143);
}

/* The profiler, killed in between: a grandchild of ours must end without running anything. */
static void command_is_not_run_when_the_profiler_dies(void **state)
{
	char path[] = "/tmp/rprof-test-XXXXXX", script[64], byte;
	int file = mkstemp(path), fds[2], fd_count;
	struct stat st;
	pid_t profiler;

	assert_true(file >= 0);
	snprintf(script, sizeof(script), "echo x > %s", path);
	/* Not close-on-exec: everybody who still runs holds the write end. */
	fd_count = pipe(fds);
	assert_int_equal(fd_count, 0);
	profiler = fork();
	if (!profiler) {
		close(fds[0]);
		if (!command_start(sh(script), false, &c))
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(command_status(wait_for(profiler)), 137);
	assert_int_equal(read(fds[0], &byte, 1), 0); /* until the grandchild is gone */
	close(fds[0]);
	assert_int_equal(fstat(file, &st), 0);
	assert_int_equal(st.st_size, 0);
	close(file);
	unlink(path);
}

static void signals_are_as_a_command_expects(void **state)
{
	sigset_t set, before;
	char text[64];

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN); /* as nohup does */
	signal(SIGINT, SIG_DFL); /* ignored if we are a background job of a script */
	signal(SIGQUIT, SIG_DFL);
	/* The last 31 signals: others of the C library may come ignored from who runs the test. */
	run_output("sed -n 's/^Sig\\(Blk\\|Ign\\):.*\\(.\\{8\\}\\)$/0x\\2/p' /proc/self/status | "
		   "while read -r m; do printf '%08x ' $((m & 0x7fffffff)); done",
		   text, sizeof(text));
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	assert_string_equal(text, "00000000 00000001 ");
}

static void command_gets_no_descriptor_of_ours(void **state)
{
	static const char script[] = "ls /proc/self/fd | wc -l";
	char text[32], expected[32] = "";
	FILE *f = popen(script, "r"); /* what our caller left open counts in both */

	assert_non_null(f);
	assert_non_null(fgets(expected, sizeof(expected), f));
	pclose(f);
	expected[strcspn(expected, "\n")] = '\0';
	run_output(script, text, sizeof(text));
	assert_string_equal(text, expected);
}

static void command_becomes_who_called_sudo(void **state)
{
	char text[128];

	setenv("SUDO_UID", "1", 1); /* daemon: in every Debian, and on most systems */
	setenv("SUDO_GID", "1", 1);
	run_output("echo $(id -u) $(id -g) $(id -G) $USER $LOGNAME", text, sizeof(text));
	if (getuid() == 0)
		assert_string_equal(text, "1 1 1 daemon daemon");
	else
		assert_int_equal(atoi(text), getuid());
}

static void unknown_user_gets_no_name_and_no_home(void **state)
{
	char text[128];

	setenv("SUDO_UID", "3000000000", 1);
	setenv("SUDO_GID", "3000000001", 1);
	run_output("echo $(id -u) $(id -g) $(id -G) ${USER-none} ${HOME-none}", text, sizeof(text));
	if (getuid() == 0)
		assert_string_equal(text, "3000000000 3000000001 3000000001 none none");
}

static void as_root_stays_root(void **state)
{
	int wstatus;

	setenv("SUDO_UID", "1", 1);
	setenv("SUDO_GID", "1", 1);
	assert_int_equal(command_start(sh("exit $(($(id -u) == 1))"), true, &c), 0);
	assert_int_equal(command_release(&c), 0);
	wstatus = wait_for(c.pid);
	assert_int_equal(command_status(wstatus), getuid() == 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, setup)
	const struct CMUnitTest tests[] = {
		TEST(status_is_passed_on),
		TEST(nothing_runs_before_the_release),
		TEST(pid_is_the_commands),
		TEST(missing_command_is_127),
		TEST(missing_command_is_127_with_a_locked_folder_in_path),
		TEST(file_that_cannot_be_run_is_126),
		TEST(script_without_interpreter_line_runs_as_in_a_shell),
		TEST(abort_leaves_no_child),
		TEST(abort_after_release_leaves_the_command_alone),
		TEST(child_killed_while_it_waits_is_told_by_its_status),
		TEST(command_is_not_run_when_the_profiler_dies),
		TEST(signals_are_as_a_command_expects),
		TEST(command_gets_no_descriptor_of_ours),
		TEST(command_becomes_who_called_sudo),
		TEST(unknown_user_gets_no_name_and_no_home),
		TEST(as_root_stays_root),
	};

	if (!freopen("/dev/null", "w", stderr))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
