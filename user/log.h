/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages for people, on stderr: "rprof-bpf: what: object: why (what to do)". A message is one
 * line; if it has more, each gets the prefix. Text from a target is escaped by the caller.
 */
#ifndef RPROF_LOG_H
#define RPROF_LOG_H

#include <stdarg.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

/*
 * Messages above this level are not printed.
 * -q: LOG_ERROR, default LOG_INFO, -v: LOG_DEBUG, -vv: LOG_TRACE.
 */
void log_set_level(enum log_level level);
enum log_level log_level(void);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_msg(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)
#define log_trace(...) log_msg(LOG_TRACE, __VA_ARGS__)

/*
 * The progress line: one line that is rewritten in place, clipped to the terminal's width. Nothing
 * is printed where stderr is no terminal, below LOG_INFO, or with TERM=dumb. A message takes the
 * line away first; whoever writes to a stdout that may be the same terminal calls
 * log_progress_clear() first.
 */
void log_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_progress_clear(void);

/*
 * For libbpf_set_print(). libbpf's own messages come one level lower than it means them, so that
 * nobody meets them without -v: what fails is reported by us, with the remedy.
 * @level: enum libbpf_print_level, an unsigned int
 */
int log_libbpf(unsigned int level, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

#endif
