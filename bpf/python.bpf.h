/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Python walker: from this thread to its thread state (pystate.bpf.c), from frame to frame
 * (python.bpf.c), from a frame to its code object (pycode.bpf.c). Global functions as in
 * native.bpf.h; what they share is in a scratch slot of its own. Offsets come from rprof_pythons;
 * user space validated them for their meaning, here they are masked for the verifier.
 */
#ifndef RPROF_PYTHON_BPF_H
#define RPROF_PYTHON_BPF_H

#include "maps.bpf.h"
#include "rprof/hash.h"
#include "scratch.bpf.h"

#define PY_STATE_BYTES 512u	/* at most read of a thread state, */
#define PY_FRAME_BYTES 128u	/* of a frame, a power of two, */
#define PY_CODE_BYTES 192u	/* of a code object */
#define PY_CHUNK_NEAR (1u << 20) /* the newest chunk of a data stack is not larger, mostly */
#define PY_SLACK 8u		/* a masked offset plus a word stays inside */

#define PY_MET 32u		/* code objects that are met again in one sample */
#define PY_MEMO 64u		/* frames of the last sample that a thread keeps, by their address */

/*
 * A frame whose code object is known, as long as no code object was freed since. It says of what it
 * is by itself (.generation), so that it does no harm in another thread's hands.
 */
struct py_memo {
	u64 frame;
	u64 code;
	u32 fingerprint;
	u32 generation;		/* low half of py_scratch.generation when it was taken; 0: void */
};

/* A code object that was read for a sample: nothing changes while its thread is held. */
struct py_met {
	u64 time_ns;		/* of the sample */
	u64 code;
	u32 fingerprint;
	u32 reserved;
};

/* Value of rprof_threads: what the last sample of a thread found. It predicts, and proves nothing. */
struct py_thread {
	u64 start;		/* task_struct.start_time: its number may be another's by now */
	u64 tp;			/* its thread pointer */
	u64 tstate;		/* 0: none was found, */
	u64 retry;		/* it is not searched for again before, ns, */
	u64 stop;		/* and this is why: enum rprof_stop */
	u64 stack;		/* id of its last stack */
	u32 tgid;
	u32 execs;		/* of its process */
	struct py_memo memo[PY_MEMO];
};

/* tid -> last sample. 14 MiB; LRU, preallocated; deleted at the end of the thread. */
struct rprof_threads_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct py_thread);
};

/*
 * What was read of a process: first one frame, from PY_WINDOW_AT on a window of the data stack. One
 * array, so that a frame is an offset in it wherever it was read to.
 */
#define PY_WINDOW_AT 512u
#define PY_MEM_BYTES (PY_WINDOW_AT + WINDOW + PY_FRAME_BYTES + PY_SLACK)

struct py_scratch {
	struct rprof_python p;	/* of this process */
	u32 execs;		/* rprof_proc.execs of this sample */
	u32 stop;		/* enum rprof_stop */
	u32 plain;		/* use nothing of the last sample */
	u32 compare;		/* --verify: compare with the record, each frame by its own read */
	u32 at;			/* entries done, of this walk */
	u32 differs;		/* one of them does */
	u32 where;		/* .where of the last one */
	u32 first;		/* word of the record that python[] begins at */
	u32 shim;		/* 1 + index of the native frame that the last shim lies in; 0 */
	u64 tp;			/* thread pointer; 0: unknown */
	u64 tid;		/* its number as its own gettid() has it, where that is to count; 0 */
	u64 start;		/* of this task */
	u64 tstate;
	u64 interp;
	u64 generation;		/* hash of process, interpreter, its freed code objects; 0: unknown */
	u64 gc_frame;		/* that started the collection which runs; 0 */
	u64 frame;		/* the next one, */
	u64 linked_by;		/* and the one that links to it; 0: the thread state does */
	u64 base_frame;		/* chain's end; 0: none */
	u64 cframe;		/* 3.11: of this activation */
	u64 unlinked;		/* the first frame, if its caller must end where it begins; 0 */
	u64 chunk;		/* of the data stack: the newest one starts there */
	u64 below;		/* a frame of the data stack: its parents lie below */
	u32 native_at;		/* where the search for the next shim's frame goes on */
	u32 n_sps;
	u64 search;		/* thread state that a search is at, */
	u64 search_interp;	/* in this interpreter */
	u64 candidate;		/* up to 3.11: one that is this thread's */
	u32 n_candidates;
	u32 fingerprint;	/* code_fingerprint(): of */
	u64 code;		/* this code object */
	u32 sent_budget;	/* CODE records that this sample may still send */
	/* To be counted: */
	u64 reads, faults, window_hits, frames_equal, frames_new;

