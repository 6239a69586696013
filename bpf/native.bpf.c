// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * From a frame to its caller, until the chain ends or cannot be trusted. Knows no register names:
 * those are arch/ only. What a chain alone cannot prove is for analysis to mark (user/marks.c).
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "code.bpf.h"
#include "native.bpf.h"
#include "python.bpf.h"
#include "arch/arch.h"

#define SEARCH_STEPS 14	/* 2^13 = RPROF_MAX_MAPPINGS mappings, and one to end on */

_Static_assert(RPROF_MAX_MAPPINGS <= 1 << (SEARCH_STEPS - 1), "search reaches every mapping");

__noinline int find_mapping(u32 slot)
{
	struct scratch *s = scratch_at(slot);
	struct rprof_mapping *m;
	u32 lo, hi, end;

	if (!s)
		return 0;
	lo = s->table_first;
	hi = end = lo + s->table_count;
	s->searches++;
	for (int i = 0; i < SEARCH_STEPS; i++) {
		u32 mid = lo + (hi - lo) / 2;

		if (lo >= hi)
			break;
		m = bpf_map_lookup_elem(&rprof_mappings, &mid);
		if (!m)
			break;
		if (s->want < m->start) {
			hi = mid;
		} else if (s->want >= m->end) {
			lo = mid + 1;
		} else {
			s->found = *m;
			return 1;
		}
	}
	/* The main stack grows into the gap below it; nothing else is mapped there. */
	if (lo < hi || lo >= end)
		return 0;
	m = bpf_map_lookup_elem(&rprof_mappings, &lo);
	if (!m || !(m->flags & RPROF_MAPPING_GROWSDOWN))
		return 0;
	s->found = *m;
	return 1;
}

static __always_inline bool inside(const struct rprof_mapping *m, u64 addr)
{
	return addr >= m->start && addr < m->end;
}

/* What a full table does not hold may have been mapped since: analysis looks again (UNCHECKED). */
__noinline int executable(u32 slot, u64 addr)
{
	struct scratch *s = scratch_at(slot);

	if (!s)
		return CODE_NO;
	s->exec_flags = 0;
	if (addr < LOWEST_CODE)
		return CODE_NO;
	if (!s->table_count)
		return CODE_UNKNOWN;
	if (inside(&s->exec_map, addr)) {
		s->exec_flags = s->exec_map.flags;
		return CODE_YES;
	}
	if (inside(&s->exec_map2, addr)) {
		s->exec_flags = s->exec_map2.flags;
		return CODE_YES;
	}
	s->want = addr;
	/* The gap that the main stack may grow into may hold something else by now. */
	if (!find_mapping(slot) || addr < s->found.start)
		return CODE_UNKNOWN;
	if (!(s->found.flags & RPROF_MAPPING_EXEC))
		return CODE_NO;
	s->exec_map2 = s->exec_map;
	s->exec_map = s->found;
	s->exec_flags = s->found.flags;
	return CODE_YES;
}

/* @low: lowest address of the frame, for the shims of Python that lie in it */
static __always_inline int push_frame(struct scratch *s, u32 slot, u64 pc, u64 how, u64 low)
{
	u64 at = s->n_words, n = s->stack.n_native;
	struct py_scratch *py;

	asm volatile("" : "+r"(at));
	if (at > RECORD_WORDS - 2)
		return walk_stop(s, RPROF_STOP_DEPTH);
	asm volatile("" : "+r"(n));
	if (n >= RPROF_MAX_NATIVE)
		return walk_stop(s, RPROF_STOP_DEPTH);
	if (s->has_python) {
		py = py_at(slot);
		if (py)
			py->sps[n] = low;
	}
	s->words[at] = pc;
	s->words[at + 1] = how | s->chain_flags;
	s->n_words = at + 2;
	s->stack.n_native++;
	return 0;
}

/*
 * The walk ended with FAULT: where, for who reads the rest from the process (record.h). Left out
 * where nothing bounds the stack, since then a register of other use says it, new in each sample.
 */
static __always_inline void push_next(struct scratch *s, u32 slot)
{
	const struct unwind_frame *f = &s->frame;
	u64 distance = f->link_at ? f->fp - f->link_at : 0;

	if (s->stop != RPROF_STOP_FAULT || s->stack_end == ~0ULL || s->at_pc.packed || !f->fp ||
	    distance >> (64 - RPROF_NATIVE_NEXT_SHIFT))
		return;
	s->chain_flags = distance << RPROF_NATIVE_NEXT_SHIFT;
	if (push_frame(s, slot, f->fp, RPROF_NATIVE_NEXT, f->fp))
		s->stop = RPROF_STOP_FAULT;
}

