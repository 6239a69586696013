// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * From one frame of the interpreter to the next, until the chain's end. Every frame's words are read
 * fresh, from a window of the data stack where it lies there: parents have lower addresses. What the
 * last sample knew is used for one thing alone, which fingerprint a code object has, and only as
 * long as no code object was freed since.
 */
#include <vmlinux.h>
#include <bpf/bpf_helpers.h>

#include "maps.bpf.h"
#include "python.bpf.h"

#define WALK_CALLS (RPROF_MAX_PYTHON / RPROF_CHUNK + 2)
#define SHIM_STEPS 32		/* native frames of one global call, of 512 */
#define PLACE_STEPS 16
#define SHIM_CALLS (RPROF_MAX_NATIVE / SHIM_STEPS + 1)
#define OWNER_GENERATOR 1	/* enum _frameowner, Include/internal/pycore_frame.h, 3.11 on */
#define OB_SIZE 16		/* of a PyVarObject, Include/object.h */
#define OWNER_ENTRY 3		/* and above: the interpreter's own entry frames, 3.12 on */
#define FRAME_WORDS 9		/* of 3.11 before its locals */
#define CFRAME_BYTES 24		/* of a _PyCFrame, Include/cpython/pystate.h */
#define MAX_TLBC 65536		/* copies of bytecode, one per thread */

extern const volatile struct rprof_config rprof_config;

/* A field of the frame at .mem[@at]. */
static __always_inline const u8 *field(const struct py_scratch *py, u64 at, u64 offset)
{
	asm volatile("" : "+r"(at), "+r"(offset));
	if (at > PY_WINDOW_AT + WINDOW)
		at = 0;
	return py->mem + at + (offset & (PY_FRAME_BYTES - 1));
}

static __always_inline bool read_window(struct py_scratch *py, u64 start, u64 end)
{
	u64 len = end - start;

	py->window_start = start;
	py->window_len = 0;
	asm volatile("" : "+r"(len));
	if (len > WINDOW || !py_read(py, py->mem + PY_WINDOW_AT, len, start))
		return false;
	py->window_len = len;
	return true;
}

/* A window that ends with the frame at @addr: its parents lie below, not further than the chunk. */
static __always_inline bool window_below(struct py_scratch *py, u64 addr, u64 need)
{
	u64 end = addr + need, start = end - WINDOW;

	if (addr >= py->chunk && start < py->chunk)
		start = py->chunk;
	if (read_window(py, start, end))
		return true;
	/* Across the start of an older chunk: what is left of the page. */
	start = addr & ~(u64)(WINDOW - 1);
	return end - start <= WINDOW && read_window(py, start, end);
}

/* Make the frame at @addr part of .mem. Return: where it begins there; negative: not readable. */
__noinline int python_load(u32 slot, u64 addr)
{
	struct py_scratch *py = py_at(slot);
	u64 offset, need;

	asm volatile("" : "+r"(addr));
	if (!py)
		return -1;
	need = py->p.f_read;
	offset = addr - py->window_start;
	if (offset < WINDOW && offset + need <= py->window_len) {
		py->window_hits++;
		return PY_WINDOW_AT + offset;
	}
	asm volatile("" : "+r"(need));
	if (!need || need > PY_FRAME_BYTES)
		return -1;
	if (!py->compare && py->below - addr < WINDOW && window_below(py, addr, need))
		return PY_WINDOW_AT + (addr - py->window_start);
	return py_read(py, py->mem, need, addr) ? 0 : -1;
}

/* The native frame that address @shim of the C stack lies in, from .native_at on. 1: known. */
__noinline int shim_chunk(u32 slot, u64 shim)
{
	struct py_scratch *py = py_at(slot);
	u64 i;

	asm volatile("" : "+r"(shim));
	if (!py)
		return 1;
	i = py->native_at;
	for (int n = 0; n < SHIM_STEPS; n++) {
		/* Where the last one ends is not known: it is of no use. */
		if (i + 1 >= py->n_sps)
			return 1;
		asm volatile("" : "+r"(i));
		if (i >= RPROF_MAX_NATIVE - 1)
			return 1;
		if (shim >= py->sps[i] && shim < py->sps[i + 1]) {
			py->native_at = i;
			py->shim = i + 1;
			return 1;
		}
		i++;
	}
	py->native_at = i;
	return 0;
}