	u64 window_start;	/* address of .mem[PY_WINDOW_AT] */
	u64 window_len;		/* valid bytes */
	u64 sps[RPROF_MAX_NATIVE]; /* lowest address of each entry of native[] */
	struct py_met met[PY_MET]; /* by the code object's address */
	struct py_thread last;	/* what is remembered of this thread, to be read and changed */
	u8 ts[PY_STATE_BYTES + PY_SLACK]; /* the thread state */
	u8 co[PY_CODE_BYTES + PY_SLACK]; /* a code object, from .co_type on */
	u8 mem[PY_MEM_BYTES];
	struct rprof_code record; /* the CODE record under construction; its bytes follow it */
	u8 text[RPROF_MAX_CODE_NAME + RPROF_MAX_CODE_FILE + RPROF_MAX_CODE_LINES + 64];
};

_Static_assert(sizeof(struct py_scratch) <= 32768,
	       "per-CPU array values end at 32 KiB on all kernels");

struct rprof_pyscratch_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RPROF_LEVELS);
	__type(key, u32);
	__type(value, struct py_scratch);
};

extern struct rprof_pyscratch_map rprof_pyscratch SEC(".maps");
extern struct rprof_threads_map rprof_threads SEC(".maps");

static __always_inline struct py_scratch *py_at(u32 slot)
{
	asm volatile("" : "+r"(slot)); /* as scratch_at() */
	return bpf_map_lookup_elem(&rprof_pyscratch, &slot);
}

/* Memory of the process, counted. */
static __always_inline bool py_read(struct py_scratch *py, void *to, u64 len, u64 from)
{
	py->reads++;
	if (!bpf_probe_read_user(to, len, (void *)from))
		return true;
	py->faults++;
	return false;
}

/* A word of the thread state. */
static __always_inline u64 py_state_word(const struct py_scratch *py, u64 offset)
{
	asm volatile("" : "+r"(offset));
	return *(const u64 *)(py->ts + (offset & (PY_STATE_BYTES - 1)));
}

/* What the walk, or the capture of code objects, has read. */
static __always_inline void py_count_reads(struct py_scratch *py, struct rprof_cpu *cpu)
{
	cpu->counters[RPROF_COUNT_PY_READS] += py->reads;
	cpu->counters[RPROF_COUNT_PY_FAULTS] += py->faults;
	py->reads = py->faults = 0;
}

/* Walk the Python frames of this sample into the record: scratch.stack.n_python, .stop_python. */
int python_walk(u32 slot);

/* Find the thread state: py_scratch.tstate and .ts. 0: found; 1: py_scratch.stop says why not. */
int pystate_find(u32 slot);

/* The same of a frame's code object, by what is remembered where that is sound (pymemo.bpf.c). */
int python_fingerprint(u32 slot, u64 frame, u64 code);

/*
 * code_fingerprint() - read the code object at @code (tag bits off).
 * Return: 0: py_scratch.code and .fingerprint are set, .co holds the object from .co_type on;
 * 1: it could not be read; 2: what lies there is no code object.
 */
int code_fingerprint(u32 slot, u64 code);

/*
 * code_chunk() - send what the ring has not had of the code objects of python[@from, @from + 16) of
 * this slot's record, while py_scratch.sent_budget lasts. For stacks that are about to be sent.
 * Return: 1: that was the last of them, or the budget is used up.
 */
int code_chunk(u32 slot, u32 from);

#endif