/* Where does the stack end? Frames beyond that are not its. */
static __always_inline void bound_stack(struct scratch *s, u32 slot)
{
	s->stack_end = ~0ULL;
	s->chain_flags = 0;
	if (!s->table_count) {
		s->chain_flags = RPROF_NATIVE_UNCHECKED;
		return;
	}
	if (!inside(&s->stack_map, s->frame.sp)) {
		s->want = s->frame.sp;
		if (!find_mapping(slot) || !(s->found.flags & RPROF_MAPPING_STACK)) {
			s->chain_flags = RPROF_NATIVE_UNBOUND;
			return;
		}
		s->stack_map = s->found;
	}
	s->stack_end = s->stack_map.end;
}

/* Is nothing proven of a word that was found so? */
static __always_inline bool is_candidate(u32 how)
{
	return how == RPROF_HOW_WORD_SP || how == RPROF_HOW_WORD_SP8 || how == RPROF_HOW_WORD_RA ||
	       how == RPROF_HOW_WORD_SLOT;
}

__noinline int native_signal(u32 slot, u64 ra, u64 at, u32 how)
{
	struct scratch *s = scratch_at(slot);
	struct unwind_frame handler;
	int failed;

	asm volatile("" : "+r"(ra), "+r"(at), "+r"(how));
	if (!s)
		return 0;
	if (bpf_probe_read_user(s->code, ARCH_SIGRETURN_BYTES, (void *)ra) ||
	    !arch_is_sigreturn(s->code))
		return 0;
	handler = s->frame;
	failed = arch_signal_frame(s, slot, at);
	if (is_candidate(how) && (failed || !arch_is_bare_handler(&handler, &s->frame))) {
		s->frame = handler;
		return 0;
	}
	s->in_signal = !failed;
	return failed;
}

/*
 * @pc as the caller of the interrupted frame, if it can be a return address. @after: the lowest
 * address of its frame, where the words of a signal frame are if the one interrupted is a handler
 * that is not up.
 */
static __always_inline int push_caller(struct scratch *s, u32 slot, u64 pc, u64 after, u32 how)
{
	u64 unchecked = 0;

	switch (executable(slot, pc)) {
	case CODE_YES:
		break;
	case CODE_UNKNOWN:
		/* Behind a whole table a mere candidate is noise; without one analysis will know. */
		if (is_candidate(how) && s->table_count)
			return 0;
		unchecked = RPROF_NATIVE_UNCHECKED;
		break;
	default:
		return 0;
	}
	if (push_frame(s, slot, pc, how | unchecked, after))
		return 1;
	if (how == RPROF_HOW_WORD_RA || how == RPROF_HOW_RA)
		s->has_ra = how;
	return arch_may_be_signal(s, after) && native_signal(slot, pc, after, how);
}

/* The same of the word at [sp + @skip]. */
static __always_inline int push_word(struct scratch *s, u32 slot, u64 skip, u32 how)
{
	u64 after = s->frame.sp + skip + 8;
	int at = window_with(slot, after - 8, 8, 8 + ARCH_SIGNAL_BYTES);

	if (at < 0)
		return 0;
	at &= WINDOW - 1;
	return push_caller(s, slot, *(u64 *)(s->window + at), after, how);
}

/* The same of the return address register, and of its place in memory. */
static __always_inline int push_register(struct scratch *s, u32 slot, int how)
{
	u64 sp = s->frame.sp, word;

	/* The words of a signal frame, if this is a handler, lie in the window that the link needs. */
	window_with(slot, sp, 8, ARCH_SIGNAL_BYTES);
	if (how == RPROF_HOW_RA)
		return push_caller(s, slot, s->frame.ra, sp, RPROF_HOW_RA);
	if (!s->at_pc.ra_dead && push_caller(s, slot, s->frame.ra, sp, RPROF_HOW_WORD_RA))
		return 1;
	if (s->in_signal || !arch_ra_slot(s, slot, &word))
		return 0;
	/* It was saved, so it is there still, or the register has been used for something else. */
	if (word != s->frame.ra && executable(slot, s->frame.ra) == CODE_YES)
		return 0;
	return push_caller(s, slot, word, sp, RPROF_HOW_WORD_SLOT);
}

