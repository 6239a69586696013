/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The command line as data. Parsing is pure: it never prints, exits or looks at the system (but
 * popt obeys POSIXLY_CORRECT).
 */
#ifndef RPROF_OPTIONS_H
#define RPROF_OPTIONS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct writer;

enum options_action {
	OPTIONS_RECORD,
	OPTIONS_HELP,
	OPTIONS_VERSION,
	OPTIONS_CHECK,
};

enum options_python {
	OPTIONS_PYTHON_AUTO,
	OPTIONS_PYTHON_OFF,
	OPTIONS_PYTHON_REQUIRE,		/* an interpreter that cannot be read is an error */
};

struct options {
	enum options_action action;
	__u32 *pids;			/* -p, in order, no duplicates */
	size_t n_pids;
	__u32 *tids;			/* --tid, -L */
	size_t n_tids;
	bool all;			/* -a */
	bool subprocesses;		/* -s */
	__u32 frequency;		/* Hz, 1 .. QUANTITY_HZ_MAX; default 99 */
	__u64 duration_ns;		/* 0: until stopped */
	char *output;			/* -o; NULL: stdout, which "-o -" means too */
	const struct writer *writer;	/* -f; never NULL */
	bool kernel_only, user_only, annotate, per_thread;
	int verbose;			/* number of -v */
	bool quiet, stats, as_root;
	bool no_demangle, inlines;
	enum options_python python;
	bool no_native, native_all;	/* of user frames: Python alone; the interpreter's own, too */
	bool full_filenames, no_lines;
	bool no_cache, verify;
	bool json;			/* check --json */
	double max_loss;		/* percent; < 0: not given */
	char **command;			/* NULL-terminated, the end of argv; NULL if none */
	char error[256];		/* one line when options_parse() fails */
};

/*
 * options_parse() - argv to struct options.
 * @argv: not changed; ends with NULL as main()'s does; @o->command borrows its end
 * @o: need not be initialized; options_fini() frees it, also after a failure
 *
 * -h and -V end the parsing: what stands behind them is not looked at.
 * Return: 0; -EINVAL with o->error set: which option, which value, what is allowed; -ENOMEM.
 */
int options_parse(int argc, char **argv, struct options *o);
void options_fini(struct options *o);

/* Text of --help: malloc'd, made from the option table, 80 columns; NULL: out of memory. */
char *options_help(void);

/* "rprof-bpf 0.1.0" */
const char *options_version(void);

#endif