/* One entry of python[]: into the record, or compared with what is there. 1: the walk is over. */
static __always_inline int put(struct scratch *s, struct py_scratch *py, u64 code, u32 fingerprint,
			       u32 where)
{
	struct rprof_python_frame *f;
	u64 at = py->compare ? py->first + 2 * (u64)py->at : s->n_words;

	asm volatile("" : "+r"(at));
	if (at > RECORD_WORDS - 2 || py->at >= RPROF_MAX_PYTHON) {
		py->stop = RPROF_STOP_DEPTH;
		return 1;
	}
	f = (struct rprof_python_frame *)&s->words[at];
	py->at++;
	py->where = where;
	if (py->compare) {
		if (f->code != code || f->fingerprint != fingerprint || f->where != where)
			py->differs = 1;
		return 0;
	}
	f->code = code;
	f->fingerprint = fingerprint;
	f->where = where;
	s->n_words = at + 2;
	s->stack.n_python++;
	return 0;
}

/* The evaluator was entered here: @address is on its C stack. */
__noinline int python_shim(u32 slot, u64 address)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	u32 from;

	asm volatile("" : "+r"(address));
	if (!py || !s)
		return 1;
	from = py->native_at;
	py->shim = 0;
	for (int i = 0; i < SHIM_CALLS; i++)
		if (shim_chunk(slot, address))
			break;
	/* On another stack, or above where the native walk ended: the next may be on this one. */
	if (py->shim)
		return put(s, py, py->shim, 0, RPROF_PY_SHIM);
	py->native_at = from;
	return put(s, py, 0, s->stop == RPROF_STOP_FAULT ? address : 0, RPROF_PY_SHIM);
}

/* Where native frames [@from, @from + PLACE_STEPS) lie, into their flags (record.h). 1: all done. */
__noinline int place_chunk(u32 slot, u32 from)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);

	asm volatile("" : "+r"(from));
	if (!py || !s)
		return 1;
	for (u32 n = 0; n < PLACE_STEPS; n++) {
		u64 i = (u64)from + n, at;

		if (i >= py->n_sps)
			return 1;
		asm volatile("" : "+r"(i));
		if (i >= RPROF_MAX_NATIVE)
			return 1;
		at = (u64)s->stack.n_kernel + 2 * i + 1;
		asm volatile("" : "+r"(at));
		if (at > RECORD_WORDS - 1)
			return 1;
		if (!(s->words[at] & RPROF_NATIVE_NEXT))
			s->words[at] |= py->sps[i] << RPROF_NATIVE_LOW_SHIFT;
	}
	return 0;
}

/* Where this thread's copy of the bytecode begins; 0: not known. FT builds, 3.14 on: co_tlbc. */
static __always_inline u64 bytecode(struct py_scratch *py, u64 at, u64 code)
{
	u64 array = 0, entry = 0;
	u32 index;

	if (!py->p.f_tlbc)
		return code + py->p.co_code;
	index = *(const u32 *)field(py, at, py->p.f_tlbc);
	if (!index)
		return code + py->p.co_code;
	if (index > MAX_TLBC || !py_read(py, &array, sizeof(array), code + py->p.co_tlbc) ||
	    !array || !py_read(py, &entry, sizeof(entry), array + 8 + 8 * (u64)index))
		return 0;
	return entry;
}

/* The instruction a frame is at: the RPROF_PY_INSTR part of its entry, or what flag says why not. */
static __always_inline u32 instruction(struct py_scratch *py, u64 at, u64 code)
{
	u64 start, index;

	if (py->p.flags & RPROF_PYTHON_FRAME_OBJECTS) {
		int lasti = *(const int *)field(py, at, py->p.f_instr);

		if (lasti < 0)
			return RPROF_PY_NOT_STARTED;
		index = py->p.flags & RPROF_PYTHON_LASTI_BYTES ? lasti / 2 : lasti;
	} else {
		u64 instr = *(const u64 *)field(py, at, py->p.f_instr);

		start = bytecode(py, at, code);
		/* prev_instr of a frame that did not start lies before the first (3.11, 3.12). */
		if (start && instr == start - 2)
			return RPROF_PY_NOT_STARTED;
		if (!start || instr < start)
			return RPROF_PY_NO_INSTR;
		index = (instr - start) / 2;
	}
	return index > RPROF_PY_INSTR ? RPROF_PY_NO_INSTR : index;
}

/* The _PyCFrame at @addr, into .mem: a frame there was dealt with. */
static __always_inline bool load_cframe(struct py_scratch *py, u64 addr)
{
	return addr && py_read(py, py->mem, CFRAME_BYTES, addr);
}

