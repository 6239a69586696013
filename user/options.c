// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The option table, and what makes struct options of argv by it. Pure: no output, no exit, no look
 * at the system. --help is made from the same table (options_help.c).
 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "escape.h"
#include "options_table.h"
#include "quantity.h"
#include "writer.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define DEFAULT_HZ 99 /* not a divisor of what timers do: no lockstep with 100 Hz activity */

#define HINT_TARGET                                                                                \
	"nothing to sample: give a process (sudo rprof-bpf -p PID) or a command "                  \
	"(sudo rprof-bpf -- COMMAND)"

/* Values are shown up to here; an error stays one readable line. */
#define VALUE_SHOWN 48

/* Subcommands and options that are planned, so that their error is not "unknown". */
static const char *const later_commands[] = { "dump", "top", "report", "diff" };
static const char *const later_options[] = {
	"--mode", "--cgroup", "-i", "--idle", "-g", "--gil",
};

static bool in_list(const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!strcmp(word, list[i]))
			return true;
	}
	return false;
}

/* Sets the error, once: the first is the one that matters. Always -EINVAL. */
static int __attribute__((format(printf, 2, 3))) fail(struct options *o, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (vsnprintf(o->error, sizeof(o->error), fmt, args) >= (int)sizeof(o->error))
		memcpy(o->error + sizeof(o->error) - 4, "...", 4);
	va_end(args);
	return -EINVAL;
}

/* what "value": allowed -- the form of every error about a value. */
static int fail_value(struct options *o, const char *what, const char *value, const char *allowed)
{
	size_t len = strlen(value), shown = len > VALUE_SHOWN ? VALUE_SHOWN : len;
	char *text = escape_string(value, shown);
	int err;

	if (!text)
		return -ENOMEM;
	err = fail(o, "%s \"%s%s\": %s", what, text, shown < len ? "..." : "", allowed);
	free(text);
	return err;
}

/* Position of @pid in a list, or its end. Lists are short: from one command line. */
static size_t id_index(const __u32 *ids, size_t n, __u32 pid)
{
	size_t i = 0;

	while (i < n && ids[i] != pid)
		i++;
	return i;
}

static int take_ids(struct options *o, const char *what, const char *value, __u32 **ids, size_t *n)
{
	const char *rest = value;

	do {
		__u32 id, *grown;

		if (quantity_pid(&rest, &id))
			return fail_value(o, what, value, "expected " QUANTITY_PID_ALLOWED);
		if (id_index(*ids, *n, id) < *n)
			continue;
		grown = reallocarray(*ids, *n + 1, sizeof(**ids));
		if (!grown)
			return -ENOMEM;
		*ids = grown;
		grown[(*n)++] = id;
	} while (*rest);
	return 0;
}

static int take_format(struct options *o, const char *what, const char *value)
{
	char allowed[160] = "expected";
	size_t len = strlen(allowed);

	o->writer = writer_find(value);
	if (o->writer)
		return 0;

	for (size_t i = 0; writer_at(i) && len < sizeof(allowed); i++) {
		len += snprintf(allowed + len, sizeof(allowed) - len, "%s %s", i ? "," : "",
				writer_at(i)->name);
	}
	/* bcc's -f has no value, so the next word was taken for it. */
	if ((*value == '-' || isdigit((unsigned char)*value)) && len < sizeof(allowed))
		snprintf(allowed + len, sizeof(allowed) - len,
			 " (bcc's -f without a value is the default here: leave it out)");
	return fail_value(o, what, value, allowed);
}

static int take_output(struct options *o, const char *what, const char *value)
{
	if (!*value)
		return fail_value(o, what, value, "expected the name of a file, or - for stdout");
	free(o->output);
	o->output = NULL;
	if (!strcmp(value, "-"))
		return 0;
	o->output = strdup(value);
	return o->output ? 0 : -ENOMEM;
}

static int take_python(struct options *o, const char *what, const char *value)
{
	static const char *const modes[] = { "auto", "off", "require" };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		if (!strcmp(value, modes[i])) {
			o->python = i;
			return 0;
		}
	}
	return fail_value(o, what, value, "expected auto, off or require");
}

/* perf's names of what counts cycles: the first that users of it will try. */
static int take_event(struct options *o, const char *what, const char *value)
{
	static const char *const cycles[] = { "cycles", "cpu-cycles", "instructions" };
	const char *why = ARCH_NO_HARDWARE_EVENTS;

	if (!strcmp(value, "cpu-clock"))
		return 0;
	if (*why && in_list(value, cycles, ARRAY_SIZE(cycles)))
		return fail_value(o, what, value, why);
	return fail_value(o, what, value, "not in this version (cpu-clock is)");
}

