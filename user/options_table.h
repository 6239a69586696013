/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The table of options, which options.c parses by and options_help.c prints. No one else's. */
#ifndef RPROF_OPTIONS_TABLE_H
#define RPROF_OPTIONS_TABLE_H

#include <popt.h>
#include <stdbool.h>
#include <stddef.h>

/* Ids of options: what poptGetNextOpt() returns. */
enum option_id {
	OPT_PID = 1,
	OPT_TID,
	OPT_ALL,
	OPT_SUBPROCESSES,
	OPT_AS_ROOT,
	OPT_EVENT,
	OPT_FREQUENCY,
	OPT_DURATION,
	OPT_KERNEL_ONLY,
	OPT_USER_ONLY,
	OPT_NO_NATIVE,
	OPT_PYTHON,
	OPT_NO_CACHE,
	OPT_VERIFY,
	OPT_OUTPUT,
	OPT_FORMAT,
	OPT_ANNOTATE,
	OPT_THREADS,
	OPT_FULL_FILENAMES,
	OPT_NO_LINES,
	OPT_NATIVE_ALL,
	OPT_NO_DEMANGLE,
	OPT_INLINES,
	OPT_JSON,
	OPT_STATS,
	OPT_MAX_LOSS,
	OPT_VERBOSE,
	OPT_QUIET,
	OPT_HELP,
	OPT_VERSION,
};

/* Groups, each a row that includes a table of rows; .descrip is the heading of the group. */
extern struct poptOption options_table[];

bool options_takes_value(int id);

/* "-F, --frequency" for an id: its first row's names. */
void options_name(int id, char *buf, size_t size);

/* The row for an option as it is written ("-F", "--rate"), or NULL. */
const struct poptOption *options_row_named(const char *word);

#endif
