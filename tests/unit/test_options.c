// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"
#include "writer.h"

#define MAX_WORDS 32

static struct options o;

static int teardown(void **state)
{
	options_fini(&o);
	return 0;
}

/* The words of @line, cut at blanks, behind a program name. The strings live until the next call. */
static int parse(const char *line)
{
	static char text[8192];
	static char *argv[MAX_WORDS + 2];
	int argc = 0;

	options_fini(&o);
	strncpy(text, line, sizeof(text) - 1);
	argv[argc++] = (char *)"rprof-bpf";
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
		assert_true(argc <= MAX_WORDS);
		argv[argc++] = word;
	}
	argv[argc] = NULL;
	return options_parse(argc, argv, &o);
}

static void assert_good(const char *line)
{
	if (parse(line))
		fail_msg("%s: %s", line, o.error);
}

static void assert_error(const char *line, const char *error)
{
	assert_int_equal(parse(line), -EINVAL);
	assert_string_equal(o.error, error);
}

static void defaults_are_99_hz_until_stopped_folded_on_stdout(void **state)
{
	assert_good("-p 1");
	assert_int_equal(o.action, OPTIONS_RECORD);
	assert_int_equal(o.frequency, 99);
	assert_true(o.duration_ns == 0);
	assert_null(o.output);
	assert_ptr_equal(o.writer, &writer_folded);
	assert_true(o.max_loss < 0);
	assert_false(o.all || o.kernel_only || o.user_only || o.annotate || o.per_thread);
	assert_false(o.quiet || o.stats || o.as_root);
	assert_int_equal(o.verbose, 0);
	assert_null(o.command);
}

static void pids_come_in_lists_and_again_without_duplicates(void **state)
{
	static const __u32 expected[] = { 3, 1, 2, 7 };

	assert_good("-p 3,1,3 --pid 2 --pid=1 -p7");
	assert_int_equal(o.n_pids, 4);
	assert_memory_equal(o.pids, expected, sizeof(expected));
	assert_int_equal(o.n_tids, 0);
}

static void tids_have_two_names(void **state)
{
	static const __u32 expected[] = { 5, 6, 8 };

	assert_good("--tid 5,6 -L 8");
	assert_int_equal(o.n_tids, 3);
	assert_memory_equal(o.tids, expected, sizeof(expected));
}

static void every_option_is_taken(void **state)
{
	assert_good("record -a -F 1khz -d 5m -o out.folded -f folded -K --annotate -t -vv --stats "
		    "--max-loss 2.5");
	assert_true(o.all && o.kernel_only && o.annotate && o.per_thread && o.stats);
	assert_int_equal(o.frequency, 1000);
	assert_true(o.duration_ns == 300000000000ull);
	assert_string_equal(o.output, "out.folded");
	assert_int_equal(o.verbose, 2);
	assert_true(o.max_loss == 2.5);

	assert_good("--all --user-only --quiet --rate 10");
	assert_true(o.all && o.user_only && o.quiet);
	assert_int_equal(o.frequency, 10);

	assert_good("-Utp1 -r4.5k");
	assert_true(o.user_only && o.per_thread);
	assert_int_equal(o.frequency, 4500);
	assert_int_equal(o.pids[0], 1);
}

static void last_value_wins(void **state)
{
	assert_good("-p 1 -F 10 -r 20 -o a -o b -d 1 -d 2");
	assert_int_equal(o.frequency, 20);
	assert_string_equal(o.output, "b");
	assert_true(o.duration_ns == 2000000000ull);
	assert_good("-p 1 -o a -o -");
	assert_null(o.output);
}

static void command_is_everything_behind_the_dashes(void **state)
{
	assert_good("-F 10 --as-root -- make -j4 -- -p 1 --help");
	assert_true(o.as_root);
	assert_string_equal(o.command[0], "make");
	assert_string_equal(o.command[1], "-j4");
	assert_string_equal(o.command[2], "--");
	assert_string_equal(o.command[5], "--help");
	assert_null(o.command[6]);
	assert_int_equal(o.n_pids, 0);
	assert_int_equal(o.action, OPTIONS_RECORD);
}

static void lone_number_is_bccs_duration(void **state)
{
	assert_good("-p 1 5");
	assert_true(o.duration_ns == 5000000000ull);
	assert_good("30s -a");
	assert_true(o.duration_ns == 30000000000ull);
	assert_error("-p 1 -d 2 5", "unexpected argument \"5\": there is a duration already");
	assert_error("-p 1 5 6", "unexpected argument \"6\": put -- before a command");
	assert_error("-p 1 0", "duration \"0\": expected 1ms to 1000d, as 30, 30s, 500ms, 5m, 1h "
			       "or 2d");
}