static int take_value(struct options *o, int id, const char *what, const char *value)
{
	switch (id) {
	case OPT_PID:
		return take_ids(o, what, value, &o->pids, &o->n_pids);
	case OPT_TID:
		return take_ids(o, what, value, &o->tids, &o->n_tids);
	case OPT_EVENT:
		return take_event(o, what, value);
	case OPT_FREQUENCY:
		if (quantity_hz(value, &o->frequency))
			return fail_value(o, what, value, "expected " QUANTITY_HZ_ALLOWED);
		return 0;
	case OPT_DURATION:
		if (quantity_duration(value, &o->duration_ns))
			return fail_value(o, what, value, "expected " QUANTITY_DURATION_ALLOWED);
		return 0;
	case OPT_OUTPUT:
		return take_output(o, what, value);
	case OPT_FORMAT:
		return take_format(o, what, value);
	case OPT_PYTHON:
		return take_python(o, what, value);
	case OPT_MAX_LOSS:
		if (quantity_percent(value, &o->max_loss))
			return fail_value(o, what, value, "expected " QUANTITY_PERCENT_ALLOWED);
		return 0;
	default:
		return fail(o, "%s: not handled", what);
	}
}

/* Options that set a bool. */
static const struct {
	int id;
	size_t offset;
} flags[] = {
	{ OPT_ALL, offsetof(struct options, all) },
	{ OPT_SUBPROCESSES, offsetof(struct options, subprocesses) },
	{ OPT_AS_ROOT, offsetof(struct options, as_root) },
	{ OPT_KERNEL_ONLY, offsetof(struct options, kernel_only) },
	{ OPT_USER_ONLY, offsetof(struct options, user_only) },
	{ OPT_NO_NATIVE, offsetof(struct options, no_native) },
	{ OPT_NO_CACHE, offsetof(struct options, no_cache) },
	{ OPT_VERIFY, offsetof(struct options, verify) },
	{ OPT_ANNOTATE, offsetof(struct options, annotate) },
	{ OPT_THREADS, offsetof(struct options, per_thread) },
	{ OPT_FULL_FILENAMES, offsetof(struct options, full_filenames) },
	{ OPT_NO_LINES, offsetof(struct options, no_lines) },
	{ OPT_NATIVE_ALL, offsetof(struct options, native_all) },
	{ OPT_NO_DEMANGLE, offsetof(struct options, no_demangle) },
	{ OPT_INLINES, offsetof(struct options, inlines) },
	{ OPT_JSON, offsetof(struct options, json) },
	{ OPT_STATS, offsetof(struct options, stats) },
	{ OPT_QUIET, offsetof(struct options, quiet) },
};

static void take_flag(struct options *o, int id)
{
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		if (flags[i].id == id)
			*(bool *)((char *)o + flags[i].offset) = true;
	}
	if (id == OPT_VERBOSE)
		o->verbose++;
	else if (id == OPT_HELP)
		o->action = OPTIONS_HELP;
	else if (id == OPT_VERSION)
		o->action = OPTIONS_VERSION;
}

/* What popt did not understand. @word: the option as it was written */
static int fail_popt(struct options *o, int error, const char *word)
{
	const struct poptOption *row;

	if (error == POPT_ERROR_MALLOC)
		return -ENOMEM;
	row = options_row_named(word);
	if (error == POPT_ERROR_NOARG && row && row->val == OPT_FORMAT)
		return fail(o, "%s: needs a value (bcc's -f is the default here: leave it out)",
			    word);
	if (error == POPT_ERROR_NOARG && row)
		return fail(o, "%s: needs a value: %s", word, row->argDescrip);
	if (error == POPT_ERROR_BADOPT) {
		if (in_list(word, later_options, ARRAY_SIZE(later_options)))
			return fail_value(o, "option", word, "not in this version");
		return fail_value(o, "option", word, "unknown (rprof-bpf --help lists them)");
	}
	return fail_value(o, "option", word, poptStrerror(error));
}

static int parse_options(poptContext popt, struct options *o)
{
	int id;

	while ((id = poptGetNextOpt(popt)) > 0) {
		char what[64], *value;
		int err;

		if (!options_takes_value(id)) {
			take_flag(o, id);
			if (o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION)
				return 0;
			continue;
		}
		value = poptGetOptArg(popt);
		options_name(id, what, sizeof(what));
		err = value ? take_value(o, id, what, value) : -ENOMEM;
		free(value);
		if (err)
			return err;
	}
	if (id < -1)
		return fail_popt(o, id, poptBadOption(popt, POPT_BADOPTION_NOALIAS));
	return 0;
}

/* What is neither option nor value: one number as bcc's positional duration. */
static int parse_rest(poptContext popt, struct options *o)
{
	const char *word = poptGetArg(popt);
	__u64 duration_ns;
	int err;

	if (!word)
		return 0;
	err = quantity_duration(word, &duration_ns);
	if (!isdigit((unsigned char)*word) || err == -EINVAL)
		return fail_value(o, "unexpected argument", word, "put -- before a command");
	if (o->duration_ns)
		return fail_value(o, "unexpected argument", word, "there is a duration already");
	if (err)
		return fail_value(o, "duration", word, "expected " QUANTITY_DURATION_ALLOWED);
	o->duration_ns = duration_ns;

	word = poptGetArg(popt);
	if (word)
		return fail_value(o, "unexpected argument", word, "put -- before a command");
	return 0;
}

