// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile.h"
#include "modules.h"
#include "pythons.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

/* One that was never initialized. */
#define RUNTIME(version)                                                                           \
	"long _PyRuntime[4096] __attribute__((section(\".PyRuntime\"))) = { 0, 1 };\n"             \
	"long PyCode_Type[64];\n"                                                                  \
	"const unsigned long Py_Version = " #version ";\n"

struct seen {
	struct spaces *spaces;
	struct pythons *pythons;
	struct pythons_report report;
};

static void begin(struct seen *s)
{
	s->spaces = new_spaces();
	s->pythons = pythons_new(&(struct pythons_config){ .spaces = s->spaces, .modules = m_all });
	assert_non_null(s->pythons);
}

static void finish(struct seen *s)
{
	pythons_free(s->pythons);
	free_spaces(s->spaces);
}

static enum pythons_state look(struct seen *s, pid_t pid, __u32 execs)
{
	const struct space *space;

	assert_int_equal(read_maps(s->spaces, pid, &space), 0);
	pythons_look(s->pythons, (__u32)pid, execs);
	pythons_report(s->pythons, (__u32)pid, &s->report);
	/* On a busy machine not all files are looked at in one go. */
	for (int i = 0; i < 1000 && s->report.unfinished; i++) {
		usleep(1000);
		pythons_again(s->pythons);
		pythons_report(s->pythons, (__u32)pid, &s->report);
	}
	return s->report.state;
}

/* Waits for what is tried again by and by; bounded, and longer than any doubt lasts. */
static enum pythons_state wait_for(struct seen *s, pid_t pid, enum pythons_state state)
{
	for (int i = 0; i < 1000 && s->report.state != state; i++) {
		usleep(10000);
		pythons_again(s->pythons);
		pythons_report(s->pythons, (__u32)pid, &s->report);
	}
	return s->report.state;
}

static void *load(const char *name, const char *source)
{
	void *handle = dlopen(compile(name, "c", source, "-shared -fPIC"), RTLD_NOW);

	assert_non_null(handle);
	return handle;
}

static void a_process_without_python_has_none(void **state)
{
	struct pythons_stats stats;
	struct seen s;

	begin(&s);
	assert_int_equal(look(&s, getpid(), 0), PYTHONS_NONE);
	assert_null(pythons_find(s.pythons, (__u32)getpid()));
	pythons_stats(s.pythons, &stats);
	assert_true(!stats.found && !stats.refused && !stats.waiting);
	finish(&s);
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
	static const struct {
		const char *source, *why;
	} cases[] = {
		{ "const char *PyPy_Version;", "not supported (CPython" },
		{ "int initialize_graal_capi;", "not supported (CPython" },
		{ "int PyEval_EvalFrameEx, PyString_Type;", "not supported (3.9" },
		{ "long _PyRuntime[512];", "not supported (3.9" },
	};
	struct pythons_stats stats;
	struct seen s;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char name[32];
		void *handle;

		snprintf(name, sizeof(name), "refused%zu.so", i);
		handle = load(name, cases[i].source);
		begin(&s);
		assert_int_equal(look(&s, getpid(), 0), PYTHONS_REFUSED);
		assert_non_null(strstr(s.report.tried.why, cases[i].why));
		assert_string_equal(modules_name(m_all, s.report.of.module), name);
		assert_int_equal(pythons_module(s.pythons, (__u32)getpid()), 0);
		/* Counted once, however often it is looked at. */
		look(&s, getpid(), 0);
		pythons_stats(s.pythons, &stats);
		assert_true(stats.refused == 1);
		finish(&s);
		dlclose(handle);
	}
}

/* As it is in a second mapping of libpython by ctypes. */
static void a_runtime_that_is_not_initialized_is_waited_for(void **state)
{
	void *handle = load("waiting.so", RUNTIME(0x030b02f0));
	struct pythons_stats stats;
	struct seen s;

	begin(&s);
	assert_int_equal(look(&s, getpid(), 0), PYTHONS_WAITING);
	pythons_stats(s.pythons, &stats);
	assert_true(stats.waiting == 1 && !stats.refused && !stats.found);
	dlclose(handle);
	finish(&s);
}

