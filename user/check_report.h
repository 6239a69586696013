/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What `check` found: facts in words, each with what it means and what to do. Finding is done by the
 * other check_*.c; only here is it sorted, laid out and written.
 */
#ifndef RPROF_CHECK_REPORT_H
#define RPROF_CHECK_REPORT_H

#include <stddef.h>
#include <stdio.h>

enum check_state {
	CHECK_FINE,
	CHECK_DEGRADED,		/* it can be sampled, and something will be missing */
	CHECK_IMPOSSIBLE,	/* it cannot be sampled */
};

struct check_report;

/* NULL: out of memory. */
struct check_report *check_report_new(void);
void check_report_free(struct check_report *r);

/* check_group() - heading of the findings that are added from here on. */
void check_group(struct check_report *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * check_add() - add one finding.
 * @subject: what it is about; copied
 * @advice: what to do, copied; NULL: nothing
 * @fmt: what was found, and what that means
 *
 * Text that a target chose has gone through escape_string() before. Without memory the report is
 * marked as failed, and cannot be written.
 */
void check_add(struct check_report *r, enum check_state state, const char *subject,
	       const char *advice, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The worst state of all findings. */
enum check_state check_verdict(const struct check_report *r);

/* "fine", "degraded", "impossible": also in JSON. */
const char *check_state_name(enum check_state state);

/*
 * check_write_text(), check_write_json() - the report for people, 80 columns, in each group the
 * worst first, and the same for programs: {"verdict", "findings": [{"group", "subject", "state",
 * "text", "advice"}]}, UTF-8. Return: 0, -ENOMEM, or -EIO.
 */
int check_write_text(const struct check_report *r, FILE *f);
int check_write_json(const struct check_report *r, FILE *f);

#endif
