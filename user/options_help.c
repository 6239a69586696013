// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The table of options, and --help made from it. A new option is a row here, a case in options.c,
 * a paragraph in rprof-bpf.8 and a word in rprof-bpf.bash-completion (a unit test compares them).
 */
#include "options_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "writer.h"

#ifndef RPROF_VERSION
#define RPROF_VERSION "unknown" /* the Makefile knows it */
#endif

#define FLAG POPT_ARG_NONE
#define VALUE POPT_ARG_STRING
#define HIDDEN POPT_ARGFLAG_DOC_HIDDEN /* second name of the row above it, whose text shows it */

/* A table is read by columns. */
/* clang-format off */
static struct poptOption target_rows[] = {
	{ "pid",	 'p', VALUE,		 NULL, OPT_PID,
	  "these processes, all their threads (repeatable)", "PID[,PID]" },
	{ "tid",	 'L', VALUE,		 NULL, OPT_TID,
	  "these threads (repeatable)", "TID[,TID]" },
	{ "all",	 'a', FLAG,		 NULL, OPT_ALL,
	  "everything that runs", NULL },
	{ "subprocesses", 's', FLAG,		 NULL, OPT_SUBPROCESSES,
	  "with -p or a command: the processes that they start, too", NULL },
	{ "as-root",	 0,   FLAG,		 NULL, OPT_AS_ROOT,
	  "start COMMAND as root, not as the user who called sudo", NULL },
	POPT_TABLEEND
};

static struct poptOption sampling_rows[] = {
	{ "event",	 'e', VALUE,		 NULL, OPT_EVENT,
	  "cpu-clock: samples of CPU time; the only one in this version", "EVENT" },
	{ "frequency",	 'F', VALUE,		 NULL, OPT_FREQUENCY,
	  "samples per second of CPU time; also -r, --rate; 99 if not given, 1khz, 4.5khz", "HZ" },
	{ "rate",	 'r', VALUE | HIDDEN,	 NULL, OPT_FREQUENCY, NULL, "HZ" },
	{ "duration",	 'd', VALUE,		 NULL, OPT_DURATION,
	  "stop after 30, 30s, 500ms, 5m, 1h; until Ctrl-C if not given", "TIME" },
	{ "kernel-only", 'K', FLAG,		 NULL, OPT_KERNEL_ONLY,
	  "kernel frames only", NULL },
	{ "user-only",	 'U', FLAG,		 NULL, OPT_USER_ONLY,
	  "user frames only", NULL },
	{ "no-native",	 0,   FLAG,		 NULL, OPT_NO_NATIVE,
	  "of user frames, Python's only", NULL },
	{ "python",	 0,   VALUE,		 NULL, OPT_PYTHON,
	  "auto; off: no Python frames; require: fail without", "MODE" },
	{ "no-cache",	 0,   FLAG,		 NULL, OPT_NO_CACHE,
	  "use nothing of a thread's last sample, to compare", NULL },
	{ "verify",	 0,   FLAG,		 NULL, OPT_VERIFY,
	  "walk Python frames twice, with and without, and compare", NULL },
	POPT_TABLEEND
};

static struct poptOption output_rows[] = {
	{ "output",	 'o', VALUE,		 NULL, OPT_OUTPUT,
	  "write there when all is done; stdout if not given", "FILE" },
	{ "format",	 'f', VALUE,		 NULL, OPT_FORMAT,
	  "one of the formats below", "FORMAT" },
	{ "annotate",	 0,   FLAG,		 NULL, OPT_ANNOTATE,
	  "mark kernel frames with _[k]", NULL },
	{ "threads",	 't', FLAG,		 NULL, OPT_THREADS,
	  "separate threads: comm-pid/tid", NULL },
	{ "full-filenames", 0, FLAG,		 NULL, OPT_FULL_FILENAMES,
	  "whole paths of Python files", NULL },
	{ "no-lines",	 0,   FLAG,		 NULL, OPT_NO_LINES,
	  "Python functions without line numbers", NULL },
	{ "native-all",	 0,   FLAG,		 NULL, OPT_NATIVE_ALL,
	  "show the interpreter's own C functions, too", NULL },
	{ "no-demangle", 0,   FLAG,		 NULL, OPT_NO_DEMANGLE,
	  "names of C++, Rust and D as the linker has them", NULL },
	{ "inlines",	 0,   FLAG,		 NULL, OPT_INLINES,
	  "show inlined calls, marked _[i]; needs debug information", NULL },
	{ "json",	 0,   FLAG,		 NULL, OPT_JSON,
	  "check: its findings as JSON", NULL },
	POPT_TABLEEND
};

static struct poptOption report_rows[] = {
	{ "stats",	 0,   FLAG,		 NULL, OPT_STATS,
	  "all counters at the end, on stderr", NULL },
	{ "max-loss",	 0,   VALUE,		 NULL, OPT_MAX_LOSS,
	  "exit with 4 if more of the samples were lost or missed", "PERCENT" },
	{ "verbose",	 'v', FLAG,		 NULL, OPT_VERBOSE,
	  "more messages; -vv even more", NULL },
	{ "quiet",	 'q', FLAG,		 NULL, OPT_QUIET,
	  "errors only", NULL },
	{ "help",	 'h', FLAG,		 NULL, OPT_HELP,
	  "this text", NULL },
	{ "version",	 'V', FLAG,		 NULL, OPT_VERSION,
	  "the version", NULL },
	POPT_TABLEEND
};

