// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A run of Python frames stands between the native frames that its activation of the evaluator
 * called and that activation. Both lists are gone through once, from the leaf; what does not fit, or
 * is beyond the end of the native chain, ends the merging there: no frame is put where it may not be.
 */
#include "merge.h"

#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Where the native frames at hand stand. */
enum part {
	PART_LEAF,		/* leafward of all Python frames */
	PART_BETWEEN,
	PART_ROOT,		/* rootward of all */
};

/* Where an activation of the evaluator is. */
enum place {
	PLACE_AT,		/* it is the native frame */
	PLACE_ABOVE,		/* it is the caller that the chain misses, right above that frame */
	PLACE_BEYOND,		/* the native chain does not reach it */
	PLACE_NOWHERE,		/* it cannot be: the two lists contradict each other */
};

struct merge {
	const struct merge_input *in;
	struct merge_item *out;
	size_t n;
	size_t native;		/* first one that was not handled yet */
	size_t python;		/* the same */
	size_t last;		/* native frame that is shown; above it, if cut, something is missing */
	bool cut;
	bool any;		/* Python frame was put out */
	bool seen;		/* other frames were put out since the last one */
	bool in_collection;	/* the last native frame was the collector's */
	bool collection;	/* was put out */
};

bool merge_is_evaluator(const char *name)
{
	static const char handler[] = "_TAIL_CALL_"; /* Python/ceval.c, 3.14: one per instruction */

	return !strcmp(name, "_PyEval_EvalFrameDefault") ||
	       !strncmp(name, handler, sizeof(handler) - 1);
}

/* Python/gc.c, Python/gc_free_threading.c, Modules/gcmodule.c of 3.9 to 3.15. */
bool merge_is_collector(const char *name)
{
	static const char *const starts[] = {
		"gc_collect",	 "collect_with_callback", "collect_generations",
		"_PyGC_Collect", "PyGC_Collect",	  "_Py_RunGC",
	};

	for (size_t i = 0; i < ARRAY_SIZE(starts); i++) {
		if (!strncmp(name, starts[i], strlen(starts[i])))
			return true;
	}
	return !strcmp(name, "collect"); /* 3.9 */
}

