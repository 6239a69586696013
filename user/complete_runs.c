// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "complete_runs.h"

#include <errno.h>
#include <stdlib.h>

#include "arch.h"
#include "array.h"

#define GAP_NS 250000000ULL	/* between samples of one run */
#define MAX_RUNS 4096u
#define MAX_HELD 16384u		/* of all runs: of one stack there is one */

void complete_runs_init(struct complete_runs *r)
{
	*r = (struct complete_runs){ 0 };
	idmap_init(&r->by_tid);
}

static void free_run(struct complete_run *run)
{
	free(run->tail);
	free(run->held);
}

void complete_runs_fini(struct complete_runs *r)
{
	for (size_t i = 0; i < r->n; i++)
		free_run(&r->runs[i]);
	free(r->runs);
	idmap_fini(&r->by_tid);
}

struct complete_run *complete_runs_find(const struct complete_runs *r, __u32 tid)
{
	__u32 i;

	return r->n && idmap_find(&r->by_tid, tid, 0, &i) ? &r->runs[i] : NULL;
}

void complete_runs_drop(struct complete_runs *r, struct complete_run *run)
{
	const size_t i = (size_t)(run - r->runs);

	r->n_held -= run->n_held;
	free_run(run);
	idmap_remove(&r->by_tid, run->tid, 0);
	*run = r->runs[--r->n];
	if (i < r->n)
		idmap_put(&r->by_tid, run->tid, 0, (__u32)i);
}

void complete_runs_forget(struct complete_runs *r, __u32 tgid)
{
	for (size_t i = r->n; i--;) {
		if (r->runs[i].tgid == tgid)
			complete_runs_drop(r, &r->runs[i]);
	}
}

/* A new, empty run of @tid; NULL: no memory. */
static struct complete_run *add(struct complete_runs *r, __u32 tid)
{
	struct complete_run *grown;

	/* One that ended without a word. */
	if (r->n == MAX_RUNS) {
		size_t oldest = 0;

		for (size_t i = 1; i < r->n; i++) {
			if (r->runs[i].last_ns < r->runs[oldest].last_ns)
				oldest = i;
		}
		complete_runs_drop(r, &r->runs[oldest]);
	}
	grown = array_grow(r->runs, &r->cap, r->n + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	r->runs = grown;
	if (idmap_put(&r->by_tid, tid, 0, (__u32)r->n))
		return NULL;
	grown[r->n] = (struct complete_run){ .tid = tid };
	return &grown[r->n++];
}

/* Is it the same thread, in the same memory, and not long after? Its faults are never fewer. */
static bool is_near(const struct complete_run *run, const struct rprof_sample *s,
		    const struct rprof_stack *stack)
{
	if (run->tgid != stack->tgid || run->space != stack->space || s->time_ns < run->last_ns ||
	    s->time_ns - run->last_ns > GAP_NS)
		return false;
	return !s->faults || !run->last_faults || (__s32)(s->faults - run->last_faults) >= 0;
}

static bool stops_there(const struct complete_run *run, const struct complete_edge *e)
{
	return run->native_next == e->native_next && run->python_next == e->python_next;
}

/*
 * After an aging the walk may stop before it comes to the frame at which the run's samples stop: it
 * says nothing of that one's page. Stacks grow down, what lies lower is nearer to the leaf; where
 * Python frames lie says nothing, so here it is enough, and asked for, that none was walked.
 */
static bool stops_before(const struct complete_run *run, const struct rprof_stack *stack,
			 const struct complete_edge *e)
{
	const bool native = !run->native_next ?
				    !e->native :
				    stack->stop_native == RPROF_STOP_FAULT &&
					    (!e->native || e->native_next <= run->native_next);
	const bool python = run->python_next == e->python_next ||
			    (run->python_next && !e->n_python &&
			     (stack->stop_python == RPROF_STOP_FAULT ||
			      stack->stop_python == RPROF_STOP_STATE_LOST));

	return native && python;
}

int complete_runs_take(struct complete_runs *r, const struct rprof_sample *s,
		       const struct rprof_stack *stack, const struct complete_edge *e,
		       struct complete_run **out)
{
	struct complete_run *run = complete_runs_find(r, s->tid);

	if (run && !(is_near(run, s, stack) && stops_there(run, e))) {
		if (ARCH_PAGES_AGE && is_near(run, s, stack) && stops_before(run, stack, e))
			return -EAGAIN;
		complete_runs_drop(r, run);
		run = NULL;
	}
	if (!run) {
		run = add(r, s->tid);
		if (!run)
			return -ENOMEM;
		run->tgid = stack->tgid;
		run->space = stack->space;
		run->native_next = e->native_next;
		run->python_next = e->python_next;
	}
	run->last_ns = s->time_ns;
	run->last_faults = s->faults;
	*out = run;
	return 0;
}

bool complete_run_hold(struct complete_runs *r, struct complete_run *run,
		       const struct rprof_sample *s)
{
	struct completer_late *grown;

	for (size_t i = run->n_held; i--;) {
		if (run->held[i].stack == s->stack) {
			run->held[i].value += s->value;
			run->held[i].n++;
			return true;
		}
	}
	if (r->n_held >= MAX_HELD)
		return false;
	grown = array_grow(run->held, &run->cap_held, run->n_held + 1, sizeof(*grown));
	if (!grown)
		return false;
	run->held = grown;
	grown[run->n_held++] = (struct completer_late){ s->stack, s->value, run->tid, 1 };
	r->n_held++;
	return true;
}

void complete_run_let_go(struct complete_runs *r, struct complete_run *run)
{
	r->n_held -= run->n_held;
	run->n_held = 0;
}
