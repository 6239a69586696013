/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small ELF files for tests, made by the compiler that made the test. All abort on failure. */
#ifndef RPROF_TESTS_COMPILE_H
#define RPROF_TESTS_COMPILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A directory of our own under TMPDIR; removed at exit, with what is in it. */
static char compile_dir[256];

static void compile_cleanup(void)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", compile_dir);
	if (system(command))
		perror(command);
}

static const char *compile_path(const char *name)
{
	static char path[4][512];
	static unsigned int turn;
	const char *tmp = getenv("TMPDIR");

	if (!compile_dir[0]) {
		snprintf(compile_dir, sizeof(compile_dir), "%s/rprof-test-XXXXXX",
			 tmp ? tmp : "/tmp");
		if (!mkdtemp(compile_dir))
			abort();
		atexit(compile_cleanup);
	}
	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", compile_dir, name);
	return path[turn];
}

__attribute__((format(printf, 1, 2), unused)) static void shell(const char *fmt, ...)
{
	char command[2048];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	if (system(command)) {
		fprintf(stderr, "failed: %s\n", command);
		abort();
	}
}

/* Where tools of this machine find a file of the machine that this runs on: tests/qemu-user. */
__attribute__((unused)) static const char *tools_path(const char *path)
{
	static char whole[512];
	const char *sysroot = getenv("RPROF_SYSROOT");

	snprintf(whole, sizeof(whole), "%s%s", sysroot ? sysroot : "", path);
	return whole;
}

/* Compile @source, C or (@language "assembler") assembly, with @flags; returns the file's path. */
__attribute__((unused)) static const char *compile(const char *name, const char *language,
						   const char *source, const char *flags)
{
	const char *path = compile_path(name);
	char command[1024];
	FILE *cc;

	snprintf(command, sizeof(command), "${CC:-gcc} -x %s - %s -o '%s'", language, flags, path);
	cc = popen(command, "w");
	if (!cc || fputs(source, cc) < 0 || pclose(cc)) {
		fprintf(stderr, "failed: %s\n", command);
		abort();
	}
	return path;
}

#endif