bool merge_is_root(const char *name)
{
	static const char *const names[] = {
		"Py_BytesMain", "Py_Main", "Py_RunMain", "pythread_wrapper", "t_bootstrap",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

size_t merge_room(size_t n_native, size_t n_python)
{
	return 2 * (n_native + n_python) + 2;
}

static void put(struct merge *m, enum merge_kind kind, size_t at)
{
	m->out[m->n++] = (struct merge_item){ kind, (__u32)at };
}

static bool is_frame(const struct rprof_python_frame *f)
{
	return !(f->where & (RPROF_PY_SHIM | RPROF_PY_NEXT));
}

/* Did the Python walk end before it was at the root? */
static bool is_early(unsigned int stop)
{
	return stop != RPROF_STOP_END && stop != RPROF_STOP_NONE && stop != RPROF_STOP_NO_STATE;
}

static bool is_cut(enum mark mark)
{
	return mark != MARK_NONE && mark != MARK_CALLER_UNKNOWN;
}

/* The frame itself: is it to be seen? */
static bool is_visible(struct merge *m, const struct merge_native *f, enum part part)
{
	const bool again = m->in_collection;

	m->in_collection = false;
	if (m->in->all || part == PART_ROOT)
		return true;
	if (f->collector) {
		m->in_collection = true;
		m->collection = m->seen = true;
		if (!again)
			put(m, MERGE_COLLECTION, 0);
		return false;
	}
	return !f->evaluator && !(f->interpreter && part == PART_BETWEEN);
}

static void put_native(struct merge *m, size_t at, enum part part)
{
	const struct merge_native *f = &m->in->native[at];

	if (!f->shown)
		return;
	if (is_visible(m, f, part)) {
		put(m, MERGE_NATIVE, at);
		m->seen = true;
	}
	/* Between two Python frames alone nothing is said to be whole: that one called the other. */
	if (f->above != MARK_NONE && (m->seen || part != PART_BETWEEN || !is_cut(f->above)))
		put(m, MERGE_MARK, at);
}

static void put_natives(struct merge *m, size_t end, enum part part)
{
	while (m->native < end)
		put_native(m, m->native++, part);
}

static void put_pythons(struct merge *m, size_t end)
{
	m->in_collection = false;
	for (; m->python < end; m->python++) {
		const struct rprof_python_frame *f = &m->in->python[m->python];

		if (!is_frame(f))
			continue;
		/* Only one collection runs, so what was put out is this one. */
		if ((f->where & RPROF_PY_GC) && !m->collection)
			put(m, MERGE_COLLECTION, m->python);
		m->collection |= f->where & RPROF_PY_GC;
		m->any = true;
		m->seen = false;
		put(m, MERGE_PYTHON, m->python);
	}
}

/* The next part of the evaluator from @at on; the end if there is none. */
static size_t next_evaluator(const struct merge *m, size_t at)
{
	const struct merge_native *native = m->in->native;

	while (at < m->in->n_native && !(native[at].shown && native[at].evaluator))
		at++;
	return at;
}

/* The activation in which native entry @code - 1 lies. */
static enum place find_shim(const struct merge *m, __u64 code, size_t *at)
{
	const struct merge_native *native = m->in->native;
	size_t i;

	if (!m->in->n_native)
		return PLACE_BEYOND;
	if (!code)
		return m->cut ? PLACE_BEYOND : PLACE_NOWHERE;
	/* The frame below the cut is taken: this one is somewhere above. */
	if (m->cut && m->native > m->last && code > m->last && code <= m->in->n_native)
		return PLACE_BEYOND;
	if (code > m->in->n_native || code - 1 < m->native)
		return PLACE_NOWHERE;
	/* Words that are no return addresses are in the frame of the entry before them. */
	for (i = code - 1; i > m->native && !native[i].shown && native[i].word; i--)
		;
	*at = i;
	if (!native[i].shown)
		return m->cut && !native[i].word ? PLACE_BEYOND : PLACE_NOWHERE;
	if (native[i].above == MARK_CALLER_UNKNOWN)
		return PLACE_ABOVE;
	if (native[i].up || native[i].evaluator)
		return PLACE_AT;
	return is_cut(native[i].above) ? PLACE_BEYOND : PLACE_NOWHERE;
}

/* The frames [m->python, @end) and the native ones that they called. */
static void put_run(struct merge *m, size_t end, enum place place, size_t at)
{
	put_natives(m, place == PLACE_ABOVE ? at + 1 : at, m->any ? PART_BETWEEN : PART_LEAF);
	put_pythons(m, end);
	m->in_collection = false;
	if (place == PLACE_ABOVE)
		return;
	if (m->in->all)
		put_native(m, at, PART_BETWEEN);
	m->native = at + 1;
}

/*
 * What cannot be merged: the frames stay whole. The native frames up to an activation were called by
 * the first of them, or by its callee that is not linked yet. Without one their own mark says so,
 * and that there may be more. A missing caller may be that activation, so nothing is taken above it.
 */
static void put_rest(struct merge *m, bool mismatch)
{
	const struct merge_native *native = m->in->native;
	const size_t evaluator = next_evaluator(m, m->native);
	bool known = m->cut || evaluator < m->in->n_native;
	size_t end = m->native;

	while (end < evaluator && !(native[end].shown && native[end].above == MARK_CALLER_UNKNOWN))
		end++;
	if (end < evaluator) {
		known = true;
		end++;
	}
	put_natives(m, end, m->any ? PART_BETWEEN : PART_LEAF);
	if (mismatch || (!known && m->in->n_native))
		put(m, MERGE_MISMATCH, 0);
	put_pythons(m, m->in->n_python);
	if (is_early(m->in->stop_python))
		put(m, MERGE_STOP, 0);
}

/* 3.11 and later. Return: do the two lists fit as far as they were merged? */
static bool merge_shims(struct merge *m)
{
	for (size_t i = 0; i < m->in->n_python; i++) {
		const struct rprof_python_frame *f = &m->in->python[i];
		enum place place;
		size_t at = 0;

		if (!(f->where & RPROF_PY_SHIM))
			continue;
		place = find_shim(m, f->code, &at);
		if (place == PLACE_NOWHERE)
			return false;
		if (place == PLACE_BEYOND)
			return true;
		put_run(m, i + 1, place, at);
	}
	/* Frames without an activation behind them, at the proper ends of both. */
	return m->python == m->in->n_python || m->cut || is_early(m->in->stop_python) ||
	       !m->in->n_native;
}

/* How many parts of the evaluator there are, each an activation; @last: the rootmost. */
static size_t count_evaluators(const struct merge *m, size_t *last)
{
	size_t n = 0;

	for (size_t i = next_evaluator(m, 0); i < m->in->n_native; i = next_evaluator(m, i + 1)) {
		*last = i;
		n++;
	}
	return n;
}

/* Are those all that there are? A missing caller may be another one, and what is above a cut. */
static bool has_all_evaluators(const struct merge *m, size_t last)
{
	const struct merge_native *native = m->in->native;

	for (size_t i = 0; i < m->in->n_native; i++) {
		if (native[i].shown && native[i].above == MARK_CALLER_UNKNOWN)
			return false;
		if (native[i].shown && native[i].root && i > last)
			return true;
	}
	return m->in->n_native && !m->cut;
}

/*
 * Only the interpreter's own frames between two activations? A greenlet's first frame has no caller
 * in the chain, but the extension that switched to it is there.
 */
static bool called_directly(const struct merge *m, size_t callee, size_t caller)
{
	const struct merge_native *native = m->in->native;

	for (size_t i = callee + 1; i < caller; i++) {
		if (native[i].shown && !native[i].interpreter)
			return false;
	}
	return true;
}

/*
 * 3.9 and 3.10: each frame is an activation. Both lists end at the root, so that they are compared
 * from there; the newest activation may not have linked its frame yet.
 */
static bool merge_counts(struct merge *m)
{
	const size_t n = m->in->n_python;
	size_t last = 0, n_native = count_evaluators(m, &last), at;

	if (is_early(m->in->stop_python) || !has_all_evaluators(m, last))
		return true;
	for (size_t i = 0; i < n; i++) {
		if ((m->in->python[i].where & (RPROF_PY_ENTRY | RPROF_PY_SHIM | RPROF_PY_NEXT)) !=
		    RPROF_PY_ENTRY)
			return false;
	}
	if (n_native != n && n_native != n + 1)
		return false;
	at = next_evaluator(m, 0);
	if (n_native > n) {
		const size_t callee = at;

		at = next_evaluator(m, at + 1);
		if (!called_directly(m, callee, at))
			return false;
	}
	for (size_t i = 0; i < n; i++, at = next_evaluator(m, at + 1))
		put_run(m, i + 1, PLACE_AT, at);
	return true;
}

static bool is_whole(const struct merge *m)
{
	return m->python == m->in->n_python && !is_early(m->in->stop_python);
}

/*
 * The C part from main() on. Of one that is cut, frames of the interpreter alone say nothing: the
 * Python frames are whole, and a program's stacks begin alike wherever the cut is.
 */
static void put_root(struct merge *m)
{
	bool others = m->in->all || !m->cut;

	for (size_t i = m->native; i < m->in->n_native && !others; i++)
		others = m->in->native[i].shown && !m->in->native[i].interpreter;
	if (others)
		put_natives(m, m->in->n_native, PART_ROOT);
}

size_t merge_stacks(const struct merge_input *in, struct merge_item *out)
{
	struct merge m = { .in = in, .out = out };
	bool fits;

	for (size_t i = 0; i < in->n_native; i++) {
		if (in->native[i].shown)
			m.last = i;
	}
	m.cut = in->n_native && is_cut(in->native[m.last].above);
	if (!in->n_python) {
		put_natives(&m, in->n_native, PART_ROOT);
		if (is_early(in->stop_python))
			put(&m, MERGE_STOP, 0);
		return m.n;
	}
	fits = in->python[0].where & RPROF_PY_ENTRY ? merge_counts(&m) : merge_shims(&m);
	if (fits && is_whole(&m))
		put_root(&m);
	else
		put_rest(&m, !fits);
	return m.n;
}
