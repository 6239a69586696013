/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A Python process for thread.h: a runtime, interpreters, thread states, stacks of frames, code
 * objects and strings, laid out as each version of CPython lays them out. Tests change a model and
 * write it to memory; what the walker has to find is said by the model alone.
 */
#ifndef RPROF_HOSTBPF_PYTHON_H
#define RPROF_HOSTBPF_PYTHON_H

#include "python_layouts.h"
#include "python_native.h"

#define TASK_TP 2048u
#define TASK_START 2056u

#define RUNTIME 0x900000ULL
#define CODE_TYPE (RUNTIME + 0x1000)
#define RUNTIME_END (RUNTIME + 0x2000)
#define INTERPS 0xa00000ULL
#define INTERP_SIZE 0x2000ULL
#define MAX_INTERPS 8
#define HEAP 0x7f1000000000ULL
#ifndef HEAP_SIZE
#define HEAP_SIZE 0x200000ULL
#endif
#define STATE_SIZE 1024u
#define BASE_FRAME 888u		/* of a thread state, 3.15 */
#define ROOT_CFRAME 320u	/* of a thread state, 3.11 and 3.12 */
#define FRAMES 0x7f1800000000ULL	/* frames that lie in objects: of a thread, by depth */
#ifndef FRAMES_SIZE
#define FRAMES_SIZE 0x80000ULL
#endif
#define CHUNKS 0x7f2000000000ULL
#define CHUNK_SIZE 0x4000ULL
#define CHUNK_DATA 24u
#define MAX_CHUNKS 16
#define MAX_FRAMES 1200

#define TP(i) (0x7f3000000000ULL + 0x1000 * (u64)(i))

enum py_kind { PY_FRAME, PY_GENERATOR, PY_SHIM };

/* One link of a chain. */
struct py_frame {
	enum py_kind kind;
	u64 addr, end;
	u64 code;
	u32 instr;		/* code units */
	u32 tag;		/* of the reference to the code object */
	u32 tlbc;		/* copy of the bytecode that it runs */
	u64 entry;		/* 3.11: _PyCFrame of the activation that it is the first of */
};

/* A thread and its frames, root first. */
struct py_stack {
	u64 tstate, interp, tp;
	u32 tid;
	u32 n;
	u32 first_chunk, chunk;	/* numbers of its chunks */
	u64 top;		/* of the data stack */
	struct py_frame frames[MAX_FRAMES];
};

struct py_image {
	struct rprof_python p;
	u64 heap;		/* next free byte */
	u32 n_interps;
	u32 n_chunks;		/* that exist */
	u32 n_native;
	u32 co_version;		/* last one given */
	u64 generation;
};

static struct py_image py;

static inline bool py_has(u32 flag)
{
	return py.p.flags & flag;
}

static inline u64 py_alloc(u64 size)
{
	u64 at = py.heap;

	py.heap += (size + 15) & ~15ULL;
	assert_true(py.heap <= HEAP + HEAP_SIZE);
	return at;
}

static inline void py_half(u64 addr, u32 value)
{
	host_poke_bytes(addr, &value, sizeof(value));
}

static inline u64 py_peek(u64 addr)
{
	u64 word = 0;

	host_peek(addr, &word, sizeof(word));
	return word;
}

static inline u32 py_peek_half(u64 addr)
{
	u32 half = 0;

	host_peek(addr, &half, sizeof(half));
	return half;
}

/* The table of the process, as user space writes it. */
static inline void py_table(const struct rprof_python *p)
{
	u32 index = 0;

	bpf_map_update_elem(&rprof_pythons, &index, p, BPF_ANY);
}

static inline struct rprof_config py_config(u32 flags)
{
	struct rprof_config config = thread_config();

	config.task_tp = TASK_TP;
	config.task_start = TASK_START;
	config.flags = flags;
	return config;
}

static inline void py_flags(u32 flags)
{
	struct rprof_config config = py_config(flags);

	host_config(&config);
}

/* The newest interpreter is the first of the list. */
static inline u64 py_interp(void)
{
	u64 interp = INTERPS + INTERP_SIZE * py.n_interps++, head = RUNTIME;

	assert_true(py.n_interps <= MAX_INTERPS);
	head += py.p.runtime_interpreters;
	host_poke(interp + py.p.interp_next, py_peek(head));
	host_poke(head, interp);
	host_poke(head + 8, INTERPS); /* .main */
	return interp;
}

