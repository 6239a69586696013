/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A table that is sound can still be wrong: it is tried on the live process. Memory changes while it
 * is read, and it may be hostile: every walk has an end of its own, and nothing is followed that is
 * not an aligned address of user space.
 */
#include "python_offsets.h"

#include <errno.h>
#include <string.h>

#define MAX_TRIES 8
#define MAX_INTERPRETERS 16
#define MAX_THREADS 4096	/* of all of them, in one try */
#define MAX_FRAMES 64		/* of a chain; deeper ones are good so far */
#define MAX_READS 32768		/* in all: a few tens of milliseconds at most */
#define MAX_STATE 512u
#define MAX_FRAME 128u
#define MAX_CODE 192u
#define MAX_TEXT (1u << 20)	/* code points of a name */
#define MAX_BYTES (1u << 24)	/* of a line table, and of code */
#define N_SOUND 16		/* code objects that are remembered; a power of two */
#define TYPE_NAME 16		/* tp_name, from ob_type on */

/* What a look at something came to; the reason of BAD is in probing.why. */
enum verdict { GOOD, NONE, BAD };

struct probing {
	const struct python_memory *m;
	struct rprof_python *p;
	struct python_live *live;
	char *why;
	__u64 code_type;	/* p's, or as it was learnt */
	__u64 sound[N_SOUND];	/* code objects, found to be so in this try */
	unsigned int threads;	/* that may still be looked at, in this try */
	unsigned int reads;	/* that may still be done */
};

#define SAY(pr, ...) (snprintf((pr)->why, PYTHON_WHY, __VA_ARGS__), BAD)
#define HEX(addr) ((unsigned long long)(addr))

static bool read_all(struct probing *pr, const struct python_range *ranges, size_t n)
{
	if (!pr->reads)
		return false;
	pr->reads--;
	return pr->m->read(pr->m->ctx, ranges, n) == n;
}

static bool read_one(struct probing *pr, __u64 addr, void *to, size_t len)
{
	const struct python_range range = { addr, to, len };

	return read_all(pr, &range, 1);
}

static bool is_object(__u64 addr)
{
	return addr >= 4096 && addr < 1ull << 63 && addr % 8 == 0;
}

static __u64 word_at(const void *bytes, size_t at)
{
	__u64 word;

	memcpy(&word, (const char *)bytes + at, sizeof(word));
	return word;
}

static __s32 int_at(const void *bytes, size_t at)
{
	__s32 value;

	memcpy(&value, (const char *)bytes + at, sizeof(value));
	return value;
}

static bool is_code_type(struct probing *pr, __u64 type)
{
	__u64 name;
	char text[5];

	if (pr->code_type)
		return type == pr->code_type;
	if (!is_object(type) ||
	    !read_one(pr, type + pr->p->co_type + TYPE_NAME, &name, sizeof(name)) ||
	    !read_one(pr, name, text, sizeof(text)) || memcmp(text, "code", sizeof(text)))
		return false;
	pr->code_type = type;
	return true;
}

/*
 * A string whose text is there: behind it is always a 0. All names in code objects are compact ones,
 * but for a file name that was given as an object of a class derived from str.
 */
static bool is_string(struct probing *pr, __u64 addr)
{
	const struct rprof_python *p = pr->p;
	__u64 length, text = addr + p->str_compact;
	unsigned int kind;
	unsigned char last;
	__u32 state;
	bool ascii;
	const struct python_range head[] = {
		{ addr + p->str_length, &length, sizeof(length) },
		{ addr + p->str_state, &state, sizeof(state) },
	};

	if (!is_object(addr) || !read_all(pr, head, 2) || length > MAX_TEXT)
		return false;
	kind = state >> p->str_kind_shift & 7;
	ascii = state >> p->str_ascii_bit & 1;
	if ((kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1))
		return false;
	if (!(state >> p->str_compact_bit & 1)) {
		if (!read_one(pr, text, &text, sizeof(text)))
			return false;
	} else if (ascii) {
		text = addr + p->str_ascii;
	}
	return read_one(pr, text + length * kind, &last, 1) && !last;
}

