// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "wholes.h"

#include <stdbool.h>

#include "complete.h"
#include "processes.h"
#include "profile.h"
#include "recent.h"

const struct rprof_sample *wholes_sample(const struct wholes *w, const struct rprof_sample *s,
					 struct rprof_sample *whole)
{
	struct rprof_stack *cut = recent_find(w->cut, s->stack);
	const struct rprof_stack *stack;

	if (!cut) {
		/* One that has faults is cut as well, but of no use: it says nothing of any page above. */
		if (!s->faults)
			completer_pass(w->completer, s->tid);
		return s;
	}
	cut->time_ns = s->time_ns;
	stack = completer_complete(w->completer, s, cut, processes_space(w->processes, cut));
	if (!stack)
		return s;
	w->take(w->ctx, stack);
	*whole = *s;
	whole->stack = stack->stack;
	return whole;
}

/* May @stack still mean what it was counted as? The numbers of spaces are not used again. */
static bool is_as_counted(const struct wholes *w, const struct profile_stack *stack, __u64 time_ns)
{
	__u32 now;

	if (!stack || stack->may_change)
		return false;
	now = processes_space_number(w->processes, stack->tgid, time_ns);
	/* Where no space is known it was counted as it is (analysis.c). */
	return !stack->space || !now || stack->space == now;
}

void wholes_move_late(const struct wholes *w, __u64 time_ns)
{
	const struct rprof_stack *whole;
	struct completer_late late;
	struct rprof_stack *cut;

	while (completer_late(w->completer, &late)) {
		cut = recent_find(w->cut, late.stack);
		if (!cut || !is_as_counted(w, profile_find(w->profile, late.stack), time_ns))
			continue;
		cut->time_ns = time_ns;
		whole = completer_late_stack(w->completer, cut);
		if (!whole)
			continue;
		w->take(w->ctx, whole);
		if (!profile_move_samples(w->profile, late.stack, whole->stack, late.tid,
					  late.value))
			completer_late_done(w->completer, &late);
	}
}