/* _status: initialized, bound, and bound_gilstate or not. */
static inline void py_bind(u64 ts, bool gilstate)
{
	const u32 first = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 0xc0000000 : 3;

	py_half(ts + py.p.ts_status, first | (u32)gilstate << py.p.status_bit);
}

static inline void py_unbind(u64 ts)
{
	py_bind(ts, false);
}

/* Into the list of @interp, as its first; bound to its thread. */
static inline u64 py_state(u64 interp, u64 tp, u32 tid)
{
	u64 ts = py_alloc(STATE_SIZE);

	host_poke(ts + py.p.ts_next, py_peek(interp + py.p.interp_threads));
	host_poke(interp + py.p.interp_threads, ts);
	host_poke(ts + py.p.ts_interp, interp);
	host_poke(ts + py.p.ts_thread_id, tp);
	if (py.p.ts_native_tid)
		host_poke(ts + py.p.ts_native_tid, tid);
	if (py_has(RPROF_PYTHON_STATUS))
		py_bind(ts, true);
	return ts;
}

/* The layout of @version in this machine's byte order. */
static inline struct rprof_python py_layout(u32 version)
{
	struct rprof_python p = python_layouts[version];

	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) {
		p.str_kind_shift = 32 - 3 - p.str_kind_shift;
		p.str_compact_bit = 31 - p.str_compact_bit;
		p.str_ascii_bit = 31 - p.str_ascii_bit;
		p.status_bit = 31 - p.status_bit;
	}
	return p;
}

/* The process becomes Python of @version, with its main interpreter, at its exec number @execs. */
static inline void py_image(u32 version, u32 execs)
{
	py = (struct py_image){ .p = py_layout(version), .heap = HEAP, .generation = 1 };
	py.p.runtime = RUNTIME;
	py.p.code_type = CODE_TYPE;
	py.p.execs = execs + 1;
	host_user_region(RUNTIME, RUNTIME_END - RUNTIME);
	host_user_region(INTERPS, MAX_INTERPS * INTERP_SIZE);
	host_user_region(HEAP, HEAP_SIZE);
	host_user_region(FRAMES, MAX_CHUNKS / 4 * FRAMES_SIZE);
	py_table(&py.p);
	py_interp();
}

/* Power on, with such a process. */
static inline void py_start(u32 version)
{
	thread_setup(NULL);
	py_flags(0);
	py_image(version, 0);
}

/* The chain that is up when the thread is sampled: entry 0 is the pc, @n callers. */
static inline void py_native(u32 n)
{
	native_chain(n);
	py.n_native = n + 1;
}

/* An address in native frame @i; not the last, whose end is not known. */
static inline u64 in_native(u32 i)
{
	return native_low(i) + 0x40;
}

/* .code of the shim at @addr: 1 + the native frame that it lies in. */
static inline u64 py_native_of(u64 addr)
{
	for (u32 i = 0; i + 1 < py.n_native; i++) {
		if (addr >= native_low(i) && addr < native_low(i + 1))
			return i + 1;
	}
	return 0;
}

/* Strings and code objects. */

static inline u64 py_text_write(u64 at, const void *text, u32 length, u32 kind, bool ascii)
{
	u64 hash = ~0ULL;

	host_poke(at + py.p.str_length, length);
	host_poke(at + py.p.str_hash, hash);
	py_half(at + py.p.str_state, kind << py.p.str_kind_shift | 1u << py.p.str_compact_bit |
					     (u32)ascii << py.p.str_ascii_bit);
	host_poke_bytes(at + (ascii ? py.p.str_ascii : py.p.str_compact), text, length * kind);
	return at;
}

#define TEXT_ROOM 600u

static inline u64 py_text(const char *text)
{
	return py_text_write(py_alloc(TEXT_ROOM + 80), text, strlen(text), 1, true);
}

#define CODE_SIZE 512u
#define CODE_UNITS 100000u	/* instructions of each, which ob_size counts in 3.11 and 3.12 */