/* What "check" does not take. */
static int check_subcommand(struct options *o)
{
	if (o->n_tids || o->all || o->command || o->subprocesses)
		return fail(o, "check: expected no target but -p PID");
	if (o->duration_ns)
		return fail(o, "check: -d: it takes no duration");
	if (o->output)
		return fail(o, "check: -o: expected the shell's > FILE");
	return 0;
}

/* Options that are right alone and wrong together. */
static int check_together(struct options *o)
{
	const char *given[4];
	size_t n = 0;

	if (o->n_pids)
		given[n++] = "-p";
	if (o->n_tids)
		given[n++] = "--tid";
	if (o->all)
		given[n++] = "-a";
	if (o->command)
		given[n++] = "-- COMMAND";

	if (o->action == OPTIONS_CHECK)
		return check_subcommand(o);
	if (!n)
		return fail(o, HINT_TARGET);
	if (n > 1)
		return fail(o, "%s and %s: expected only one of -p, --tid, -a and -- COMMAND",
			    given[0], given[1]);
	if (o->kernel_only && o->user_only)
		return fail(o, "-K and -U: expected only one of them (both kinds is the default)");
	if (o->no_native && (o->kernel_only || o->native_all))
		return fail(o, "--no-native and %s: expected only one of them",
			    o->kernel_only ? "-K" : "--native-all");
	if (o->python == OPTIONS_PYTHON_OFF && (o->no_native || o->verify || o->native_all))
		return fail(o, "--python=off and %s: expected only one of them",
			    o->no_native ? "--no-native" :
			    o->verify	 ? "--verify" :
					   "--native-all");
	if (o->no_cache && o->verify)
		return fail(o, "--no-cache and --verify: expected only one of them");
	if (o->quiet && o->verbose)
		return fail(o, "-q and -v: expected only one of them");
	if (o->json)
		return fail(o, "--json: only with check");
	if (o->subprocesses && (o->all || o->n_tids))
		return fail(o, "-s: only with -p or -- COMMAND");
	if (o->as_root && !o->command)
		return fail(o, "--as-root: only with -- COMMAND");
	return 0;
}

static int parse(poptContext popt, struct options *o)
{
	int err = parse_options(popt, o);

	if (err || o->action == OPTIONS_HELP || o->action == OPTIONS_VERSION)
		return err;
	err = parse_rest(popt, o);
	if (err)
		return err;
	return check_together(o);
}

/* A subcommand word in front is skipped: returns how many words to skip, or -EINVAL. */
static int parse_subcommand(int argc, char **argv, struct options *o)
{
	if (argc < 2)
		return 0;
	if (in_list(argv[1], later_commands, ARRAY_SIZE(later_commands)))
		return fail_value(o, "subcommand", argv[1],
				  "not in this version (record and check are)");
	if (!strcmp(argv[1], "check")) {
		o->action = OPTIONS_CHECK;
		return 1;
	}
	return !strcmp(argv[1], "record");
}

/* Number of words before the first "--"; popt would not say whether a word stood behind it. */
static int words_before_command(int argc, char **argv)
{
	int n = 0;

	while (n < argc && strcmp(argv[n], "--"))
		n++;
	return n;
}

static int parse_words(int argc, char **argv, struct options *o)
{
	poptContext popt;
	const char **words;
	int n, skip, err;

	*o = (struct options){
		.frequency = DEFAULT_HZ,
		.max_loss = -1,
		.writer = writer_at(0),
	};
	skip = parse_subcommand(argc, argv, o);
	if (skip < 0)
		return skip;

	n = words_before_command(argc, argv);
	if (n < argc) {
		if (n + 1 == argc)
			return fail(o, "--: expected a command behind it");
		o->command = argv + n + 1;
	}

	/* A copy, because popt wants argv[0] in front and NULL behind. */
	words = calloc(n + 2, sizeof(*words));
	if (!words)
		return -ENOMEM;
	words[0] = "rprof-bpf";
	for (int i = 1 + skip; i < n; i++)
		words[i - skip] = argv[i];

	popt = poptGetContext(NULL, n > skip ? n - skip : 1, words, options_table, 0);
	err = popt ? parse(popt, o) : -ENOMEM;
	poptFreeContext(popt);
	free(words);
	return err;
}

int options_parse(int argc, char **argv, struct options *o)
{
	int err = parse_words(argc, argv, o);

	if (err == -ENOMEM)
		fail(o, "command line: out of memory (free some, or raise ulimit -v)");
	return err;
}

void options_fini(struct options *o)
{
	free(o->pids);
	free(o->tids);
	free(o->output);
	*o = (struct options){ 0 };
}