static bool is_bytes(struct probing *pr, __u64 addr)
{
	unsigned char last;
	__u64 size;

	return is_object(addr) && read_one(pr, addr + pr->p->bytes_size, &size, sizeof(size)) &&
	       size < MAX_BYTES && read_one(pr, addr + pr->p->bytes_data + size, &last, 1) && !last;
}

/*
 * Once each: frames move while they are looked at, and a recursion whose code object was read for
 * each of them would hardly ever stand still that long.
 */
static enum verdict look_at_code(struct probing *pr, __u64 code)
{
	__u64 *const sound = &pr->sound[code / 16 % N_SOUND];
	const struct rprof_python *p = pr->p;
	unsigned char co[MAX_CODE];
	const size_t type = p->co_type;

	if (code && *sound == code)
		return GOOD;
	if (!is_object(code) || !read_one(pr, code + type, co, p->co_read))
		return SAY(pr, "no code object can be read at %#llx", HEX(code));
	if (!is_code_type(pr, word_at(co, 0)))
		return SAY(pr, "what lies at %#llx is no code object", HEX(code));
	if (!is_string(pr, word_at(co, p->co_name - type)))
		return SAY(pr, "the code object at %#llx has no name", HEX(code));
	if (!is_string(pr, word_at(co, p->co_filename - type)))
		return SAY(pr, "the code object at %#llx has no file name", HEX(code));
	if (!is_bytes(pr, word_at(co, p->co_lines - type)))
		return SAY(pr, "the code object at %#llx has no line table", HEX(code));
	*sound = code;
	return GOOD;
}

/* An instruction of the code object; one before the first: not begun. */
static bool is_instruction(const struct probing *pr, const unsigned char *frame, __u64 code)
{
	const struct rprof_python *p = pr->p;
	__u64 offset;

	if (p->flags & RPROF_PYTHON_FRAME_OBJECTS)
		return int_at(frame, p->f_instr) >= -1 &&
		       int_at(frame, p->f_instr) < (__s32)MAX_BYTES;
	/* Free-threaded code has a copy per thread. */
	if (p->f_tlbc && int_at(frame, p->f_tlbc))
		return true;
	offset = word_at(frame, p->f_instr) - (code + p->co_code) + 2;
	return offset < MAX_BYTES && offset % 2 == 0;
}

/* Entry frames stand for C code. */
static bool is_entry_frame(const struct probing *pr, const unsigned char *frame)
{
	return !(pr->p->flags & RPROF_PYTHON_FRAME_OBJECTS) && frame[pr->p->f_owner] >= 3;
}

static enum verdict look_at_frame(struct probing *pr, __u64 addr, unsigned char *frame)
{
	const struct rprof_python *p = pr->p;
	enum verdict verdict;
	__u64 code;

	if (!is_object(addr) || !read_one(pr, addr, frame, p->f_read))
		return SAY(pr, "no frame can be read at %#llx", HEX(addr));
	if (!(p->flags & RPROF_PYTHON_FRAME_OBJECTS) && frame[p->f_owner] > 4)
		return SAY(pr, "the frame at %#llx has owner %u", HEX(addr), frame[p->f_owner]);
	if (is_entry_frame(pr, frame))
		return NONE;
	if ((p->flags & RPROF_PYTHON_IS_ENTRY) && frame[p->f_entry] > 1)
		return SAY(pr, "the frame at %#llx has is_entry %u", HEX(addr), frame[p->f_entry]);
	code = word_at(frame, p->f_code) & ~(__u64)p->f_tags;
	verdict = look_at_code(pr, code);
	if (verdict == GOOD && !is_instruction(pr, frame, code))
		return SAY(pr, "the frame at %#llx is at no instruction of its code", HEX(addr));
	return verdict;
}

