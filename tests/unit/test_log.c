// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <cmocka.h>

#include "log.h"

static int saved_stderr, reader;
static char text[4096];

static void redirect(int to, int from)
{
	log_set_level(LOG_INFO);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(saved_stderr >= 0 && dup2(to, STDERR_FILENO) >= 0);
	close(to);
	reader = from;
}

static void capture_pipe(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	redirect(fds[1], fds[0]);
}

static void capture_terminal(unsigned short columns)
{
	struct winsize size = { .ws_row = 24, .ws_col = columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), terminal;
	struct termios t;

	assert_true(master >= 0);
	assert_int_equal(grantpt(master), 0);
	assert_int_equal(unlockpt(master), 0);
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
	assert_true(terminal >= 0);
	assert_int_equal(tcgetattr(terminal, &t), 0);
	cfmakeraw(&t);
	assert_int_equal(tcsetattr(terminal, TCSANOW, &t), 0);
	assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
	setenv("TERM", "xterm", 1);
	redirect(terminal, master);
}

/*
 * Ends the capture; what was printed is in text. The other end is closed first: then the reader gets
 * everything and an end (0 of a pipe, EIO of a terminal), however the kernel cuts it.
 */
static void end_capture(void)
{
	size_t len = 0;
	ssize_t n;

	fflush(stderr);
	assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
	close(saved_stderr);
	do {
		n = read(reader, text + len, sizeof(text) - 1 - len);
		len += n > 0 ? n : 0;
	} while (n > 0);
	text[len] = '\0';
	close(reader);
}

static int __attribute__((format(printf, 2, 3)))
from_libbpf(unsigned int level, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = log_libbpf(level, fmt, args);
	va_end(args);
	return n;
}

static void messages_above_the_level_are_not_printed(void **state)
{
	capture_pipe();
	log_error("e%d", 1);
	log_warn("w");
	log_info("i");
	log_debug("d");
	log_trace("t");
	log_set_level(LOG_ERROR);
	log_error("e2");
	log_warn("w2");
	log_set_level(LOG_TRACE);
	log_debug("d3");
	log_trace("t3");
	end_capture();
	assert_string_equal(text, "rprof-bpf: e1\nrprof-bpf: w\nrprof-bpf: i\nrprof-bpf: e2\n"
				  "rprof-bpf: d3\nrprof-bpf: t3\n");
}

static void every_line_gets_the_prefix(void **state)
{
	capture_pipe();
	log_info("one\ntwo\n\n");
	log_info("%s", "");
	log_info("a\n\nb");
	end_capture();
	assert_string_equal(text, "rprof-bpf: one\nrprof-bpf: two\nrprof-bpf: \n"
				  "rprof-bpf: a\nrprof-bpf: \nrprof-bpf: b\n");
}

static void errno_survives_a_message(void **state)
{
	capture_pipe();
	errno = E2BIG;
	log_info("x");
	log_debug("y");
	assert_int_equal(errno, E2BIG);
	end_capture();
}

static void libbpf_is_a_level_lower(void **state)
{
	capture_pipe();
	from_libbpf(LIBBPF_WARN, "libbpf: warn %d\n", 1);
	log_set_level(LOG_DEBUG);
	from_libbpf(LIBBPF_WARN, "libbpf: warn %d\n", 2);
	from_libbpf(LIBBPF_INFO, "libbpf: info 2\n");
	log_set_level(LOG_TRACE);
	from_libbpf(LIBBPF_INFO, "libbpf: info 3\n");
	from_libbpf(LIBBPF_DEBUG, "libbpf: debug 3\n");
	end_capture();
	assert_string_equal(text, "rprof-bpf: libbpf: warn 2\nrprof-bpf: libbpf: info 3\n"
				  "rprof-bpf: libbpf: debug 3\n");
}

static void progress_is_for_terminals_only(void **state)
{
	capture_pipe();
	log_progress("%d samples", 5);
	log_progress_clear();
	end_capture();
	assert_string_equal(text, "");
}

static void progress_is_rewritten_in_place(void **state)
{
	capture_terminal(80);
	log_progress("%d samples", 5);
	log_progress("6 samples");
	log_progress_clear();
	log_progress_clear();
	end_capture();
	assert_string_equal(text, "\r5 samples\033[K\r6 samples\033[K\r\033[K");
}

static void message_takes_the_progress_line_away(void **state)
{
	capture_terminal(80);
	log_progress("5 samples");
	log_debug("not printed");
	log_info("hello");
	log_info("again");
	end_capture();
	assert_string_equal(text, "\r5 samples\033[K\r\033[Krprof-bpf: hello\nrprof-bpf: again\n");
}

static void progress_never_wraps(void **state)
{
	capture_terminal(10);
	log_progress("0123456789abcdef");
	log_progress_clear();
	end_capture();
	assert_string_equal(text, "\r012345678\033[K\r\033[K");
}

static void quiet_and_dumb_terminals_get_no_progress(void **state)
{
	capture_terminal(80);
	log_set_level(LOG_ERROR);
	log_progress("5 samples");
	log_set_level(LOG_INFO);
	setenv("TERM", "dumb", 1);
	log_progress("5 samples");
	unsetenv("TERM");
	log_progress("5 samples");
	end_capture();
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_above_the_level_are_not_printed),
		cmocka_unit_test(every_line_gets_the_prefix),
		cmocka_unit_test(errno_survives_a_message),
		cmocka_unit_test(libbpf_is_a_level_lower),
		cmocka_unit_test(progress_is_for_terminals_only),
		cmocka_unit_test(progress_is_rewritten_in_place),
		cmocka_unit_test(message_takes_the_progress_line_away),
		cmocka_unit_test(progress_never_wraps),
		cmocka_unit_test(quiet_and_dumb_terminals_get_no_progress),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
