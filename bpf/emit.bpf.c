// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "scratch.bpf.h"
#include "emit.bpf.h"
#include "python.bpf.h"

#define HASH_CHUNK 64
#define CODES_PER_SAMPLE 32 /* 6 us each; the others user space reads itself */
#define CODE_CALLS (RPROF_MAX_PYTHON / RPROF_CHUNK)
#define HASH_CALLS ((RECORD_WORDS + HASH_CHUNK - 1) / HASH_CHUNK)

extern const volatile struct rprof_config rprof_config;

static __always_inline u64 mix(u64 h, u64 word)
{
	return rprof_mix(h, word, rprof_config.hash_key);
}

/* Names of what a new stack has, before it. */
static __always_inline void send_codes(struct rprof_cpu *cpu, u32 slot)
{
	struct py_scratch *py = py_at(slot);

	if (!py)
		return;
	py->sent_budget = CODES_PER_SAMPLE;
	py->reads = py->faults = 0; /* --verify's */
	for (int i = 0; i < CODE_CALLS; i++)
		if (code_chunk(slot, i * RPROF_CHUNK))
			break;
	py_count_reads(py, cpu);
}

/* The thread's stack is what it was at its last sample. */
static __always_inline void note_stack(const struct scratch *s, struct rprof_cpu *cpu, u64 id)
{
	u32 tid = s->tid;
	struct py_thread *t = bpf_map_lookup_elem(&rprof_threads, &tid);

	if (!t)
		return;
	if (t->stack == id)
		cpu->counters[RPROF_COUNT_UNCHANGED]++;
	t->stack = id;
}

__noinline int hash_chunk(u32 slot)
{
	struct scratch *s = scratch_at(slot);
	u64 h, at;

	if (!s)
		return 1;
	h = s->hash;
	at = s->hash_at;
	for (int i = 0; i < HASH_CHUNK; i++) {
		if (at >= s->n_words)
			break;
		/* The bound that clang proves and would delete is the one the verifier needs. */
		asm volatile("" : "+r"(at));
		if (at >= RECORD_WORDS)
			break;
		h = mix(h, s->words[at]);
		at++;
	}
	s->hash = h;
	s->hash_at = at;
	return at >= s->n_words;
}

/* The 64-bit id of all that follows the id in the record. */
static __always_inline u64 stack_id(struct scratch *s, u32 slot)
{
	const u64 *head = (const u64 *)&s->stack.tgid;
	u64 h = rprof_config.hash_seed;

	h = mix(h, head[0]);			/* tgid, space */
	h = mix(mix(h, head[1]), ~h);		/* comm */
	h = mix(mix(h, head[2]), ~h);
	h = mix(h, head[3]);			/* counts, two stops */
	h = mix(h, head[4]);			/* the third stop */
	s->hash = h;
	s->hash_at = 0;
	for (int i = 0; i < HASH_CALLS; i++)
		if (hash_chunk(slot))
			break;
	return s->hash;
}

/* Is there more of it that user space may read? It must do so at once. */
static __always_inline bool is_cut(const struct scratch *s)
{
	return s->stack.stop_native == RPROF_STOP_FAULT || s->stack.stop_python == RPROF_STOP_FAULT;
}

/* rprof_sample.faults of a stack that is cut. */
static __always_inline u32 faults_so_far(void)
{
	u64 task = bpf_get_current_task(), n[2]; /* minor, major */

	if (!rprof_config.task_faults ||
	    bpf_probe_read_kernel(n, sizeof(n), (void *)(task + rprof_config.task_faults)))
		return 0;
	return n[0] + n[1] + 1;
}

/* Wake user space only when it is late: a wake-up is a self-interrupt of 5 us (bpf-limits.md 10). */
static __always_inline u64 ring_flags(const struct scratch *s)
{
	if (is_cut(s))
		return BPF_RB_FORCE_WAKEUP;
	if (bpf_ringbuf_query(&rprof_ring, BPF_RB_AVAIL_DATA) >= rprof_config.ring_quarter)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline int send_stack(struct scratch *s, struct rprof_cpu *cpu, u64 flags)
{
	u64 len = s->n_words;

	asm volatile("" : "+r"(len));
	if (len > RECORD_WORDS)
		return -1;
	len = sizeof(s->stack) + len * 8;
	s->stack.h.type = RPROF_RECORD_STACK;
	s->stack.h.flags = 0;
	s->stack.h.len = len;
	s->stack.time_ns = s->time_ns;
	if (bpf_ringbuf_output(&rprof_ring, &s->stack, len, flags))
		return -1;
	cpu->counters[RPROF_COUNT_STACKS]++;
	return 0;
}

__noinline int emit_sample(u32 slot)
{
	struct scratch *s = scratch_at(slot);
	struct rprof_cpu *cpu = this_cpu();
	struct rprof_sample sample = {};
	u64 id, flags;

	if (!s || !cpu)
		return 0;
	id = stack_id(s, slot);
	s->stack.stack = id;
	flags = ring_flags(s);
	sample.time_ns = s->time_ns;
	if (s->stack.n_python)
		note_stack(s, cpu, id);
	if (!bpf_map_lookup_elem(&rprof_seen, &id)) {
		if (s->stack.n_python)
			send_codes(cpu, slot);
		if (send_stack(s, cpu, flags))
			goto lost;
		/* Remembered only now: a stack the ring refused is sent again. */
		bpf_map_update_elem(&rprof_seen, &id, &sample.time_ns, BPF_ANY);
	}
	sample.h.type = RPROF_RECORD_SAMPLE;
	sample.h.len = sizeof(sample);
	sample.stack = id;
	sample.value = 1;
	sample.tid = s->tid;
	sample.cpu = bpf_get_smp_processor_id();
	if (is_cut(s))
		sample.faults = faults_so_far();
	if (bpf_ringbuf_output(&rprof_ring, &sample, sizeof(sample), flags))
		goto lost;
	cpu->counters[RPROF_COUNT_SAMPLES]++;
	return 0;
lost:
	cpu->counters[RPROF_STOP_LOST_RING]++;
	return 0;
}
