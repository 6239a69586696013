// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Python of a process: found, validated and tried as a run does it, but nothing is published. */
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "check_parts.h"
#include "check_report.h"
#include "escape.h"
#include "kernel.h"
#include "module.h"
#include "modules.h"
#include "monotonic.h"
#include "python_asyncio.h"
#include "python_memory.h"
#include "pythons.h"
#include "spaces.h"

#define FILES_NS 3000000000ULL	/* for looking at all files */
#define TRIES 15		/* of what does not hold up yet, */
#define PAUSE_US 20000		/* and between two */
#define MAX_INTERPRETERS 64
#define MAX_THREADS 4096	/* of one */

/* Thread states, as its lists have them now. Return: false: they do not end, or cannot be read. */
static bool count_threads(__u32 pid, const struct rprof_python *p, unsigned int *interpreters,
			  unsigned int *threads)
{
	const struct python_memory m = python_memory_of(pid);
	__u64 interp, ts;

	*interpreters = *threads = 0;
	if (!python_read(&m, p->runtime + p->runtime_interpreters, &interp, sizeof(interp)))
		return false;
	while (interp && (*interpreters)++ < MAX_INTERPRETERS) {
		unsigned int n = 0;

		if (!python_read(&m, interp + p->interp_threads, &ts, sizeof(ts)))
			return false;
		while (ts && n++ < MAX_THREADS) {
			if (!python_read(&m, ts + p->ts_next, &ts, sizeof(ts)))
				return false;
		}
		*threads += n;
		if (ts || !python_read(&m, interp + p->interp_next, &interp, sizeof(interp)))
			return false;
	}
	return !interp;
}

static void report_offsets(struct check_report *r, const struct pythons_report *p)
{
	const bool own = p->tried.python.version >= 0x030d; /* _Py_DebugOffsets came with 3.13 */
	const char *table = own ? "its own table, validated" : "the built-in table, validated";

	if (p->proved)
		check_add(r, CHECK_FINE, "Python offsets", NULL,
			  "%s; held up on %u frame%s of a running thread", table,
			  p->tried.live.frames, p->tried.live.frames == 1 ? "" : "s");
	else
		check_add(r, CHECK_FINE, "Python offsets", NULL,
			  "%s; no frame to try it on yet, which a run does later", table);
}

static void report_threads(struct check_report *r, __u32 pid, const struct pythons_report *p)
{
	unsigned int interpreters, threads;

	if (count_threads(pid, &p->tried.python, &interpreters, &threads))
		check_add(r, CHECK_FINE, "Python threads", NULL,
			  "%u thread state%s in %u interpreter%s", threads, threads == 1 ? "" : "s",
			  interpreters, interpreters == 1 ? "" : "s");
	else
		check_add(r, CHECK_FINE, "Python threads", NULL,
			  "not counted: they changed meanwhile, or are too many");
}

/* How the kernel side knows which thread state is whose: without one of both, not at all. */
static void report_identity(struct check_report *r, const struct pythons_report *p)
{
	const bool numbers = p->tried.python.ts_native_tid &&
			     (p->tried.python.flags & RPROF_PYTHON_NATIVE_TID);
	struct rprof_config kernel = { 0 };

	kernel_offsets(&kernel);
	if (kernel.task_tp)
		return;
	if (numbers)
		check_add(r, CHECK_FINE, "Python threads", NULL,
			  "known by their numbers: this kernel's place of thread pointers is not");
	else
		check_add(r, CHECK_DEGRADED, "Python threads",
			  "a kernel with CONFIG_DEBUG_INFO_BTF",
			  "this kernel's place of thread pointers is not known: no Python frames");
}

/* The tables of 3.14 and later; asyncio's may be in a file of its own that is not mapped yet. */
static void report_asyncio(struct check_report *r, __u32 pid, const struct pythons_report *p)
{
	const struct python_memory m = python_memory_of(pid);
	unsigned char table[PYTHON_ASYNCIO_SIZE], runtime[PYTHON_OFFSETS_MAX];
	struct python_asyncio asyncio;
	char why[PYTHON_WHY];

	if (p->tried.python.version < 0x030e)
		return;
	if (!p->asyncio)
		check_add(r, CHECK_FINE, "Python asyncio", NULL,
			  "no table of tasks: asyncio is not imported");
	else if (!python_read(&m, p->asyncio, table, sizeof(table)) ||
		 !python_read(&m, p->tried.python.runtime, runtime, sizeof(runtime)))
		check_add(r, CHECK_FINE, "Python asyncio", NULL,
			  "its table of tasks cannot be read");
	else if (python_asyncio_parse(table, sizeof(table), runtime, sizeof(runtime), &asyncio,
				      why))
		check_add(r, CHECK_FINE, "Python asyncio", NULL, "its table of tasks: %s", why);
	else
		check_add(r, CHECK_FINE, "Python asyncio", NULL,
			  "its table of tasks is valid; it is not used yet");
}

