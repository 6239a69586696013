// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* stderr, and nothing else, is written here. The level and the progress line are the only state. */
#include "log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#define PREFIX "rprof-bpf: "
#define TO_COLUMN_0 "\r"
#define ERASE_TO_END "\033[K" /* ECMA-48 EL; every terminal but TERM=dumb knows it */

/* log_libbpf() is given to libbpf_set_print() as it is. */
_Static_assert(__builtin_types_compatible_p(__typeof__(&log_libbpf), libbpf_print_fn_t),
	       "signature of libbpf's print callback");

static enum log_level current = LOG_INFO;
static bool progress_shown;

void log_set_level(enum log_level level)
{
	current = level;
}

enum log_level log_level(void)
{
	return current;
}

void log_progress_clear(void)
{
	if (!progress_shown)
		return;
	progress_shown = false;
	fputs(TO_COLUMN_0 ERASE_TO_END, stderr);
	fflush(stderr);
}

/* One write per line: lines of several processes on one terminal must not be torn. */
static void put_lines(const char *prefix, const char *text)
{
	size_t len = strlen(text);

	while (len && text[len - 1] == '\n')
		len--;

	log_progress_clear();
	do {
		const char *newline = memchr(text, '\n', len);
		size_t n = newline ? (size_t)(newline - text) : len;

		fprintf(stderr, PREFIX "%s%.*s\n", prefix, (int)n, text);
		if (newline)
			n++;
		text += n;
		len -= n;
	} while (len);
}

static void vput(const char *prefix, const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0) {
		put_lines("", "out of memory");
		return;
	}
	put_lines(prefix, text);
	free(text);
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	int saved_errno = errno;
	va_list args;

	if (level > current)
		return;
	va_start(args, fmt);
	vput("", fmt, args);
	va_end(args);
	errno = saved_errno;
}

static bool terminal_can_rewrite(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
}

/* Columns of the terminal on stderr; a line that wraps could not be rewritten. */
static size_t terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col)
		return 80;
	return size.ws_col;
}

void log_progress(const char *fmt, ...)
{
	size_t columns;
	va_list args;
	char *text;
	int n;

	if (current < LOG_INFO || !terminal_can_rewrite())
		return;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		return;

	/* The last column stays free: some terminals wrap as soon as it is written. */
	columns = terminal_columns() - 1;
	fprintf(stderr, TO_COLUMN_0 "%.*s" ERASE_TO_END, (int)columns, text);
	fflush(stderr);
	progress_shown = true;
	free(text);
}

int log_libbpf(unsigned int level, const char *fmt, va_list args)
{
	enum log_level ours = level == LIBBPF_WARN ? LOG_DEBUG : LOG_TRACE;
	int saved_errno = errno;

	if (ours > current)
		return 0;
	vput("", fmt, args);
	errno = saved_errno;
	return 0;
}