/* What is on stderr from here on; returned, and over, with the next call. */
static const char *messages(void)
{
	static char text[4096];
	static FILE *file;
	static int saved;
	size_t n;

	fflush(stderr);
	if (!file) {
		file = tmpfile();
		saved = dup(STDERR_FILENO);
		assert_true(file && saved >= 0);
		assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
		return NULL;
	}
	assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
	close(saved);
	rewind(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	file = NULL;
	return text;
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* One that is never initialized does not hide it: it is said after a while, or at the end. */
static void what_is_refused_beside_one_that_is_waited_for_is_said(void **state)
{
	void *waiting = load("beside.so", RUNTIME(0x030b02f0));
	void *old = load("two.so", "int PyEval_EvalFrameEx, PyString_Type;");
	const char *text;

	for (int waits = 0; waits < 2; waits++) {
		struct seen s = { .spaces = new_spaces() };
		/* Nothing is published where nothing is found. */
		const struct pythons_config config = { .session = (struct session *)&s,
						       .spaces = s.spaces,
						       .modules = m_all };

		s.pythons = pythons_new(&config);
		messages();
		assert_int_equal(look(&s, getpid(), 0), PYTHONS_WAITING);
		if (waits) {
			for (int i = 0; i < 300; i++) {
				usleep(10000);
				pythons_again(s.pythons);
			}
			text = messages();
			assert_int_equal(count(text, "Python 2 in two.so: not supported"), 1);
			messages();
		}
		finish(&s);
		text = messages();
		assert_int_equal(count(text, "Python 2 in two.so: not supported"), !waits);
		assert_int_equal(count(text, "beside.so"), 0);
	}
	dlclose(old);
	dlclose(waiting);
}

/* A process may change its mappings as often as it likes. */
static void it_is_not_tried_at_each_change(void **state)
{
	void *handle = load("soon.so", "const char *PyPy_Version;");
	bool was_late = false;
	struct seen s;

	begin(&s);
	/* Unless this test itself is stopped between two looks. */
	for (int i = 0; i < 100 && !was_late; i++) {
		assert_int_equal(look(&s, getpid(), 0), PYTHONS_REFUSED);
		dlclose(handle);
		was_late = look(&s, getpid(), 0) == PYTHONS_REFUSED;
		assert_int_equal(wait_for(&s, getpid(), PYTHONS_NONE), PYTHONS_NONE);
		usleep(100000);
		handle = dlopen(compile_path("soon.so"), RTLD_NOW);
		assert_non_null(handle);
	}
	assert_true(was_late);
	look(&s, getpid(), 0);
	assert_int_equal(wait_for(&s, getpid(), PYTHONS_REFUSED), PYTHONS_REFUSED);
	dlclose(handle);
	finish(&s);
}

/* 3.13 and later have a table: without it something is wrong, but perhaps only not mapped yet. */
static void a_runtime_without_its_table_is_refused_in_the_end(void **state)
{
	void *handle = load("doubtful.so", RUNTIME(0x030e02f0));
	struct seen s;

	begin(&s);
	assert_int_equal(look(&s, getpid(), 0), PYTHONS_WAITING);
	assert_int_equal(wait_for(&s, getpid(), PYTHONS_REFUSED), PYTHONS_REFUSED);
	assert_non_null(strstr(s.report.tried.why, "no debug offsets"));
	/* Other mappings, another look. */
	dlclose(handle);
	look(&s, getpid(), 0);
	assert_int_equal(wait_for(&s, getpid(), PYTHONS_NONE), PYTHONS_NONE);
	finish(&s);
}

static void a_version_that_is_not_known_is_refused(void **state)
{
	void *handle = load("newer.so",
			    "struct { char cookie[8]; unsigned long version, words[4094]; }\n"
			    "_PyRuntime __attribute__((section(\".PyRuntime\"))) =\n"
			    "{ \"xdebugpy\", 0x031000f0 };\n"
			    "const unsigned long Py_Version = 0x031000f0;\n");
	struct seen s;

	begin(&s);
	assert_int_equal(look(&s, getpid(), 0), PYTHONS_REFUSED);
	assert_int_equal(s.report.tried.version, 0x031000f0);
	assert_true(strlen(s.report.tried.why) > 0);
	finish(&s);
	dlclose(handle);
}

static pid_t start_python(void)
{
	static const char *const argv[] = { "python3", "-S", "-c",
					    "import time\nwhile 1: time.sleep(0.01)\n", NULL };
	pid_t pid = fork();

	if (!pid) {
		execv("/usr/bin/python3", (char *const *)argv);
		_exit(127);
	}
	return pid;
}

static void an_interpreter_that_runs_is_found(void **state)
{
	struct pythons_stats stats;
	struct seen s;
	pid_t pid;

	if (access("/usr/bin/python3", X_OK)) {
		print_message("no /usr/bin/python3\n");
		skip();
	}
	pid = start_python();
	begin(&s);
	/* It is looked at from its first instruction on. */
	s.report.state = PYTHONS_NONE;
	for (int i = 0; i < 1000 && s.report.state != PYTHONS_FOUND; i++) {
		const struct space *space;

		usleep(10000);
		if (!read_maps(s.spaces, pid, &space))
			pythons_look(s.pythons, (__u32)pid, 0);
		pythons_again(s.pythons);
		pythons_report(s.pythons, (__u32)pid, &s.report);
		assert_true(s.report.state != PYTHONS_REFUSED);
	}
	assert_int_equal(s.report.state, PYTHONS_FOUND);
	assert_true(pythons_find(s.pythons, (__u32)pid)->flags & RPROF_PYTHON_NATIVE_TID);
	assert_true(pythons_module(s.pythons, (__u32)pid) == s.report.of.module);
	pythons_stats(s.pythons, &stats);
	assert_true(stats.found == 1 && !stats.refused);
	/* Another image: found once more. */
	look(&s, pid, 1);
	assert_int_equal(wait_for(&s, pid, PYTHONS_FOUND), PYTHONS_FOUND);
	pythons_stats(s.pythons, &stats);
	assert_true(stats.found == 2);
	/* A child is what its parent is, before anybody has looked. */
	pythons_fork(s.pythons, 0x7ffffffe, (__u32)pid);
	assert_int_equal(pythons_find(s.pythons, 0x7ffffffe)->runtime,
			 pythons_find(s.pythons, (__u32)pid)->runtime);
	assert_int_equal(pythons_module(s.pythons, 0x7ffffffe), s.report.of.module);
	pythons_fork(s.pythons, 0x7ffffffd, 0x7ffffffc);
	assert_null(pythons_find(s.pythons, 0x7ffffffd));
	pythons_forget(s.pythons, (__u32)pid);
	assert_non_null(pythons_find(s.pythons, 0x7ffffffe));
	assert_null(pythons_find(s.pythons, (__u32)pid));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	finish(&s);
}

static void nothing_is_as_good_as_none(void **state)
{
	struct pythons_report report;
	struct pythons_stats stats;

	pythons_look(NULL, 1, 0);
	pythons_again(NULL);
	pythons_forget(NULL, 1);
	pythons_fork(NULL, 1, 2);
	assert_null(pythons_find(NULL, 1));
	assert_int_equal(pythons_module(NULL, 1), 0);
	pythons_report(NULL, 1, &report);
	assert_int_equal(report.state, PYTHONS_NONE);
	pythons_stats(NULL, &stats);
	assert_true(!stats.found);
	pythons_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_without_python_has_none),
		cmocka_unit_test(what_is_not_supported_is_refused_by_name),
		cmocka_unit_test(a_runtime_that_is_not_initialized_is_waited_for),
		cmocka_unit_test(what_is_refused_beside_one_that_is_waited_for_is_said),
		cmocka_unit_test(it_is_not_tried_at_each_change),
		cmocka_unit_test(a_runtime_without_its_table_is_refused_in_the_end),
		cmocka_unit_test(a_version_that_is_not_known_is_refused),
		cmocka_unit_test(an_interpreter_that_runs_is_found),
		cmocka_unit_test(nothing_is_as_good_as_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