/* 3.11: the activation that this frame is the first of; its _PyCFrame says where the next one is. */
static __always_inline int leave_cframe(struct py_scratch *py, u32 slot, u64 previous)
{
	u64 up = 0;

	if (python_shim(slot, py->cframe))
		return 1;
	py->stop = RPROF_STOP_BAD_FRAME;
	if (load_cframe(py, py->cframe))
		up = *(const u64 *)field(py, 0, py->p.cframe_previous);
	/* While it is entered, it does not say yet what it runs (Python/ceval.c, 3.11). */
	if (!load_cframe(py, up) || *(const u64 *)field(py, 0, py->p.cframe_frame) != previous)
		return 1;
	py->cframe = up;
	return 0;
}

/* A frame that runs a code object. */
static __always_inline int python_frame(struct scratch *s, struct py_scratch *py, u32 slot, u64 at,
					u64 owner)
{
	u64 code = *(const u64 *)field(py, at, py->p.f_code), tags = py->p.f_tags & 7;
	u32 where;

	/* A tagged integer or an error is no code object; a deferred reference has bit 0. */
	if ((code & tags) > 1 || !(code & ~tags) || (code & ~tags & 7)) {
		py->stop = RPROF_STOP_BAD_FRAME;
		return 1;
	}
	code &= ~tags;
	where = instruction(py, at, code);
	if (owner == OWNER_GENERATOR)
		where |= RPROF_PY_GENERATOR;
	if (py->frame == py->gc_frame)
		where |= RPROF_PY_GC;
	if (!py->at && py->p.ts_executor && py_state_word(py, py->p.ts_executor))
		where |= RPROF_PY_COARSE;
	if (py->p.flags & RPROF_PYTHON_FRAME_OBJECTS)
		where |= RPROF_PY_ENTRY;
	py->fingerprint = 0;
	if (python_fingerprint(slot, py->frame, code) == 2) {
		py->stop = RPROF_STOP_BAD_FRAME;
		return 1;
	}
	return put(s, py, code, py->fingerprint, where);
}

/* Does its instruction say that it ran? Code units are counted by ob_size, 3.11 and 3.12. */
static __always_inline bool has_run(struct py_scratch *py, u64 at)
{
	u64 code = *(const u64 *)field(py, at, py->p.f_code), units;

	return !(py->where & (RPROF_PY_NOT_STARTED | RPROF_PY_NO_INSTR)) &&
	       py_read(py, &units, sizeof(units), code + OB_SIZE) &&
	       (py->where & RPROF_PY_INSTR) < units;
}

/*
 * Compilers let 3.11 and 3.12 make a frame the current one before its caller is written into it
 * (Debian's 3.11 does): until it has run an instruction, what stands there may be of another frame,
 * and so may the instruction, which then is of other code.
 * Later versions write in order; all of 3.13 to 3.15 that were looked at do.
 */
static __always_inline bool may_be_unlinked(struct py_scratch *py, u64 at, u64 owner, u64 previous)
{
	if (!(py->p.flags & RPROF_PYTHON_CFRAME) || py->at != 1)
		return false;
	/* A generator that is suspended has no caller: it is about to get one, or had one just now. */
	if (owner == OWNER_GENERATOR)
		return !previous;
	return !owner && !has_run(py, at);
}

/*
 * Frames of the data stack lie end to end, so that the caller of the newest one ends where that
 * begins: is the frame at py->frame, whose words are at .mem[@at], such a one? Its size is that of
 * 3.11's _PyFrame_PushUnchecked(), and co_framesize in 3.12: Include/internal/pycore_frame.h.
 */
static __always_inline bool ends_at_unlinked(struct py_scratch *py, u64 at, u64 owner)
{
	u64 code = *(const u64 *)field(py, at, py->p.f_code), size;
	struct {
		u32 stacksize, firstlineno, nlocalsplus, framesize;
	} co;

	if (owner || !py_read(py, &co, sizeof(co), code + py->p.co_firstlineno - 4))
		return false;
	size = co.framesize;
	if (py->p.flags & RPROF_PYTHON_IS_ENTRY)
		size = (u64)FRAME_WORDS + co.nlocalsplus + co.stacksize;
	return py->frame + size * 8 == py->unlinked;
}