/* NONE: no frame of Python code in it. */
static enum verdict look_at_chain(struct probing *pr, __u64 addr, __u64 base, unsigned int *frames)
{
	unsigned char frame[MAX_FRAME];
	enum verdict verdict = GOOD;
	unsigned int i;

	*frames = 0;
	for (i = 0; i < MAX_FRAMES && addr != base; i++) {
		/* The first frame of a greenlet stands for C code, too, and has no caller. */
		if (!addr && verdict == NONE)
			break;
		verdict = addr ? look_at_frame(pr, addr, frame) :
				 SAY(pr, "a chain of frames ends above its base frame");
		if (verdict == BAD)
			return BAD;
		*frames += verdict == GOOD;
		if (word_at(frame, pr->p->f_previous) == addr)
			return SAY(pr, "the frame at %#llx is its own caller", HEX(addr));
		addr = word_at(frame, pr->p->f_previous);
	}
	return *frames ? GOOD : NONE;
}

/* The top frame of a thread state, 0: none; false: it could not be read. */
static bool top_frame(struct probing *pr, const unsigned char *ts, __u64 *frame)
{
	*frame = word_at(ts, pr->p->ts_frame);
	if (!(pr->p->flags & RPROF_PYTHON_CFRAME) || !*frame)
		return true;
	return is_object(*frame) &&
	       read_one(pr, *frame + pr->p->cframe_frame, frame, sizeof(*frame));
}

/* What else is known of a thread state that has frames: its thread is a thread, and so on. */
static enum verdict look_at_state(struct probing *pr, __u64 tstate, const unsigned char *ts)
{
	const struct rprof_python *p = pr->p;
	/* Status: bit 0 is "initialized", on either end. */
	const unsigned int initialized = p->status_bit == 3 ? 0 : 31;
	const __u64 chunk = p->ts_chunk ? word_at(ts, p->ts_chunk) : 0;

	if (!is_object(word_at(ts, p->ts_thread_id)))
		return SAY(pr, "the thread state at %#llx has no thread", HEX(tstate));
	if (chunk && !is_object(chunk))
		return SAY(pr, "the thread state at %#llx has no data stack", HEX(tstate));
	if ((p->flags & RPROF_PYTHON_STATUS) &&
	    !((__u32)int_at(ts, p->ts_status) >> initialized & 1))
		return SAY(pr, "the thread state at %#llx has status %#x", HEX(tstate),
			   int_at(ts, p->ts_status));
	return GOOD;
}

static enum verdict look_at_frames(struct probing *pr, __u64 tstate, const unsigned char *ts)
{
	const struct rprof_python *p = pr->p;
	enum verdict verdict;
	unsigned int frames;
	__u64 base = 0, frame;

	if (!top_frame(pr, ts, &frame))
		return SAY(pr, "the thread state at %#llx has no cframe", HEX(tstate));
	if (p->flags & RPROF_PYTHON_BASE_FRAME) {
		base = word_at(ts, p->ts_base_frame);
		if (!is_object(base))
			return SAY(pr, "the thread state at %#llx has no base frame", HEX(tstate));
	}
	verdict = look_at_chain(pr, frame, base, &frames);
	if (verdict == GOOD)
		verdict = look_at_state(pr, tstate, ts);
	if (verdict == GOOD) {
		pr->live->tstate = tstate;
		pr->live->frames = frames;
	}
	return verdict;
}

/* The best that the thread states of an interpreter have: one whole chain is enough. */
static enum verdict look_at_threads(struct probing *pr, __u64 interpreter, __u64 tstate)
{
	enum verdict verdict = NONE;
	unsigned char ts[MAX_STATE];

	for (; tstate && pr->threads; pr->threads--) {
		enum verdict found;

		if (!is_object(tstate) || !read_one(pr, tstate, ts, pr->p->ts_read))
			return SAY(pr, "no thread state can be read at %#llx", HEX(tstate));
		if (word_at(ts, pr->p->ts_interp) != interpreter)
			return SAY(pr, "the thread state at %#llx is not of its interpreter",
				   HEX(tstate));
		found = look_at_frames(pr, tstate, ts);
		if (found == GOOD)
			return GOOD;
		if (found == BAD)
			verdict = BAD;
		tstate = word_at(ts, pr->p->ts_next);
	}
	return verdict;
}

