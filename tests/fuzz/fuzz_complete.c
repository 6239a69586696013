// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks and frames of the interpreter in memory that is all the target's: whatever lies there, what
 * comes out is a record that passes. The input is the memory, at MEMORY; the stack is cut at its begin.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "complete.h"
#include "monotonic.h"
#include "record.h"
#include "../unit/python_layout.h"

#define MEMORY 0x7f0000000000ULL

static const uint8_t *memory;
static size_t memory_size;
static struct rprof_python layout;

static size_t read_memory(void *ctx, const struct python_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const __u64 at = ranges[i].addr - MEMORY;

		/* Pages are there or not, so the last one is filled with zeros. */
		if (at >= memory_size)
			return i;
		memset(ranges[i].to, 0, ranges[i].len);
		memcpy(ranges[i].to, memory + at,
		       ranges[i].len < memory_size - at ? ranges[i].len : memory_size - at);
	}
	return n;
}

static const struct rprof_python *offsets(void *ctx, __u32 tgid, struct python_memory *m)
{
	*m = (struct python_memory){ .read = read_memory };
	return &layout;
}

static __u32 faults(__u32 tgid, __u32 tid)
{
	return 1;
}

static __u64 word(size_t at)
{
	__u64 w = 0;

	if (at + sizeof(w) <= memory_size)
		memcpy(&w, memory + at, sizeof(w));
	return w;
}

/* One native and one Python frame, each of which links to what the memory says. */
static void make_cut(struct rprof_stack *s)
{
	struct rprof_native_frame *f;
	struct rprof_python_frame *p;
	const __u64 from = MEMORY, next = word(0), python_from = MEMORY + 128;

	*s = (struct rprof_stack){ .h.type = RPROF_RECORD_STACK, .stack = 1, .tgid = 1 };
	s->n_native = 3;
	s->n_python = 3;
	s->stop_native = s->stop_python = RPROF_STOP_FAULT;
	f = (struct rprof_native_frame *)record_native(s);
	f[0] = (struct rprof_native_frame){ 0x400000, RPROF_HOW_PC };
	f[1] = (struct rprof_native_frame){ word(ARCH_CHAIN_RA), RPROF_HOW_CHAIN };
	f[2] = (struct rprof_native_frame){
		next, RPROF_NATIVE_NEXT | (next - from) << RPROF_NATIVE_NEXT_SHIFT
	};
	p = (struct rprof_python_frame *)record_python(s);
	p[0] = (struct rprof_python_frame){ word(128) & ~7ULL, 1, 0 };
	p[1] = (struct rprof_python_frame){ word(128 + 8), 0, RPROF_PY_NEXT };
	p[2] = (struct rprof_python_frame){ python_from, 0, RPROF_PY_NEXT };
	s->h.len = (__u32)(sizeof(*s) + 3 * sizeof(*f) + 3 * sizeof(*p));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static union {
		struct rprof_stack stack;
		__u64 words[64];
	} cut;
	const struct completer_config config = {
		3, 5, NULL, offsets, faults, 1ULL << 60, NULL, NULL
	};
	struct rprof_sample s = { .tid = 1, .faults = 1 };
	const struct rprof_stack *whole;
	struct completer *c;

	if (size < 1)
		return 0;
	memory = data + 1;
	memory_size = size - 1;
	layout = image_layout;
	/* The first byte: flags that the walk looks at. */
	layout.flags = (__u16)(data[0] & 0x3b) | RPROF_PYTHON_CODE_VERSION;
	layout.f_read = 80;
	layout.f_previous = 8;
	layout.f_instr = 56;
	layout.f_owner = 70;
	layout.f_entry = 71;
	layout.f_tags = data[0] >> 6;
	layout.f_tlbc = data[0] & 0x40 ? 72 : 0;
	layout.co_code = 200;
	layout.co_tlbc = 192;
	make_cut(&cut.stack);
	c = completer_new(&config);
	if (!c)
		return 0;
	s.time_ns = monotonic_ns();
	if (completer_wants(&cut.stack)) {
		whole = completer_complete(c, &s, &cut.stack, NULL);
		if (whole && (record_check(whole, whole->h.len) || completer_wants(whole)))
			abort();
	}
	completer_free(c);
	return 0;
}
