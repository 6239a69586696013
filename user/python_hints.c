// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_hints.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "monotonic.h"

#define MAX_INTERPRETERS 64
#define MAX_STATE 512u

struct walk {
	const struct python_memory *m;
	const struct rprof_python *p;
	__u64 deadline_ns;
	unsigned int states;	/* that may still be looked at */
	struct python_hint *out;
	size_t n;
};

static bool is_object(__u64 addr)
{
	return addr >= 4096 && addr < 1ull << 63 && addr % 8 == 0;
}

static __u64 word_at(const unsigned char *ts, size_t at)
{
	__u64 word;

	memcpy(&word, ts + at, sizeof(word));
	return word;
}

/* Of the states of a thread the one that counts: bound_gilstate. */
static bool is_bound(const struct rprof_python *p, const unsigned char *ts)
{
	__u32 status;

	memcpy(&status, ts + p->ts_status, sizeof(status));
	return status >> (p->status_bit & 31) & 1;
}

static void look_at_state(struct walk *w, __u64 tstate, const unsigned char *ts)
{
	const __u64 tid = word_at(ts, w->p->ts_native_tid);

	if (!tid || tid > INT_MAX || !is_bound(w->p, ts))
		return;
	w->out[w->n++] = (struct python_hint){ .tstate = tstate, .tid = (__u32)tid };
}

/* The list of @interpreter. A state that is another's was freed, or moved, under our eyes. */
static void look_at_states(struct walk *w, __u64 interpreter, __u64 tstate)
{
	unsigned char ts[MAX_STATE];

	for (; is_object(tstate) && w->states; w->states--) {
		if (!python_read(w->m, tstate, ts, w->p->ts_read) ||
		    word_at(ts, w->p->ts_interp) != interpreter)
			return;
		look_at_state(w, tstate, ts);
		tstate = word_at(ts, w->p->ts_next);
		if (monotonic_ns() > w->deadline_ns)
			w->states = 1; /* that was the last one */
	}
}

/* Is there a place in it for all that is asked for? */
static bool is_of_use(const struct rprof_python *p)
{
	const __u32 needed = RPROF_PYTHON_NATIVE_TID | RPROF_PYTHON_STATUS;

	return (p->flags & needed) == needed && p->ts_native_tid && p->ts_read <= MAX_STATE &&
	       p->ts_next + 8u <= p->ts_read && p->ts_interp + 8u <= p->ts_read &&
	       p->ts_native_tid + 8u <= p->ts_read && p->ts_status + 4u <= p->ts_read;
}

size_t python_hints_find(const struct python_memory *m, const struct rprof_python *p,
			 __u64 deadline_ns, struct python_hint *out)
{
	struct walk w = {
		.m = m,
		.p = p,
		.deadline_ns = deadline_ns,
		.states = PYTHON_HINTS_MAX,
		.out = out,
	};
	__u64 interpreter, next, threads;

	if (!is_of_use(p) || !python_read(m, p->runtime + p->runtime_interpreters, &interpreter,
					  sizeof(interpreter)))
		return 0;
	for (unsigned int i = 0; i < MAX_INTERPRETERS && is_object(interpreter) && w.states; i++) {
		const struct python_range words[] = {
			{ interpreter + p->interp_next, &next, sizeof(next) },
			{ interpreter + p->interp_threads, &threads, sizeof(threads) },
		};

		if (m->read(m->ctx, words, 2) != 2)
			break;
		look_at_states(&w, interpreter, threads);
		interpreter = next;
	}
	return w.n;
}
