/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A Python process of three threads, and how its thread states were found. */
#ifndef RPROF_HOSTBPF_PYTHON_THREADS_H
#define RPROF_HOSTBPF_PYTHON_THREADS_H

#include "python_seen.h"

#define RETRY_NS 100000000ULL

static struct py_stack a, b, c;
static u64 codes[4];

/* A process of @version with one interpreter and the threads a, b and c, each with frames. */
static inline void start(u32 version)
{
	struct py_stack *threads[] = { &a, &b, &c };

	py_start(version);
	py_native(6);
	for (u32 i = 0; i < 4; i++)
		codes[i] = py_code("function", "file.py", i + 1);
	for (u32 i = 0; i < 3; i++) {
		py_thread(threads[i], INTERPS, i, 4 * i);
		for (u32 k = 0; k < 2 + i; k++)
			py_push(threads[i], PY_FRAME, codes[(i + k) & 3], k);
		if (py_has(RPROF_PYTHON_IS_ENTRY))
			threads[i]->frames[0].entry = in_native(4);
		py_write(threads[i]);
	}
}

static inline void each_version(void (*test)(u32 version))
{
	for (u32 version = 0; version < N_LAYOUTS; version++) {
		start(version);
		test(version);
		host_reset();
	}
}

/* Written again: the threads of the model share a C stack. */
static inline void right(const struct py_stack *s)
{
	py_write(s);
	py_run(s);
	py_right(s);
}

/* This thread has no Python stack, for that reason. */
static inline void expect_none(u32 stop)
{
	struct py_seen seen = py_sample();

	assert_int_equal(seen.n, 0);
	assert_int_equal(seen.stop, stop);
}

/* Up to 3.11 the holder of the GIL is not searched for. */
static inline void expect_searches(u32 n, u32 hits)
{
	u64 misses = counter(RPROF_COUNT_STATE_MISSES);

	if (py_has(RPROF_PYTHON_STATUS))
		assert_int_equal(misses, n);
	assert_int_equal(misses + counter(RPROF_COUNT_STATE_HITS), n + hits);
}

#endif