static void command_without_dashes_is_refused(void **state)
{
	assert_error("sleep 5", "unexpected argument \"sleep\": put -- before a command");
	assert_error("-p 1 7z", "unexpected argument \"7z\": put -- before a command");
	assert_error("-p 1 -", "unexpected argument \"-\": put -- before a command");
	assert_error("--", "--: expected a command behind it");
	assert_error("-p 1 --", "--: expected a command behind it");
}

static void exactly_one_target_must_be_given(void **state)
{
	static const char none[] =
		"nothing to sample: give a process (sudo rprof-bpf -p PID) or a command "
		"(sudo rprof-bpf -- COMMAND)";

	assert_error("", none);
	assert_error("record", none);
	assert_error("-F 99", none);
	assert_error("-p 1 -a", "-p and -a: expected only one of -p, --tid, -a and -- COMMAND");
	assert_error("--tid 1 -p 1",
		     "-p and --tid: expected only one of -p, --tid, -a and -- COMMAND");
	assert_error("-a -- ls",
		     "-a and -- COMMAND: expected only one of -p, --tid, -a and -- COMMAND");
}

static void contradictions_are_refused(void **state)
{
	assert_error("-KUp1", "-K and -U: expected only one of them (both kinds is the default)");
	assert_error("-qvp1", "-q and -v: expected only one of them");
	assert_error("-p 1 --as-root", "--as-root: only with -- COMMAND");
}

