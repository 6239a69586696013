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

static bool is_word(const struct marks_frame *f)
{
	return f->how == RPROF_HOW_SP || f->how == RPROF_HOW_SP8 || f->how == RPROF_HOW_WORD_SP ||
	       f->how == RPROF_HOW_WORD_SP8;
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

/* The frame among the words after the interrupted one that is its caller; 0: none. */
static size_t proven_caller(const struct marks_frame *frames, size_t first_chain)
{
	for (size_t i = 1; i < first_chain; i++) {
		if (frames[i].executable && (rule_proves(&frames[0].rule, frames[i].how) ||
					     instruction_proves(&frames[0].rule, frames[i].how)))
			return i;
	}
	return 0;
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
	if (v->above == MARK_NO_RULE && proper_end && f->how != RPROF_HOW_PC)
		v->above = MARK_NONE;
	if (f->rule.state == CFI_END || is_cut(v->above) || proper_end)
		return;
	/*
	 * In the middle of a call, its frame not up: built without frame pointers, so that the
	 * chain is whatever the code above left in the register. That is what went wrong.
	 */
	if (f->rule.state == CFI_FP_UNTOUCHED && f->how != RPROF_HOW_PC && is_chain_failure(stop)) {
		v->above = MARK_NO_FRAME_POINTER;
		return;
	}
	v->above = MARK_STOP;
	v->stop = stop;
}

void marks_judge(const struct marks_frame *frames, size_t n, unsigned int stop,
		 struct marks_verdict *verdicts)
{
	size_t at = 0, next = 1;
	size_t caller;

	memset(verdicts, 0, n * sizeof(*verdicts));
	for (size_t i = 0; i < n; i++)
		verdicts[i].blame = i;
	while (next < n && is_word(&frames[next]))
		next++;
	verdicts[0].shown = true;
	caller = proven_caller(frames, next);
	if (caller) {
		verdicts[caller].shown = true;
		/* Its frame may be up, but the register is what the interrupted one made of it. */
		if (frames[0].rule.state != CFI_FP_UNTOUCHED) {
			if (frames[caller].rule.state != CFI_END)
				verdicts[caller].above = mark_of(&frames[0].rule);
			verdicts[caller].blame = 0;
			return;
		}
		at = caller;
	}
	for (; next < n; at = next++) {
		verdicts[at].above = mark_of(&frames[at].rule);
		if (frames[at].rule.state == CFI_END || is_cut(verdicts[at].above))
			return;
		if (!frames[next].executable) {
			stop = RPROF_STOP_NOT_EXEC;
			break;
		}
		verdicts[next].shown = true;
	}
	judge_last(&frames[at], stop, &verdicts[at]);
}