/* At 0 a chain ends only behind an entry frame, where there are such: 3.11 to 3.14. */
static __always_inline bool ends_properly(const struct py_scratch *py)
{
	return (py->p.flags & (RPROF_PYTHON_BASE_FRAME | RPROF_PYTHON_FRAME_OBJECTS)) || !py->at ||
	       (py->where & RPROF_PY_SHIM);
}

/* The frame at py->frame, then the one before it. 1: the walk is over, py->stop says why. */
__noinline int python_step(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	u64 frame, previous, owner = 0;
	bool entry = false, unlinked;
	int at;

	if (!py || !s)
		return 1;
	frame = py->frame;
	if (frame == py->base_frame) {
		py->stop = py->unlinked	     ? RPROF_STOP_UNLINKED :
			   ends_properly(py) ? RPROF_STOP_END :
					       RPROF_STOP_BAD_FRAME;
		return 1;
	}
	py->stop = frame & 7 ? RPROF_STOP_UNALIGNED : RPROF_STOP_BAD_FRAME;
	if (!frame || (frame & 7))
		return 1;
	at = python_load(slot, frame);
	if (at < 0) {
		py->stop = RPROF_STOP_FAULT;
		put(s, py, frame, 0, RPROF_PY_NEXT);
		return 1;
	}
	previous = *(const u64 *)field(py, at, py->p.f_previous);
	if (!(py->p.flags & RPROF_PYTHON_FRAME_OBJECTS))
		owner = *field(py, at, py->p.f_owner);
	if (py->p.flags & RPROF_PYTHON_IS_ENTRY)
		entry = *field(py, at, py->p.f_entry);
	if (py->unlinked) {
		py->stop = RPROF_STOP_UNLINKED;
		if (!ends_at_unlinked(py, at, owner))
			return 1;
		py->unlinked = 0;
	}
	if (owner >= OWNER_ENTRY) {
		if (python_shim(slot, frame))
			return 1;
		/* The first of a stack that greenlets switch to: a base frame of its own. */
		if (!previous) {
			py->stop = RPROF_STOP_END;
			return 1;
		}
	} else if (python_frame(s, py, slot, at, owner)) {
		return 1;
	}
	/* What says that it is an entry may be of another frame, too. */
	unlinked = may_be_unlinked(py, at, owner, previous);
	if (entry && leave_cframe(py, slot, previous))
		return 1;
	if (unlinked)
		py->unlinked = frame;
	if (previous == frame) {
		py->stop = RPROF_STOP_BAD_FRAME;
		return 1;
	}
	if (!owner)
		py->below = frame;
	py->linked_by = frame;
	py->frame = previous;
	return 0;
}

__noinline int python_chunk(u32 slot)
{
	for (int i = 0; i < RPROF_CHUNK; i++)
		if (python_step(slot))
			return 1;
	return 0;
}

/* Of two words of the interpreter, the lower one's place in .mem; negative: not to be had. */
static __always_inline int load_interpreter(struct py_scratch *py, u64 from, u64 to)
{
	u64 len = to + 8 - from;

	asm volatile("" : "+r"(len));
	if (len > WINDOW)
		return -1;
	return py_read(py, py->mem + PY_WINDOW_AT, len, py->interp + from) ? 0 : -1;
}

static __always_inline u64 interpreter_word(const struct py_scratch *py, u64 offset)
{
	asm volatile("" : "+r"(offset));
	return *(const u64 *)(py->mem + PY_WINDOW_AT + (offset & (WINDOW - 1)));
}

/* Code objects are known by process, interpreter, and how many of its code objects were freed. */
static __always_inline void set_generation(const struct scratch *s, struct py_scratch *py,
					   u64 freed)
{
	const u64 key = rprof_config.hash_key;
	u64 h = rprof_mix(rprof_config.hash_seed, py->interp, key);

	h = rprof_mix(rprof_mix(h, freed, key), (u64)s->stack.tgid << 32 | py->execs, key);
	/* The low half alone is kept beside a frame, and 0 there is void. */
	py->generation = (u32)h ? h : h + 1;
}

/*
 * What the interpreter of this thread says about all its frames: code objects freed, and the frame
 * that started a collection. One read: they lie near each other, the collector's state first.
 */