/* Native frames between Python frames are found where the interpreter's own frames are. */
static void report_merging(struct check_report *r, struct modules *modules, __u32 number)
{
	struct module_report report = { 0 };
	struct module *module;

	if (!modules_get(modules, number, &module) && module)
		module_report(module, &report);
	if (!report.keeps_fp_known || !report.keeps_fp)
		check_add(r, CHECK_DEGRADED, "Python and native",
			  "an interpreter that is built with " ARCH_LINK_FLAG,
			  "the interpreter keeps no " ARCH_LINK "s: Python stacks are whole, what "
			  "lies between them and native frames is not known");
	else
		check_add(r, CHECK_FINE, "Python and native", NULL,
			  "the interpreter keeps " ARCH_LINK "s: one merged stack");
}

static void report_found(struct check_report *r, __u32 pid, const struct pythons_report *p,
			 struct modules *modules, const char *version, const char *file)
{
	check_add(r, CHECK_FINE, "Python", NULL, "%s in %s%s%s", version, file,
		  p->tried.python.flags & RPROF_PYTHON_FREE_THREADED ? ", free-threaded" : "",
		  p->of.file.build.debug ? ", a debug build" : "");
	report_offsets(r, p);
	report_threads(r, pid, p);
	report_identity(r, p);
	report_asyncio(r, pid, p);
	if (p->of.file.has_jit)
		check_add(r, CHECK_FINE, "Python JIT", NULL,
			  "compiled in; lines of code that it has compiled are approximate");
	report_merging(r, modules, p->of.module);
}

static void report(struct check_report *r, __u32 pid, const struct pythons_report *p,
		   struct modules *modules)
{
	const char *name = modules_name(modules, p->of.module);
	char *file = escape_string(name, strlen(name)), version[64];

	python_version_text(p->of.file.kind, p->tried.version, version, sizeof(version));
	if (p->unfinished)
		check_add(r, CHECK_DEGRADED, "Python files", "fewer mapped files",
			  "not all were looked at: it takes too long; a run goes on with it");
	switch (file ? p->state : PYTHONS_NONE) {
	case PYTHONS_NONE:
		break;
	case PYTHONS_WAITING:
		check_add(r, CHECK_FINE, "Python", NULL,
			  "%s in %s: no interpreter is live in it%s%s; a run looks again", version,
			  file, *p->tried.why ? ": " : "", p->tried.why);
		break;
	case PYTHONS_REFUSED:
		check_add(r, CHECK_DEGRADED, "Python", "nothing to do: its native frames are shown",
			  "%s in %s: %s; no Python frames", version, file, p->tried.why);
		break;
	case PYTHONS_FOUND:
		report_found(r, pid, p, modules, version, file);
		break;
	}
	free(file);
}

static void look(__u32 pid, struct pythons *pythons, struct pythons_report *out)
{
	const __u64 end = monotonic_ns() + FILES_NS;

	pythons_look(pythons, pid, 0);
	pythons_report(pythons, pid, out);
	while (out->unfinished && monotonic_ns() < end) {
		pythons_again(pythons);
		pythons_report(pythons, pid, out);
	}
	for (int i = 0; i < TRIES && out->state == PYTHONS_WAITING; i++) {
		usleep(PAUSE_US);
		pythons_again(pythons);
		pythons_report(pythons, pid, out);
	}
}

void check_python(struct check_report *r, __u32 pid)
{
	struct modules *modules = modules_new(&(struct modules_config){ 0 });
	struct spaces *spaces = modules ? spaces_new(modules) : NULL;
	const struct pythons_config config = { .spaces = spaces, .modules = modules };
	struct pythons *pythons = spaces ? pythons_new(&config) : NULL;
	struct pythons_report found;
	const struct space *space;

	/* What is in the way of reading its mappings has been said. */
	if (pythons && !spaces_read(spaces, pid, NULL, NULL, &space)) {
		look(pid, pythons, &found);
		report(r, pid, &found, modules);
	}
	pythons_free(pythons);
	spaces_free(spaces);
	modules_free(modules);
}
