// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* rprof-bpf: options -> run -> exit code. What happens in a run: profiler.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "inline_worker.h"
#include "log.h"
#include "options.h"
#include "preflight.h"
#include "profiler.h"
#include "signals.h"

static void set_log_level(const struct options *o)
{
	if (o->quiet)
		log_set_level(LOG_ERROR);
	else if (o->verbose)
		log_set_level(o->verbose > 1 ? LOG_TRACE : LOG_DEBUG);
}

/* Text that was asked for goes to stdout. */
static int print(const char *text)
{
	if (!text || fputs(text, stdout) < 0 || fflush(stdout)) {
		log_error("cannot write to standard output");
		return EXIT_ERROR;
	}
	return EXIT_OK;
}

static int run(const struct options *o)
{
	char *help;
	int code;

	switch (o->action) {
	case OPTIONS_HELP:
		help = options_help();
		code = print(help);
		free(help);
		return code;
	case OPTIONS_VERSION:
		code = print(options_version());
		return code ? code : print("\n");
	case OPTIONS_CHECK:
		return check_run(o);
	case OPTIONS_RECORD:
		return profiler_run(o);
	}
	return EXIT_ERROR;
}

int main(int argc, char **argv)
{
	struct options o;
	int code, err;

	if (inline_worker_wanted(argc, argv))
		return inline_worker_run();
	preflight_std_fds();
	if (signals_init())
		return EXIT_ERROR;
	err = options_parse(argc, argv, &o);
	if (err) {
		log_error("%s", o.error);
		code = err == -ENOMEM ? EXIT_ERROR : EXIT_USAGE;
	} else {
		set_log_level(&o);
		code = run(&o);
	}
	options_fini(&o);
	return code;
}
