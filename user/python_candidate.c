// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_candidate.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc.h"
#include "python_memory.h"

/* Thread ids that it keeps are those that the kernel side sees. */
static bool in_our_pid_namespace(__u32 tgid)
{
	int dir = proc_open(tgid);
	struct stat its, ours;
	char own[64];
	bool same;

	if (dir < 0)
		return false;
	proc_path(own, sizeof(own), "self/ns/pid");
	same = !fstatat(dir, "ns/pid", &its, 0) && !stat(own, &ours) && its.st_ino == ours.st_ino &&
	       its.st_dev == ours.st_dev;
	close(dir);
	return same;
}

static const char *unsupported(enum python_kind kind)
{
	switch (kind) {
	case PYTHON_OLD:
	case PYTHON_2:
		return "not supported (3.9 to 3.15 are)";
	case PYTHON_PYPY:
	case PYTHON_GRAALPY:
		return "not supported (CPython 3.9 to 3.15 is)";
	default:
		return NULL;
	}
}

/* The table of the target, or a built-in one. -EAGAIN: the runtime's memory is not there yet. */
static int read_offsets(const struct python_memory *m, const struct python_candidate *c,
			struct python_tried *out)
{
	const __u64 at = c->bias + c->file.runtime;
	struct {
		char cookie[8];
		__u64 version;
	} head;
	char table[PYTHON_OFFSETS_MAX];
	size_t size = sizeof(table);

	snprintf(out->why, sizeof(out->why), "its _PyRuntime cannot be read");
	if (!python_read(m, at, &head, sizeof(head)))
		return -EAGAIN;
	if (!memcmp(head.cookie, "xdebugpy", 8)) {
		/* As much as there is: what follows it need not be mapped. */
		while (!python_read(m, at, table, size) && size > sizeof(head))
			size /= 2;
		if (!(head.version >> 32))
			out->version = (__u32)head.version;
		return python_offsets_parse(table, size, &out->python, out->why);
	}
	if (!out->version) {
		snprintf(out->why, sizeof(out->why), "its version cannot be told");
		return -EAGAIN;
	}
	/* The loader maps code before data. */
	if (out->version >= 0x030d0000) {
		snprintf(out->why, sizeof(out->why),
			 "there are no debug offsets at its _PyRuntime");
		return -EAGAIN;
	}
	return python_offsets_builtin(&c->file.build, &out->python, out->why);
}

/* Do the file and the table in memory tell of one build? */
static bool builds_agree(const struct python_candidate *c, struct python_tried *out)
{
	const struct python_build *b = &c->file.build;
	const bool free_threaded = out->python.flags & RPROF_PYTHON_FREE_THREADED;

	if (b->version && out->python.version != b->version >> 16) {
		snprintf(out->why, sizeof(out->why), "debug offsets: of %u.%u, the file is %u.%u",
			 out->python.version >> 8, out->python.version & 0xff, b->version >> 24,
			 (b->version >> 16) & 0xff);
		return false;
	}
	if (c->file.exports && b->free_threaded != free_threaded) {
		snprintf(out->why, sizeof(out->why),
			 "debug offsets: free_threaded is %d, the file is built with%s the GIL",
			 free_threaded, b->free_threaded ? "out" : "");
		return false;
	}
	return true;
}

/* Is there a thread state that belongs to the interpreter that the probe found? */
static bool has_thread_state(const struct python_memory *m, const struct rprof_python *python,
			     __u64 interpreter)
{
	__u64 tstate, back;

	return interpreter && python_read(m, interpreter + python->interp_threads, &tstate, 8) &&
	       tstate && python_read(m, tstate + python->ts_interp, &back, 8) &&
	       back == interpreter;
}

enum python_outcome python_candidate_try(const struct python_candidate *c, __u32 tgid,
					 struct python_tried *out)
{
	const struct python_memory m = python_memory_of(tgid);
	int err;

	*out = (struct python_tried){ .version = c->file.build.version };
	if (c->file.kind != PYTHON_CPYTHON) {
		snprintf(out->why, sizeof(out->why), "%s", unsupported(c->file.kind));
		return PYTHON_IS_REFUSED;
	}
	err = read_offsets(&m, c, out);
	if (err == -EAGAIN)
		return PYTHON_IS_DOUBTFUL;
	if (err || !builds_agree(c, out))
		return PYTHON_IS_REFUSED;
	out->python.runtime = c->bias + c->file.runtime;
	out->python.code_type = c->file.code_type ? c->bias + c->file.code_type : 0;
	if (in_our_pid_namespace(tgid))
		out->python.flags |= RPROF_PYTHON_NATIVE_TID;
	err = python_offsets_probe(&m, &out->python, &out->live, out->why);
	if (!err)
		return PYTHON_IS_PROVED;
	if (err != -EAGAIN)
		return PYTHON_IS_DOUBTFUL;
	/* A table of its own may count before a frame runs; a guess of ours may not. */
	if (out->python.version >= 0x030d && out->python.code_type &&
	    has_thread_state(&m, &out->python, out->live.interpreter))
		return PYTHON_IS_LIVE;
	return PYTHON_IS_WAITING;
}
