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
	return (how >= RPROF_HOW_SP && how <= RPROF_HOW_WORD_SP8) ||
	       (how >= RPROF_HOW_RA && how <= RPROF_HOW_WORD_SLOT);
}

/* Where the stack's words are that may be a return address: record.h, enum rprof_how. */
static __s64 place_of(unsigned int how)
{
	switch (how) {
	case RPROF_HOW_SP:
	case RPROF_HOW_WORD_SP:
		return 0;
	case RPROF_HOW_WORD_SLOT:
		return 112;
	default:
		return 8;
	}
}

/* The rule of the interrupted frame says that the return address is this word. */
static bool rule_proves(const struct cfi_rule *rule, unsigned int how)
{
	if (rule->state == CFI_UNKNOWN || rule->state == CFI_END)
		return false;
	if (how == RPROF_HOW_RA || how == RPROF_HOW_WORD_RA)
		return rule->ra == CFI_RA_REGISTER;
	/* Where the frame is up, sp is anywhere below it. */
	return (rule->state == CFI_FP_UNTOUCHED || rule->state == CFI_FP_LOST) &&
	       rule->ra == CFI_RA_STACK && rule->cfa_is_sp && rule->ra_at_sp == place_of(how);
}

/*
 * Where the file has no rule (many linkers give a PLT none), the instruction alone proves. Not so of a
 * register: GCC jumps through a table by the instruction that it returns by, in 77 places of
 * python3.15.
 */
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
	case CFI_FP_UNLINKED:
		return MARK_NOT_LINKED;
	default:
		return rule->signal_frame ? MARK_SIGNAL_FRAME : MARK_NO_RULE;
	}
}

/* Nothing is printed above. */
static bool is_cut(enum mark mark)
{
	return mark == MARK_NO_FRAME_POINTER || mark == MARK_NO_RULE || mark == MARK_SIGNAL_FRAME ||
	       mark == MARK_NOT_LINKED;
}

/*
 * Of the edge from a frame to the chain frame above it. The code at an interrupted pc may prove the
 * register that will be the link (CHAIN_REG), which is the link only as long as the frame has none;
 * a wrapper of the vDSO is passed by what its code does after a call.
 * @packed: where this chain's links were read
 */
static enum mark mark_between(const struct marks_frame *f, const struct marks_frame *above,
			      bool packed)
{
	const bool interrupted = marks_is_interrupted(f->how);
	const bool by_register = above->how == RPROF_HOW_CHAIN_REG;

	if (f->rule.state == CFI_FP_UNLINKED)
		return interrupted && by_register ? MARK_NONE : MARK_NOT_LINKED;
	if (by_register || (interrupted && f->rule.wrapper))
		return f->rule.state == CFI_END ? MARK_NONE : MARK_NOT_LINKED;
	if (f->rule.state != CFI_FP_UP)
		return mark_of(&f->rule);
	/* A call overwrote the register that the rule names. */
	if (f->rule.packed != packed || (!interrupted && f->rule.ra == CFI_RA_REGISTER))
		return MARK_NO_FRAME_POINTER;
	return MARK_NONE;
}

static bool is_chain_failure(unsigned int stop)
{
	return stop == RPROF_STOP_UNALIGNED || stop == RPROF_STOP_DOWN ||
	       stop == RPROF_STOP_BOUNDS || stop == RPROF_STOP_NOT_EXEC;
}

/* The walk ended at this frame. @packed: as above */
static void judge_last(const struct marks_frame *f, bool packed, unsigned int stop,
		       struct marks_verdict *v)
{
	const bool proper_end = stop == RPROF_STOP_END || stop == RPROF_STOP_NONE;

	v->above = mark_of(&f->rule);
	/* A start routine of assembly has no rule, and the chain's end is all it says. */
	if (v->above == MARK_NO_RULE && proper_end && !marks_is_interrupted(f->how))
		v->above = MARK_NONE;
	/* Where the end was read is no link of this frame. */
	if (f->rule.state == CFI_FP_UP && f->rule.packed != packed)
		v->above = MARK_NO_FRAME_POINTER;
	if (f->rule.wrapper && proper_end)
		v->above = MARK_NOT_LINKED;
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
	v->above = stop == RPROF_STOP_UNLINKED ? MARK_NOT_LINKED : MARK_STOP;
	v->stop = stop;
}

/* Frames of a segment, from an interrupted one up to the next, which a signal interrupted. */
struct segment {
	const struct marks_frame *frames;
	struct marks_verdict *verdicts;
	size_t first, end;
	bool last;
	unsigned int stop;	/* of the last one */
};

/* Nothing above @at: @mark, because of the interrupted frame. */
static bool cut_at(const struct segment *s, size_t at, enum mark mark)
{
	s->verdicts[at].above = mark;
	s->verdicts[at].blame = s->first;
	return false;
}

