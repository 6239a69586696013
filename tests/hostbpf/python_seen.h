/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a sample of a Python thread has to be, by the model of python.h, and what it was. */
#ifndef RPROF_HOSTBPF_PYTHON_SEEN_H
#define RPROF_HOSTBPF_PYTHON_SEEN_H

#include "python.h"

/* The rule of rprof/hash.h, word by word from memory. */
static inline u64 py_mix(u64 h, u64 word)
{
	h = (h ^ word) * thread_config().hash_key;
	return h ^ h >> 32;
}

static inline u64 py_mix_text(u64 h, u64 text)
{
	u64 length = py_peek(text + py.p.str_length), word;
	u32 state = py_peek_half(text + py.p.str_state);
	u64 kind = state >> py.p.str_kind_shift & 7;
	u64 size = length * kind, tail = size < 64 ? size : 64;
	u64 at = text + (state >> py.p.str_ascii_bit & 1 ? py.p.str_ascii : py.p.str_compact);

	if (kind != 1 && kind != 2 && kind != 4)
		return h;
	h = py_mix(py_mix(h, length), py_peek(text + py.p.str_hash));
	for (u64 i = 0; i < 64; i += 8) {
		u64 n = tail > i ? tail - i : 0, before = h;

		word = 0;
		host_peek(at + size - tail + i, &word, n < 8 ? n : 8);
		h = py_mix(h, word);
		h = py_mix(h, ~before);
	}
	return h;
}

static inline u32 py_fingerprint(u64 code)
{
	u64 h = thread_config().hash_seed;
	u32 version = 0;

	for (u64 at = py.p.co_from; at < (u64)py.p.co_type + py.p.co_read; at += 8)
		h = py_mix(h, py_peek(code + at));
	if (py_has(RPROF_PYTHON_CODE_VERSION))
		version = py_peek_half(code + py.p.co_version);
	if (!version) {
		h = py_mix_text(h, py_peek(code + py.p.co_name));
		h = py_mix_text(h, py_peek(code + py.p.co_filename));
	}
	return rprof_fingerprint(h);
}

struct py_seen {
	const struct rprof_stack *stack;
	const struct rprof_python_frame *python;
	u32 n;
	u32 stop;
};

/* Sample the thread in its native frames. */
static inline struct py_seen py_sample(void)
{
	struct bpf_perf_event_data ctx = native_regs();
	const struct rprof_sample *sample;
	struct py_seen seen = {};
	const struct host_record *last;

	assert_int_equal(rprof_clock(&ctx), 0);
	assert_true(host.n_records > 0);
	last = &host.records[host.n_records - 1];
	sample = last->data;
	assert_int_equal(sample->h.type, RPROF_RECORD_SAMPLE);
	seen.stack = find_stack(sample->stack, host.n_records);
	assert_non_null(seen.stack);
	if (stack_wrong(seen.stack))
		fail_msg("%s", stack_wrong(seen.stack));
	seen.n = seen.stack->n_python;
	seen.stop = seen.stack->stop_python;
	seen.python = (const void *)((const u64 *)(seen.stack + 1) + seen.stack->n_kernel +
				     2 * seen.stack->n_native);
	return seen;
}

/* The entries of the record for the model, leaf first. Return: how many, at most as it holds. */
static inline u32 py_expect(const struct py_stack *s, struct rprof_python_frame *out)
{
	const u32 flags = py_has(RPROF_PYTHON_FRAME_OBJECTS) ? RPROF_PY_ENTRY : 0;
	u32 n = 0;

	for (u32 i = s->n; i-- && n < RPROF_MAX_PYTHON;) {
		const struct py_frame *f = &s->frames[i];
		struct rprof_python_frame *o = &out[n++];

		*o = (struct rprof_python_frame){ .where = RPROF_PY_SHIM };
		if (f->kind == PY_SHIM) {
			o->code = py_native_of(f->addr);
			continue;
		}
		o->code = f->code;
		o->fingerprint = py_fingerprint(f->code);
		o->where = f->instr | flags;
		if (f->kind == PY_GENERATOR && !flags)
			o->where |= RPROF_PY_GENERATOR;
		if (f->entry && n < RPROF_MAX_PYTHON)
			out[n++] = (struct rprof_python_frame){ .where = RPROF_PY_SHIM,
								.code = py_native_of(f->entry) };
	}
	return n;
}

static inline void assert_python_frames(const struct py_seen *seen,
					const struct rprof_python_frame *expected, u32 n, u32 stop)
{
	assert_int_equal(seen->stop, stop);
	assert_int_equal(seen->n, n);
	for (u32 i = 0; i < n; i++) {
		assert_int_equal(seen->python[i].code, expected[i].code);
		assert_int_equal(seen->python[i].where, expected[i].where);
		assert_int_equal(seen->python[i].fingerprint, expected[i].fingerprint);
	}
}

/* How a walk of the whole model ends: where there are entry frames, behind one or not properly. */
static inline u32 py_ending(const struct py_stack *s)
{
	const struct py_frame *root = &s->frames[0];

	if (!s->n || py_has(RPROF_PYTHON_BASE_FRAME | RPROF_PYTHON_FRAME_OBJECTS))
		return RPROF_STOP_END;
	/* A generator without a caller is one that is suspended, or about to be. */
	if (s->n == 1 && root->kind == PY_GENERATOR && py_has(RPROF_PYTHON_CFRAME))
		return RPROF_STOP_UNLINKED;
	return root->kind == PY_SHIM || root->entry ? RPROF_STOP_END : RPROF_STOP_BAD_FRAME;
}

/* The sample shows the whole stack of the model. */
static inline void assert_python(const struct py_seen *seen, const struct py_stack *s)
{
	static struct rprof_python_frame expected[RPROF_MAX_PYTHON];

	assert_python_frames(seen, expected, py_expect(s, expected), py_ending(s));
}

/* Sampled now, it is what the model says. */
static inline void py_right(const struct py_stack *s)
{
	struct py_seen seen = py_sample();

	assert_python(&seen, s);
}

#endif