__noinline int python_interpreter(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	u64 from, to;

	if (!py || !s)
		return 1;
	py->generation = 0;
	py->gc_frame = 0;
	py->interp = py_state_word(py, py->p.ts_interp);
	if (!(py->p.flags & RPROF_PYTHON_GENERATION))
		return 0;
	from = to = py->p.interp_generation;
	if (py->p.flags & RPROF_PYTHON_GC_FRAME)
		from = py->p.interp_collecting;
	if (load_interpreter(py, from, to))
		return 0;
	if (!py->plain)
		set_generation(s, py, interpreter_word(py, to - from));
	if ((py->p.flags & RPROF_PYTHON_GC_FRAME) && *(const u32 *)(py->mem + PY_WINDOW_AT))
		py->gc_frame = interpreter_word(py, (u64)py->p.interp_gc_frame - from);
	return 0;
}

/* From the thread state, which is in py->ts, to the first frame. 1: there is none to be had. */
__noinline int python_begin(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	u64 first;

	if (!py || python_interpreter(slot))
		return 1;
	py->at = 0;
	py->linked_by = 0;
	py->unlinked = 0;
	py->native_at = 0;
	py->window_start = 0;
	py->window_len = 0;
	py->base_frame = 0;
	if (py->p.flags & RPROF_PYTHON_BASE_FRAME)
		py->base_frame = py_state_word(py, py->p.ts_base_frame);
	py->chunk = py->p.ts_chunk ? py_state_word(py, py->p.ts_chunk) : 0;
	first = py_state_word(py, py->p.ts_frame);
	if (py->p.flags & RPROF_PYTHON_CFRAME) {
		py->cframe = first;
		if (!load_cframe(py, first)) {
			py->stop = RPROF_STOP_FAULT;
			return 1;
		}
		first = *(const u64 *)field(py, 0, py->p.cframe_frame);
	}
	py->frame = first;
	/* Of the newest chunk: a window right away. Anything else shows whose it is first. */
	py->below = first >= py->chunk && first - py->chunk < PY_CHUNK_NEAR ? first + 1 : 0;
	return 0;
}

/* Not a global function: kernels allow eight calls, one within the other. */
static __always_inline void walk(struct scratch *s, struct py_scratch *py, u32 slot)
{
	if (pystate_find(slot) || python_begin(slot))
		return;
	for (int i = 0; i < WALK_CALLS; i++)
		if (python_chunk(slot))
			break;
	/* Where it stopped was said. From where, for who reads the rest: */
	if (py->stop == RPROF_STOP_FAULT && py->linked_by)
		put(s, py, py->linked_by, 0, RPROF_PY_NEXT);
}

/* The same again, each frame and each code object by a read of its own, and compared. */
static __always_inline void verify(struct scratch *s, struct py_scratch *py, struct rprof_cpu *cpu,
				   u32 slot)
{
	const u64 generation = py->generation;

	py->plain = py->compare = 1;
	py->differs = 0;
	py->at = 0;
	walk(s, py, slot);
	py->generation = generation;
	cpu->counters[RPROF_COUNT_VERIFIED]++;
	if (py->differs || py->at != s->stack.n_python || py->stop != s->stack.stop_python)
		cpu->counters[RPROF_COUNT_MISMATCHES]++;
}

__noinline int python_walk(u32 slot)
{
	struct py_scratch *py = py_at(slot);
	struct scratch *s = scratch_at(slot);
	struct rprof_cpu *cpu = this_cpu();

	if (!py || !s || !cpu)
		return 1;
	py->plain = rprof_config.flags & RPROF_CONFIG_NO_CACHE ? 1 : 0;
	py->compare = 0;
	py->first = s->n_words;
	py->n_sps = s->stack.n_native;
	py->reads = py->faults = 0;
	py->window_hits = py->frames_equal = py->frames_new = 0;
	walk(s, py, slot);
	s->stack.stop_python = py->stop;
	if (py->stop == RPROF_STOP_FAULT) {
		for (u32 i = 0; i < RPROF_MAX_NATIVE; i += PLACE_STEPS)
			if (place_chunk(slot, i))
				break;
	}
	py_count_reads(py, cpu);
	cpu->counters[RPROF_COUNT_WINDOW_HITS] += py->window_hits;
	cpu->counters[RPROF_COUNT_FRAMES_EQUAL] += py->frames_equal;
	cpu->counters[RPROF_COUNT_FRAMES_NEW] += py->frames_new;
	/* That it has no thread state is what a sample before may have found. */
	if (rprof_config.flags & RPROF_CONFIG_VERIFY && py->stop != RPROF_STOP_NO_STATE)
		verify(s, py, cpu, slot);
	return 0;
}