/* The chain from @next on, above @at. Return: as judge_segment(). */
static bool judge_chain(const struct segment *s, size_t at, size_t next, bool packed)
{
	const struct marks_frame *frames = s->frames;
	struct marks_verdict *v = s->verdicts;

	for (; next < s->end; at = next++) {
		v[at].above = mark_between(&frames[at], &frames[next], packed);
		if (frames[at].rule.state == CFI_END || is_cut(v[at].above))
			return false;
		if (!frames[next].executable) {
			judge_last(&frames[at], packed, RPROF_STOP_NOT_EXEC, &v[at]);
			return false;
		}
		v[next].shown = true;
	}
	if (s->last)
		judge_last(&frames[at], packed, s->stop, &v[at]);
	return !s->last;
}

/*
 * The frame is up, but its return address is in the register (@at; s->first: we do not have it): the
 * first chain frame, at @next, is a stale word in the caller's place, and what it links to is the
 * caller's.
 */
static bool judge_stand_in(const struct segment *s, size_t at, size_t next, bool packed)
{
	const struct marks_frame *f = &s->frames[s->first];
	const bool known = at != s->first;
	enum mark mark;

	if (next == s->end) {
		if (!known)
			return cut_at(s, at, MARK_NOT_LINKED);
		judge_last(&s->frames[at], packed, s->stop, &s->verdicts[at]);
		if (s->verdicts[at].above == MARK_NONE && s->frames[at].rule.state != CFI_END)
			return cut_at(s, at, MARK_NOT_LINKED);
		return false;
	}
	mark = (f->rule.state == CFI_FP_UNLINKED) == (s->frames[next].how == RPROF_HOW_CHAIN_REG) ?
		       MARK_NONE :
		       MARK_NOT_LINKED;
	if (mark || f->rule.packed != packed || f->rule.wrapper)
		return cut_at(s, at, MARK_NOT_LINKED);
	s->verdicts[next++].stands_in = true;
	if (known && next == s->end && !s->last)
		return true;
	if (known)
		return judge_chain(s, at, next, packed);
	if (!f->rule.keeps_fp || next == s->end || !s->frames[next].executable)
		return cut_at(s, at,
			      next == s->end && !s->last ? MARK_SIGNAL_FRAME : MARK_NOT_LINKED);
	s->verdicts[at].above = MARK_CALLER_UNKNOWN;
	s->verdicts[next].shown = true;
	return judge_chain(s, next, next + 1, packed);
}

/*
 * The kernel side has read the code of a trampoline, so that what comes after it is proven; its rule,
 * if it has one, only says that it is a signal frame.
 * Return: is frame s->end the next one of the stack?
 */
static bool judge_segment(const struct segment *s)
{
	const struct marks_frame *frames = s->frames;
	const struct cfi_rule *rule = &frames[s->first].rule;
	size_t at, next = s->first + 1;
	bool packed;

	while (next < s->end && marks_is_word(frames[next].how))
		next++;
	at = proven_caller(frames, s->first, next);
	s->verdicts[at].shown = true;
	if (!s->last && at == s->end - 1)
		return true;
	/* The trampoline is a word, and not the caller. */
	if (!s->last && next == s->end)
		return cut_at(s, at, MARK_SIGNAL_FRAME);
	packed = rule->packed && next < s->end && frames[next].how == RPROF_HOW_CHAIN_REG;
	if (rule->ra == CFI_RA_REGISTER &&
	    (rule->state == CFI_FP_UP || rule->state == CFI_FP_UNLINKED))
		return judge_stand_in(s, at, next, packed);
	/* Its frame may be up, but the register is what the interrupted one made of it. */
	if (at != s->first && rule->state != CFI_FP_UNTOUCHED)
		return cut_at(s, at, frames[at].rule.state == CFI_END ? MARK_NONE : mark_of(rule));
	/* A wrapper at sp: before 6.12 any old word is in the place of its link, and was followed. */
	if (at != s->first && frames[at].rule.wrapper)
		return cut_at(s, at, MARK_NOT_LINKED);
	return judge_chain(s, at, next, packed);
}

void marks_judge(const struct marks_frame *frames, size_t n, unsigned int stop,
		 struct marks_verdict *verdicts)
{
	struct segment s = { .frames = frames, .verdicts = verdicts, .stop = stop };

	memset(verdicts, 0, n * sizeof(*verdicts));
	for (size_t i = 0; i < n; i++)
		verdicts[i].blame = i;
	for (; s.first < n; s.first = s.end) {
		s.end = s.first + 1;
		while (s.end < n && frames[s.end].how != RPROF_HOW_SIGNAL)
			s.end++;
		s.last = s.end == n;
		verdicts[s.first].shown = true;
		if (!judge_segment(&s))
			return;
		if (!frames[s.end].executable) {
			verdicts[s.end - 1].above = MARK_STOP;
			verdicts[s.end - 1].stop = RPROF_STOP_NOT_EXEC;
			return;
		}
	}
}