struct poptOption options_table[] = {
	{ NULL, 0, POPT_ARG_INCLUDE_TABLE, target_rows,   0, "What to sample (one of)", NULL },
	{ NULL, 0, POPT_ARG_INCLUDE_TABLE, sampling_rows, 0, "How to sample",		NULL },
	{ NULL, 0, POPT_ARG_INCLUDE_TABLE, output_rows,	  0, "Output",			NULL },
	{ NULL, 0, POPT_ARG_INCLUDE_TABLE, report_rows,	  0, "Messages",		NULL },
	POPT_TABLEEND
};
/* clang-format on */

static bool is_end(const struct poptOption *row)
{
	return !row->longName && !row->shortName && !row->arg;
}

/* The first row that @match accepts. */
static const struct poptOption *find_row(bool (*match)(const struct poptOption *, const void *),
					 const void *key)
{
	for (const struct poptOption *group = options_table; !is_end(group); group++) {
		for (const struct poptOption *row = group->arg; !is_end(row); row++) {
			if (match(row, key))
				return row;
		}
	}
	return NULL;
}

static bool has_id(const struct poptOption *row, const void *key)
{
	return row->val == *(const int *)key;
}

static bool has_name(const struct poptOption *row, const void *key)
{
	const char *word = key;

	if (word[0] != '-' || !word[1])
		return false;
	if (word[1] == '-')
		return row->longName && !strcmp(row->longName, word + 2);
	return row->shortName == word[1];
}

const struct poptOption *options_row_named(const char *word)
{
	return find_row(has_name, word);
}

bool options_takes_value(int id)
{
	const struct poptOption *row = find_row(has_id, &id);

	return row && (row->argInfo & POPT_ARG_MASK) == VALUE;
}

static void row_name(const struct poptOption *row, char *buf, size_t size, const char *no_short)
{
	if (row->shortName)
		snprintf(buf, size, "-%c, --%s", row->shortName, row->longName);
	else
		snprintf(buf, size, "%s--%s", no_short, row->longName);
}

void options_name(int id, char *buf, size_t size)
{
	const struct poptOption *row = find_row(has_id, &id);

	if (row)
		row_name(row, buf, size, "");
	else
		snprintf(buf, size, "option");
}

#define HELP_WIDTH 79
#define HELP_COLUMN 26 /* where the descriptions begin */

/* @text in lines that begin at @column and end before HELP_WIDTH; the first one is there already. */
static void put_wrapped(FILE *f, const char *text, int column)
{
	int room = HELP_WIDTH - column;

	while ((int)strlen(text) > room) {
		int cut = room;

		while (cut > 0 && text[cut] != ' ')
			cut--;
		if (!cut)
			break;
		fprintf(f, "%.*s\n%*s", cut, text, column, "");
		text += cut + 1;
	}
	fprintf(f, "%s\n", text);
}

static void put_row(FILE *f, const struct poptOption *row)
{
	char name[64];
	int n;

	row_name(row, name, sizeof(name), "    ");
	n = fprintf(f, "  %s%s%s", name, row->argDescrip ? " " : "",
		    row->argDescrip ? row->argDescrip : "");
	if (n >= HELP_COLUMN)
		fprintf(f, "\n%*s", HELP_COLUMN, "");
	else
		fprintf(f, "%*s", HELP_COLUMN - n, "");
	put_wrapped(f, row->descrip, HELP_COLUMN);
}

static void put_formats(FILE *f)
{
	fputs("\nFormats:\n", f);
	for (size_t i = 0; writer_at(i); i++) {
		int n = fprintf(f, "  %s", writer_at(i)->name);

		fprintf(f, "%*s", n < HELP_COLUMN ? HELP_COLUMN - n : 1, "");
		put_wrapped(f, writer_at(i)->help, HELP_COLUMN);
	}
}

static void put_help(FILE *f)
{
	fputs("Usage: rprof-bpf [record] [OPTION]... [-- COMMAND...]\n"
	      "       rprof-bpf check [-p PID] [--json]\n"
	      "Samples what runs on the CPUs; prints folded stacks on stdout.\n"
	      "\n"
	      "Examples:\n"
	      "  sudo rprof-bpf -p 1234               a process, until Ctrl-C\n"
	      "  sudo rprof-bpf -p 1234 -d 30 -o out  for 30 seconds, into a file\n"
	      "  sudo rprof-bpf -F 999 -- ./bench     a command, from its first instruction\n"
	      "  sudo rprof-bpf -a -d 5m -t           everything, for 5 minutes, by thread\n"
	      "  sudo rprof-bpf check -p 1234         what would work here, and why not\n",
	      f);
	for (const struct poptOption *group = options_table; !is_end(group); group++) {
		fprintf(f, "\n%s:\n", group->descrip);
		for (const struct poptOption *row = group->arg; !is_end(row); row++) {
			if (!(row->argInfo & HIDDEN))
				put_row(f, row);
		}
	}
	put_formats(f);
	fputs("\n"
	      "Exit status: 0 samples written, 1 error, 2 wrong usage, 3 no sample, 4 loss\n"
	      "above --max-loss; with COMMAND its own (128 + signal; 125 our error, 126 not\n"
	      "executable, 127 not found).\n",
	      f);
}

char *options_help(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	put_help(f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

const char *options_version(void)
{
	return "rprof-bpf " RPROF_VERSION;
}