/* The object at @code says that; all its words but co_version are the same for equal arguments. */
static inline void py_code_write(u64 code, u64 name, u64 file, u64 lines, u32 firstlineno)
{
	host_poke(code + py.p.co_type, CODE_TYPE);
	host_poke(code + py.p.co_name, name);
	host_poke(code + py.p.co_filename, file);
	host_poke(code + py.p.co_lines, lines);
	py_half(code + py.p.co_firstlineno, firstlineno);
	if (py_has(RPROF_PYTHON_CFRAME))
		host_poke(code + 16, CODE_UNITS);
	if (py_has(RPROF_PYTHON_CODE_VERSION))
		py_half(code + py.p.co_version, ++py.co_version);
}

static inline u64 py_code(const char *name, const char *file, u32 firstlineno)
{
	u64 lines = py_alloc(128), code = py_alloc(CODE_SIZE);

	host_poke(lines + py.p.bytes_size, 20);
	host_poke_bytes(lines + py.p.bytes_data, "lines of a function ", 20);
	py_code_write(code, py_text(name), py_text(file), lines, firstlineno);
	return code;
}

/* What the interpreter counts when it frees a code object: in every one of them here. */
static inline void py_freed(void)
{
	py.generation++;
	if (py_has(RPROF_PYTHON_GENERATION))
		for (u32 i = 0; i < py.n_interps; i++)
			host_poke(INTERPS + i * INTERP_SIZE + py.p.interp_generation,
				  py.generation);
}

/* First byte of copy @tlbc of the bytecode; any but the first is said by co_tlbc. */
static inline u64 py_bytecode(u64 code, u32 tlbc)
{
	return tlbc ? code + 0x100000 * (u64)tlbc : code + py.p.co_code;
}

static inline void py_set_tlbc(u64 code, u32 copies)
{
	u64 array = py_alloc(8 + 8 * (u64)copies);

	host_poke(code + py.p.co_tlbc, array);
	host_poke(array, copies);
	for (u32 i = 1; i < copies; i++)
		host_poke(array + 8 + 8 * (u64)i, py_bytecode(code, i));
}

/* Stacks. */

static inline u64 py_chunk(u32 i)
{
	return CHUNKS + i * 4 * CHUNK_SIZE;
}

/* The next chunk of the thread: two thread's never mix, @first is 4 apart. */
static inline void py_enter_chunk(struct py_stack *s, u32 chunk)
{
	assert_true(chunk < MAX_CHUNKS);
	while (py.n_chunks <= chunk)
		host_user_region(py_chunk(py.n_chunks++), CHUNK_SIZE);
	s->chunk = chunk;
	s->top = py_chunk(chunk) + CHUNK_DATA;
}

static inline void py_thread(struct py_stack *s, u64 interp, u32 i, u32 first_chunk)
{
	*s = (struct py_stack){ .interp = interp, .tp = TP(i), .tid = TID + i };
	s->tstate = py_state(interp, s->tp, s->tid);
	s->first_chunk = first_chunk;
	py_enter_chunk(s, first_chunk);
}

static inline u64 py_frame_size(void)
{
	return (py.p.f_read + 8 + 7) & ~7u;
}

/* Where frame @i of the thread lies if it is part of an object. */
static inline u64 py_object_frame(const struct py_stack *s, u32 i)
{
	return FRAMES + s->first_chunk / 4 * FRAMES_SIZE + i * 256;
}

static inline struct py_frame *py_push(struct py_stack *s, enum py_kind kind, u64 code, u32 instr)
{
	struct py_frame *f = &s->frames[s->n++];

	assert_true(s->n <= MAX_FRAMES);
	*f = (struct py_frame){ .kind = kind, .code = code, .instr = instr };
	if (kind == PY_FRAME && !py_has(RPROF_PYTHON_FRAME_OBJECTS)) {
		u64 size = py_frame_size() + 8 * (instr % 9); /* locals */

		if (s->top + size > py_chunk(s->chunk) + CHUNK_SIZE)
			py_enter_chunk(s, s->chunk + 1);
		f->addr = s->top;
		s->top = f->end = f->addr + size;
	} else if (kind != PY_SHIM) {
		f->addr = py_object_frame(s, s->n - 1);
	}
	return f;
}