/* Reads the three words that we know of an interpreter. */
static enum verdict look_at_interpreter(struct probing *pr, __u64 addr, __u64 *next)
{
	const struct rprof_python *p = pr->p;
	__u64 threads;
	__s32 collecting;
	const struct python_range words[] = {
		{ addr + p->interp_next, next, sizeof(*next) },
		{ addr + p->interp_threads, &threads, sizeof(threads) },
		{ addr + p->interp_collecting, &collecting, sizeof(collecting) },
	};

	*next = 0;
	if (!is_object(addr) || !read_all(pr, words, 3))
		return SAY(pr, "no interpreter can be read at %#llx", HEX(addr));
	if (collecting != 0 && collecting != 1)
		return SAY(pr, "the interpreter at %#llx has gc.collecting %d", HEX(addr),
			   collecting);
	return look_at_threads(pr, addr, threads);
}

static bool is_interpreter(struct probing *pr, __u64 addr)
{
	__u64 at = pr->live->interpreter;

	for (unsigned int i = 0; i < MAX_INTERPRETERS && is_object(at); i++) {
		if (at == addr)
			return true;
		if (!read_one(pr, at + pr->p->interp_next, &at, sizeof(at)))
			return false;
	}
	return false;
}

/* Up to 3.11 the runtime knows which thread state has the GIL, if one has. */
static enum verdict look_at_current(struct probing *pr)
{
	const struct rprof_python *p = pr->p;
	__u64 current = 0, interpreter;

	if (!p->runtime_current)
		return GOOD;
	if (read_one(pr, p->runtime + p->runtime_current, &current, sizeof(current)) && !current)
		return GOOD;
	if (is_object(current) &&
	    read_one(pr, current + p->ts_interp, &interpreter, sizeof(interpreter)) &&
	    is_interpreter(pr, interpreter))
		return GOOD;
	return SAY(pr, "the runtime's current thread state %#llx is none", HEX(current));
}

/* One try. NONE: no interpreter, or no frames. */
static enum verdict look(struct probing *pr)
{
	const struct rprof_python *p = pr->p;
	enum verdict verdict = NONE;
	__u64 addr = 0, finalizing = 0;
	const struct python_range words[] = {
		{ p->runtime + p->runtime_interpreters, &addr, sizeof(addr) },
		{ p->runtime + p->runtime_finalizing, &finalizing, sizeof(finalizing) },
	};

	if (!read_all(pr, words, 2))
		return SAY(pr, "no runtime can be read at %#llx", HEX(p->runtime));
	*pr->live = (struct python_live){ .interpreter = addr, .finalizing = finalizing };
	pr->threads = MAX_THREADS;
	for (unsigned int i = 0; i < MAX_INTERPRETERS && addr; i++) {
		enum verdict found = look_at_interpreter(pr, addr, &addr);

		if (found == GOOD)
			return look_at_current(pr);
		if (found == BAD)
			verdict = BAD;
	}
	return verdict;
}

int python_offsets_probe(const struct python_memory *m, struct rprof_python *p,
			 struct python_live *live, char why[PYTHON_WHY])
{
	struct probing pr = { .m = m, .p = p, .live = live, .why = why, .reads = MAX_READS };
	enum verdict verdict = BAD;

	for (unsigned int i = 0; i < MAX_TRIES && verdict == BAD; i++) {
		pr.code_type = p->code_type;
		memset(pr.sound, 0, sizeof(pr.sound));
		verdict = look(&pr);
	}
	if (verdict == BAD)
		return -EINVAL;
	if (verdict == NONE) {
		snprintf(why, PYTHON_WHY, "no Python code runs yet");
		return -EAGAIN;
	}
	p->code_type = pr.code_type;
	return 0;
}
