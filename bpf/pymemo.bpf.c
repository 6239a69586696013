// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Which code object lies at an address? Reading it is the proof. It need not be read where it was
 * read before and no code object was freed since (3.14 on, the interpreter counts that), nor twice in
 * one sample, whose thread is held.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "python.bpf.h"

static __always_inline bool memo_holds(const struct py_scratch *py, const struct py_memo *m,
				       u64 frame, u64 code)
{
	return m->frame == frame && m->code == code && m->generation == (u32)py->generation;
}

/* Return: as code_fingerprint(), which is asked unless no code object was freed since it was. */
static __always_inline int known_fingerprint(const struct scratch *s, struct py_scratch *py,
					     u32 slot, u64 code)
{
	struct code_key key = { .code = code, .tgid = s->stack.tgid, .execs = py->execs };
	struct code_known *known;
	int err;

	known = py->generation ? bpf_map_lookup_elem(&rprof_code, &key) : NULL;
	if (known && known->generation == py->generation) {
		py->fingerprint = known->fingerprint;
		py->frames_equal++;
		return 0;
	}
	py->frames_new++;
	err = code_fingerprint(slot, code);
	/* Should the map give this element to another object meanwhile, that is read once more. */
	if (!err && known && known->fingerprint == py->fingerprint)
		known->generation = py->generation;
	return err;
}

/* The same code object again, in one stack: recursion, mostly. */
static __always_inline int met_fingerprint(const struct scratch *s, struct py_scratch *py, u32 slot,
					   u64 code)
{
	u64 place = (code >> 4) ^ (code >> 8);
	struct py_met *met;
	int err;

	asm volatile("" : "+r"(place));
	met = &py->met[place & (PY_MET - 1)];
	if (met->time_ns == s->time_ns && met->code == code) {
		py->fingerprint = met->fingerprint;
		py->frames_equal++;
		return 0;
	}
	err = known_fingerprint(s, py, slot, code);
	if (!err) {
		met->time_ns = s->time_ns;
		met->code = code;
		met->fingerprint = py->fingerprint;
	}
	return err;
}

/* Threads mostly come back to the same frames. */
static __always_inline void memorize(const struct scratch *s, struct py_scratch *py, u64 slot,
				     u64 frame, u64 code, u32 fingerprint)
{
	u32 tid = s->tid;
	struct py_thread *t = bpf_map_lookup_elem(&rprof_threads, &tid);
	const struct py_memo memo = {
		.frame = frame,
		.code = code,
		.fingerprint = fingerprint,
		.generation = py->generation,
	};

	asm volatile("" : "+r"(slot));
	slot &= PY_MEMO - 1;
	py->last.memo[slot] = memo;
	if (t)
		t->memo[slot] = memo;
}

/* Fingerprint of the code object of a frame: py->fingerprint. As code_fingerprint(). */
__noinline int python_fingerprint(u32 slot, u64 frame, u64 code)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	/* Frames lie at least 80 bytes apart. */
	u64 place = ((frame >> 4) ^ (frame >> 10)) & (PY_MEMO - 1);
	int err;

	asm volatile("" : "+r"(frame), "+r"(code));
	if (!py || !s)
		return 1;
	if (py->plain) {
		py->frames_new++;
		return code_fingerprint(slot, code);
	}
	asm volatile("" : "+r"(place));
	if (py->generation && memo_holds(py, &py->last.memo[place & (PY_MEMO - 1)], frame, code)) {
		py->fingerprint = py->last.memo[place & (PY_MEMO - 1)].fingerprint;
		py->frames_equal++;
		return 0;
	}
	err = met_fingerprint(s, py, slot, code);
	if (!err && py->generation)
		memorize(s, py, place, frame, code, py->fingerprint);
	return err;
}