/* The evaluator is entered: its frame is at @address of the C stack. 3.11: before its first frame. */
static inline void py_push_shim(struct py_stack *s, u64 address)
{
	if (!py_has(RPROF_PYTHON_IS_ENTRY | RPROF_PYTHON_FRAME_OBJECTS))
		py_push(s, PY_SHIM, 0, 0)->addr = address;
}

static inline void py_pop(struct py_stack *s)
{
	const struct py_frame *f = &s->frames[--s->n];

	if (f->kind != PY_FRAME || py_has(RPROF_PYTHON_FRAME_OBJECTS))
		return;
	if (f->addr == py_chunk(s->chunk) + CHUNK_DATA && s->chunk > s->first_chunk) {
		s->chunk--;
		for (u32 i = s->n; i--;)
			if (s->frames[i].kind == PY_FRAME) {
				s->top = s->frames[i].end;
				return;
			}
	}
	s->top = f->addr;
}

static inline u8 py_owner(const struct py_frame *f)
{
	return f->kind == PY_SHIM ? 3 : f->kind == PY_GENERATOR;
}

static inline void py_write_frame(const struct py_frame *f, u64 previous)
{
	u64 start = py_bytecode(f->code, f->tlbc);
	u8 owner = py_owner(f), entry = f->entry != 0;

	host_poke(f->addr + py.p.f_code, f->kind == PY_SHIM ? CODE_TYPE + 64 : f->code | f->tag);
	host_poke(f->addr + py.p.f_previous, previous);
	if (py_has(RPROF_PYTHON_FRAME_OBJECTS)) {
		py_half(f->addr + py.p.f_instr,
			py_has(RPROF_PYTHON_LASTI_BYTES) ? 2 * f->instr : f->instr);
		return;
	}
	host_poke(f->addr + py.p.f_instr, f->kind == PY_SHIM ? 0 : start + 2 * (u64)f->instr);
	host_poke_bytes(f->addr + py.p.f_owner, &owner, 1);
	if (py_has(RPROF_PYTHON_IS_ENTRY))
		host_poke_bytes(f->addr + py.p.f_entry, &entry, 1);
	if (py.p.f_tlbc)
		py_half(f->addr + py.p.f_tlbc, f->tlbc);
}

/* 3.11: the _PyCFrame of each activation says its newest frame and the one before it. */
static inline u64 py_write_cframes(const struct py_stack *s)
{
	u64 cframe = s->tstate + ROOT_CFRAME, newest = 0;

	host_poke(cframe + py.p.cframe_previous, 0);
	for (u32 i = 0; i < s->n; i++) {
		const struct py_frame *f = &s->frames[i];

		if (f->entry) {
			host_poke(cframe + py.p.cframe_frame, newest);
			host_poke(f->entry + py.p.cframe_previous, cframe);
			cframe = f->entry;
		}
		newest = f->addr;
	}
	host_poke(cframe + py.p.cframe_frame, newest);
	return cframe;
}

/* Everything of the thread to memory, which runs from now on. */
static inline void py_write(const struct py_stack *s)
{
	u64 previous = 0, ts = s->tstate;

	if (py_has(RPROF_PYTHON_BASE_FRAME)) {
		const struct py_frame base = { .kind = PY_SHIM, .addr = ts + BASE_FRAME };

		py_write_frame(&base, 0);
		host_poke(ts + py.p.ts_base_frame, base.addr);
		previous = base.addr;
	}
	for (u32 i = 0; i < s->n; i++) {
		py_write_frame(&s->frames[i], previous);
		previous = s->frames[i].addr;
	}
	host_poke(ts + py.p.ts_frame, previous);
	if (py_has(RPROF_PYTHON_CFRAME))
		host_poke(ts + py.p.ts_frame, py_write_cframes(s));
	if (py.p.ts_chunk)
		host_poke(ts + py.p.ts_chunk, py_chunk(s->chunk));
}

/* This thread is the one that is sampled. */
static inline void py_run(const struct py_stack *s)
{
	host.tid = s->tid;
	host_kernel_poke(KTASK + TASK_TP, s->tp);
	host_kernel_poke(KTASK + TASK_START, s->tid);
	if (py.p.runtime_current)
		host_poke(RUNTIME + py.p.runtime_current, s->tstate);
}

#endif
