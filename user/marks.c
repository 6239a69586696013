/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * An edge of a stack is printed bare only if it is proven: by the chain where the callee's unwind
 * rule says that its frame is up, or by a word of the stack where the rule, or the interrupted
 * instruction, says that the return address lies there. Never by how plausible a word looks.
 */
#include "marks.h"

#include <string.h>

#include "rprof/stop.h"
#include "rprof/record.h"

bool marks_is_interrupted(unsigned int how)
{
	return how == RPROF_HOW_PC || how == RPROF_HOW_SIGNAL;
}

bool marks_is_word(unsigned int how)
{
	return how == RPROF_HOW_SP || how == RPROF_HOW_SP8 || how == RPROF_HOW_WORD_SP ||
	       how == RPROF_HOW_WORD_SP8;
}

/* CFA - 8 is the word's place, says the rule of the interrupted frame. */
static bool rule_proves(const struct cfi_rule *rule, unsigned int how)
{
	if (rule->state != CFI_FP_UNTOUCHED && rule->state != CFI_FP_LOST)
		return false;
	if (!rule->cfa_is_sp)
		return false;
	if (how == RPROF_HOW_SP || how == RPROF_HOW_WORD_SP)
		return rule->cfa_offset == 8;
	return rule->cfa_offset == 16;
}

/* Where the file has no rule (many linkers give a PLT none), the instruction alone proves. */
static bool instruction_proves(const struct cfi_rule *rule, unsigned int how)
{
	return rule->state == CFI_UNKNOWN && !rule->signal_frame &&
	       (how == RPROF_HOW_SP || how == RPROF_HOW_SP8);
}

/* The frame among the words of the interrupted one that is its caller; @interrupted: none. */
static size_t proven_caller(const struct marks_frame *frames, size_t interrupted, size_t end)
{
	const struct cfi_rule *rule = &frames[interrupted].rule;

	for (size_t i = interrupted + 1; i < end; i++) {
		if (frames[i].executable &&
		    (rule_proves(rule, frames[i].how) || instruction_proves(rule, frames[i].how)))
			return i;
	}
	return interrupted;
}

/*
 * Of the chain above a frame with this rule: what is to be said of it. Where the frame is not up the
 * frame pointer is still the caller's, so the ancestors stand if the caller keeps it. Who that is is
 * not known; files are built one way or the other, so its file is taken to be this one. Where there
 * is no rule the register may hold anything.
 */
static enum mark mark_of(const struct cfi_rule *rule)
{
	switch (rule->state) {
	case CFI_FP_UP:
	case CFI_END:
		return MARK_NONE;
	case CFI_FP_UNTOUCHED:
		return rule->keeps_fp ? MARK_CALLER_UNKNOWN : MARK_NO_FRAME_POINTER;
	case CFI_FP_LOST:
		return MARK_NO_FRAME_POINTER;
	default:
		return rule->signal_frame ? MARK_SIGNAL_FRAME : MARK_NO_RULE;
	}
}

/* Nothing is printed above. */
static bool is_cut(enum mark mark)
{
	return mark == MARK_NO_FRAME_POINTER || mark == MARK_NO_RULE || mark == MARK_SIGNAL_FRAME;
}

static bool is_chain_failure(unsigned int stop)
{
	return stop == RPROF_STOP_UNALIGNED || stop == RPROF_STOP_DOWN ||
	       stop == RPROF_STOP_BOUNDS || stop == RPROF_STOP_NOT_EXEC;
}

/* The walk ended at this frame. */
static void judge_last(const struct marks_frame *f, unsigned int stop, struct marks_verdict *v)
{
	const bool proper_end = stop == RPROF_STOP_END || stop == RPROF_STOP_NONE;

	v->above = mark_of(&f->rule);
	/* A start routine of assembly has no rule, and the chain's end is all it says. */
	if (v->above == MARK_NO_RULE && proper_end && !marks_is_interrupted(f->how))
		v->above = MARK_NONE;
	if (f->rule.state == CFI_END || is_cut(v->above) || proper_end)
		return;
	/*
	 * In the middle of a call, its frame not up: built without frame pointers, so that the
	 * chain is whatever the code above left in the register. That is what went wrong.
	 */
	if (f->rule.state == CFI_FP_UNTOUCHED && !marks_is_interrupted(f->how) &&
	    is_chain_failure(stop)) {
		v->above = MARK_NO_FRAME_POINTER;
		return;
	}
	v->above = MARK_STOP;
	v->stop = stop;
}

/*
 * The frames from an interrupted one up to the next, which a signal interrupted. The kernel side has
 * read the code of a trampoline, so that what comes after it is proven; its rule, if it has one, only
 * says that it is a signal frame.
 * @end: the next interrupted frame, or the number of frames
 * Return: is frame @end the next one of the stack?
 */
static bool judge_segment(const struct marks_frame *frames, size_t first, size_t end, bool last,
			  unsigned int stop, struct marks_verdict *verdicts)
{
	size_t at, next = first + 1;

	while (next < end && marks_is_word(frames[next].how))
		next++;
	at = proven_caller(frames, first, next);
	verdicts[at].shown = true;
	if (!last && at == end - 1)
		return true;
	/* The trampoline is a word, and not the caller. */
	if (!last && next == end) {
		verdicts[at].above = MARK_SIGNAL_FRAME;
		return false;
	}
	/* Its frame may be up, but the register is what the interrupted one made of it. */
	if (at != first && frames[first].rule.state != CFI_FP_UNTOUCHED) {
		if (frames[at].rule.state != CFI_END)
			verdicts[at].above = mark_of(&frames[first].rule);
		verdicts[at].blame = first;
		return false;
	}
	for (; next < end; at = next++) {
		verdicts[at].above = mark_of(&frames[at].rule);
		if (frames[at].rule.state == CFI_END || is_cut(verdicts[at].above))
			return false;
		if (!frames[next].executable) {
			judge_last(&frames[at], RPROF_STOP_NOT_EXEC, &verdicts[at]);
			return false;
		}
		verdicts[next].shown = true;
	}
	if (last)
		judge_last(&frames[at], stop, &verdicts[at]);
	return !last;
}

void marks_judge(const struct marks_frame *frames, size_t n, unsigned int stop,
		 struct marks_verdict *verdicts)
{
	memset(verdicts, 0, n * sizeof(*verdicts));
	for (size_t i = 0; i < n; i++)
		verdicts[i].blame = i;
	for (size_t first = 0, end; first < n; first = end) {
		end = first + 1;
		while (end < n && frames[end].how != RPROF_HOW_SIGNAL)
			end++;
		verdicts[first].shown = true;
		if (!judge_segment(frames, first, end, end == n, stop, verdicts))
			return;
		if (!frames[end].executable) {
			verdicts[end - 1].above = MARK_STOP;
			verdicts[end - 1].stop = RPROF_STOP_NOT_EXEC;
			return;
		}
	}
}