/* An interrupted frame that is not up: what may be its caller, and how well that is proven. */
static __always_inline int push_missing_caller(struct scratch *s, u32 slot)
{
	int how = code_at_pc(slot);

	if (how == RPROF_HOW_CHAIN)
		return 0;
	/* Back from a handler, and about to leave the signal frame. */
	if (how == RPROF_HOW_SIGNAL)
		return native_signal(slot, s->frame.ip, s->frame.sp, RPROF_HOW_PC);
	if (ARCH_RA_REGISTER)
		return push_register(s, slot, how);
	if (how == RPROF_HOW_SP)
		return push_word(s, slot, 0, RPROF_HOW_SP);
	if (how == RPROF_HOW_SP8)
		return push_word(s, slot, 8, RPROF_HOW_SP8);
	if (push_word(s, slot, 0, RPROF_HOW_WORD_SP))
		return 1;
	return s->in_signal ? 0 : push_word(s, slot, 8, RPROF_HOW_WORD_SP8);
}

__noinline int native_interrupted(u32 slot, u32 how)
{
	struct scratch *s = scratch_at(slot);
	u64 unchecked = 0;
	int code;

	asm volatile("" : "+r"(how));
	if (!s)
		return 1;
	s->in_signal = 0;
	s->has_ra = 0;
	s->frame.link_at = 0;
	bound_stack(s, slot);
	code = executable(slot, s->frame.ip);
	s->ip_flags = s->exec_flags;
	/* What runs is code, and the table behind if it does not say so; a signal frame may lie. */
	if (how == RPROF_HOW_SIGNAL && code == CODE_NO)
		return walk_stop(s, RPROF_STOP_NOT_EXEC);
	if (code != CODE_YES)
		unchecked = RPROF_NATIVE_UNCHECKED;
	if (push_frame(s, slot, s->frame.ip, how | unchecked, s->frame.sp))
		return 1;
	s->chain_how = RPROF_HOW_CHAIN;
	s->at_pc.packed = 0;
	/* Stack pointers of user code are 8-aligned on both architectures; if not, trust no word. */
	if (!(s->frame.sp & 7) && push_missing_caller(s, slot))
		return 1;
	return s->in_signal ? 0 : arch_chain_begin(s, slot);
}

__noinline int native_begin(u32 slot)
{
	struct scratch *s = scratch_at(slot);

	if (!s)
		return 1;
	s->window_start = 0;
	s->window_len = 0;
	s->absent_now = 0;
	return native_interrupted(slot, RPROF_HOW_PC);
}

/* The caller by the chain. 1: the walk is over. */
static __always_inline int native_caller(struct scratch *s, u32 slot)
{
	u64 how = s->chain_how;
	bool ra = ARCH_RA_REGISTER && s->has_ra == RPROF_HOW_WORD_RA;
	int code;

	if (arch_frame_next(s, slot)) {
		push_next(s, slot);
		return 1;
	}
	s->chain_how = RPROF_HOW_CHAIN;
	s->has_ra = 0;
	/* The frame's ip is recorded before its link is tested: the outermost has link 0. */
	code = executable(slot, s->frame.ip);
	s->ip_flags = s->exec_flags;
	if (code == CODE_NO) {
		if (!ra)
			return walk_stop(s, RPROF_STOP_NOT_EXEC);
		/* Who is called by it did not save the register, so that it was never written. */
		s->frame.ip = 0;
	}
	if (code == CODE_UNKNOWN)
		how |= RPROF_NATIVE_UNCHECKED;
	if (push_frame(s, slot, s->frame.ip, how, s->frame.sp))
		return 1;
	if (!arch_may_be_signal(s, s->frame.sp))
		return 0;
	if (native_signal(slot, s->frame.ip, s->frame.sp, RPROF_HOW_CHAIN))
		return 1;
	/* A handler with a frame, in which the register was not saved. */
	return ra && !s->in_signal &&
	       native_signal(slot, s->frame.ra, s->frame.sp, RPROF_HOW_WORD_RA);
}

__noinline int native_step(u32 slot)
{
	struct scratch *s = scratch_at(slot);

	if (!s)
		return 1;
	return s->in_signal ? native_interrupted(slot, RPROF_HOW_SIGNAL) : native_caller(s, slot);
}

__noinline int native_chunk(u32 slot)
{
	asm volatile("" : "+r"(slot));
	for (int i = 0; i < RPROF_CHUNK; i++)
		if (native_step(slot))
			return 1;
	return 0;
}
