// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* --help, the man page and the completion must not forget an option. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "options.h"
#include "options_table.h"
#include "writer.h"

static char *help;

static int setup(void **state)
{
	help = options_help();
	return !help;
}

static int teardown(void **state)
{
	free(help);
	return 0;
}

/* A file of the source tree, found from where this test's source is. */
static char *read_source(const char *name)
{
	char path[512], *text = calloc(1, 1 << 16);
	const char *slash = strrchr(__FILE__, '/');
	FILE *f;

	assert_non_null(text);
	snprintf(path, sizeof(path), "%.*s/../../user/%s", slash ? (int)(slash - __FILE__) : 1,
		 slash ? __FILE__ : ".", name);
	f = fopen(path, "r");
	if (!f)
		fail_msg("%s: cannot be read; run the test in the top folder", path);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

static void for_each_row(void (*visit)(const struct poptOption *, const char *), const char *text)
{
	for (const struct poptOption *group = options_table; group->arg; group++) {
		for (const struct poptOption *row = group->arg; row->longName; row++)
			visit(row, text);
	}
}

static void assert_help_has(const struct poptOption *row, const char *text)
{
	char name[64];

	snprintf(name, sizeof(name), "--%s", row->longName);
	if (!strstr(text, name))
		fail_msg("--help lacks %s", name);
	assert_true(row->descrip || (row->argInfo & POPT_ARGFLAG_DOC_HIDDEN));
}

static void help_has_every_option(void **state)
{
	for_each_row(assert_help_has, help);
	assert_non_null(strstr(help, "-- COMMAND"));
	for (size_t i = 0; writer_at(i); i++)
		assert_non_null(strstr(help, writer_at(i)->help));
}

static void help_begins_with_examples_and_fits_80_columns(void **state)
{
	const char *line = help;

	assert_true(strstr(help, "Examples:") < strstr(help, "--pid"));
	while (*line) {
		size_t len = strcspn(line, "\n");

		if (len >= 80)
			fail_msg("too long: %.*s", (int)len, line);
		assert_null(memchr(line, '\t', len));
		assert_true(len == 0 || line[len - 1] != ' ');
		line += len + 1;
	}
}

static void assert_man_has(const struct poptOption *row, const char *text)
{
	char name[64];

	/* mdoc: .It Fl p , Fl Fl pid Ar PID */
	snprintf(name, sizeof(name), "Fl Fl %s", row->longName);
	if (!strstr(text, name))
		fail_msg("rprof-bpf.8 lacks %s", name);
	if (!row->shortName)
		return;
	snprintf(name, sizeof(name), ".It Fl %c ,", row->shortName);
	if (!strstr(text, name))
		fail_msg("rprof-bpf.8 lacks %s", name);
}

static void man_page_has_every_option_and_format(void **state)
{
	char *man = read_source("rprof-bpf.8");

	for_each_row(assert_man_has, man);
	for (size_t i = 0; writer_at(i); i++)
		assert_non_null(strstr(man, writer_at(i)->name));
	free(man);
}

static void assert_completion_has(const struct poptOption *row, const char *text)
{
	char name[64];

	snprintf(name, sizeof(name), "--%s ", row->longName);
	if (!strstr(text, name))
		fail_msg("rprof-bpf.bash-completion lacks %s", name);
}

static void completion_has_every_long_option_and_format(void **state)
{
	char *completion = read_source("rprof-bpf.bash-completion");

	for_each_row(assert_completion_has, completion);
	for (size_t i = 0; writer_at(i); i++)
		assert_non_null(strstr(completion, writer_at(i)->name));
	free(completion);
}

static void names_are_unique(void **state)
{
	for (const struct poptOption *g = options_table; g->arg; g++) {
		for (const struct poptOption *row = g->arg; row->longName; row++) {
			char name[64];

			snprintf(name, sizeof(name), "--%s", row->longName);
			assert_ptr_equal(options_row_named(name), row);
			snprintf(name, sizeof(name), "-%c", row->shortName);
			if (row->shortName)
				assert_ptr_equal(options_row_named(name), row);
		}
	}
	assert_null(options_row_named("--"));
	assert_null(options_row_named("-"));
	assert_null(options_row_named("pid"));
}

static void version_has_the_programs_name(void **state)
{
	assert_int_equal(strncmp(options_version(), "rprof-bpf ", 10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(help_has_every_option),
		cmocka_unit_test(help_begins_with_examples_and_fits_80_columns),
		cmocka_unit_test(man_page_has_every_option_and_format),
		cmocka_unit_test(completion_has_every_long_option_and_format),
		cmocka_unit_test(names_are_unique),
		cmocka_unit_test(version_has_the_programs_name),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