static void bad_values_are_named_with_what_is_allowed(void **state)
{
	static const char pids[] = "expected numbers from 1 to 4194304, separated by commas";
	static const char hz[] = "expected 1 to 100000 a second, as 99, 997hz or 4.5khz";
	static const struct {
		const char *line, *what, *allowed;
	} bad[] = {
		{ "-p 0", "-p, --pid \"0\"", pids },
		{ "-p -5", "-p, --pid \"-5\"", pids },
		{ "--pid=4194305", "-p, --pid \"4194305\"", pids },
		{ "-p 1,,2", "-p, --pid \"1,,2\"", pids },
		{ "-p app", "-p, --pid \"app\"", pids },
		{ "-L 0", "-L, --tid \"0\"", pids },
		{ "-a -F 0", "-F, --frequency \"0\"", hz },
		{ "-a -F -1", "-F, --frequency \"-1\"", hz },
		{ "-a -F 1000000000", "-F, --frequency \"1000000000\"", hz },
		{ "-a -r nan", "-F, --frequency \"nan\"", hz },
		{ "-a -d 0", "-d, --duration \"0\"",
		  "expected 1ms to 1000d, as 30, 30s, 500ms, 5m, 1h or 2d" },
		{ "-a -d -1", "-d, --duration \"-1\"",
		  "expected 1ms to 1000d, as 30, 30s, 500ms, 5m, 1h or 2d" },
		{ "-a --max-loss 101", "--max-loss \"101\"", "expected 0 to 100, as 5, 0.5 or 5%" },
		{ "-a -o=", "-o, --output \"\"", "expected the name of a file, or - for stdout" },
		{ "-a -f svg", "-f, --format \"svg\"", "expected folded" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char error[256];

		snprintf(error, sizeof(error), "%s: %s", bad[i].what, bad[i].allowed);
		assert_error(bad[i].line, error);
	}
}

static void bare_format_of_bcc_is_explained(void **state)
{
	assert_error("-p 1 -f", "-f: needs a value (bcc's -f is the default here: leave it out)");
	assert_error("-f -p 1", "-f, --format \"-p\": expected folded (bcc's -f without a value is "
				"the default here: leave it out)");
	assert_error("-p 1 -f 5",
		     "-f, --format \"5\": expected folded (bcc's -f without a value is "
		     "the default here: leave it out)");
}

static void only_cpu_clock_is_sampled(void **state)
{
	assert_int_equal(parse("-p 1 -e cpu-clock"), 0);
	assert_error("-p 1 -e", "-e: needs a value: EVENT");
#if defined(__s390x__)
	assert_error("-p 1 --event cycles",
		     "-e, --event \"cycles\": the hardware sampler of s390x tells no registers but "
		     "the program counter, so no stack: cpu-clock does");
#else
	assert_error("-p 1 --event cycles",
		     "-e, --event \"cycles\": not in this version (cpu-clock is)");
#endif
}

static void options_we_do_not_have_are_named(void **state)
{
	assert_error("-p 1 --bogus", "option \"--bogus\": unknown (rprof-bpf --help lists them)");
	assert_error("-p 1 -Z", "option \"-Z\": unknown (rprof-bpf --help lists them)");
	assert_error("-p 1 -e page-faults",
		     "-e, --event \"page-faults\": not in this version (cpu-clock is)");
	assert_error("-p 1 --mode wall", "option \"--mode\": not in this version");
	assert_error("dump -p 1",
		     "subcommand \"dump\": not in this version (record and check are)");
	assert_error("-a -s", "-s: only with -p or -- COMMAND");
	assert_error("-a --json", "--json: only with check");
	assert_error("check -a", "check: expected no target but -p PID");
	assert_error("-p", "-p: needs a value: PID[,PID]");
	assert_error("-a --rate", "--rate: needs a value: HZ");
	assert_int_equal(parse("-p 1 --all=yes"), -EINVAL);
}

static void errors_are_one_printable_line(void **state)
{
	char line[6000] = "-p ";

	memset(line + 3, '9', sizeof(line) - 4);
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(parse(line), -EINVAL);
	assert_non_null(strstr(o.error, "999...\": expected numbers"));

	memset(line + 3, '\n', sizeof(line) - 4);
	memcpy(line, "--f", 3);
	assert_int_equal(parse(line), -EINVAL);
	assert_null(strpbrk(o.error, "\n\x1b"));
	assert_true(strlen(o.error) < sizeof(o.error));

	assert_error("-F \x1b[31m\n -a", "-F, --frequency \"\\x1b[31m\\x0a\": expected 1 to 100000 "
					 "a second, as 99, 997hz or 4.5khz");
}

static void help_and_version_need_no_target(void **state)
{
	assert_good("--help");
	assert_int_equal(o.action, OPTIONS_HELP);
	assert_good("-h");
	assert_int_equal(o.action, OPTIONS_HELP);
	assert_good("record -h --bogus");
	assert_int_equal(o.action, OPTIONS_HELP);
	assert_good("-V");
	assert_int_equal(o.action, OPTIONS_VERSION);
	assert_good("--version");
	assert_int_equal(o.action, OPTIONS_VERSION);
}

static void argv_may_be_empty(void **state)
{
	char *none[] = { NULL };
	char *dashes[] = { (char *)"--", (char *)"ls", NULL };

	assert_int_equal(options_parse(0, none, &o), -EINVAL);
	options_fini(&o);
	assert_int_equal(options_parse(2, dashes, &o), 0);
	assert_string_equal(o.command[0], "ls");
}

/* popt looks at it, as getopt() does: options end at the first word that is none. */
static void posixly_correct_is_obeyed(void **state)
{
	setenv("POSIXLY_CORRECT", "1", 1);
	assert_good("-p 1 5");
	assert_true(o.duration_ns == 5000000000ull);
	assert_error("5 -p 1", "unexpected argument \"-p\": put -- before a command");
	unsetenv("POSIXLY_CORRECT");
	assert_good("5 -p 1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_99_hz_until_stopped_folded_on_stdout),
		cmocka_unit_test(pids_come_in_lists_and_again_without_duplicates),
		cmocka_unit_test(tids_have_two_names),
		cmocka_unit_test(every_option_is_taken),
		cmocka_unit_test(last_value_wins),
		cmocka_unit_test(command_is_everything_behind_the_dashes),
		cmocka_unit_test(lone_number_is_bccs_duration),
		cmocka_unit_test(command_without_dashes_is_refused),
		cmocka_unit_test(exactly_one_target_must_be_given),
		cmocka_unit_test(contradictions_are_refused),
		cmocka_unit_test(bad_values_are_named_with_what_is_allowed),
		cmocka_unit_test(bare_format_of_bcc_is_explained),
		cmocka_unit_test(only_cpu_clock_is_sampled),
		cmocka_unit_test(options_we_do_not_have_are_named),
		cmocka_unit_test(errors_are_one_printable_line),
		cmocka_unit_test(help_and_version_need_no_target),
		cmocka_unit_test(argv_may_be_empty),
		cmocka_unit_test(posixly_correct_is_obeyed),
	};

	return cmocka_run_group_tests(tests, NULL, teardown);
}
