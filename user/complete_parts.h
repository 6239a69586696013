/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What complete.c is made of: what a stack lacks, the memory that it is read from, and the two walks,
 * which follow those of the kernel side (bpf/native.bpf.c, bpf/python.bpf.c) step by step.
 */
#ifndef RPROF_COMPLETE_PARTS_H
#define RPROF_COMPLETE_PARTS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "python_memory.h"
#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"

struct space;

#define COMPLETE_PAGE 4096u
#define COMPLETE_PAGES 64	/* that are remembered in one reading */

/* Memory of one process, for one reading, by pages: stacks are dense. */
struct complete_memory {
	struct python_memory source;
	__u32 tgid;
	__u64 (*absent)(__u32 tgid, __u64 page, size_t n);
	__u64 deadline_ns;
	bool late;		/* it was reached: nothing more is read */
	bool closed;		/* nothing but what was read already */
	bool brought;		/* some of what was read had not been in memory */
	size_t ahead;		/* pages of one request */
	size_t n;		/* pages read so far; the last COMPLETE_PAGES are here */
	__u64 addrs[COMPLETE_PAGES];
	__u8 bytes[COMPLETE_PAGES][COMPLETE_PAGE];
};

/*
 * Which of @n pages, at most 64, from @page on are not in memory: a bit for each, the first one's the
 * lowest. All, where that cannot be known. Reading such a page makes it accessible, on any machine.
 */
typedef __u64 complete_absent_fn(__u32 tgid, __u64 page, size_t n);
__u64 complete_absent(__u32 tgid, __u64 page, size_t n); /* by /proc/TGID/pagemap */

/* @absent: NULL: that is not asked for */
void complete_memory_begin(struct complete_memory *m, const struct python_memory *source,
			   __u32 tgid, complete_absent_fn *absent, __u64 deadline_ns);
/*
 * Read the pages beyond those of [@addr, @addr + @len), in the direction @ahead, as far as they are
 * there: before these are read, which makes them accessible (complete.c).
 */
void complete_memory_beyond(struct complete_memory *m, __u64 addr, size_t len, int ahead);
/* From now on by several pages at once. */
void complete_memory_open(struct complete_memory *m);
/* @ahead: 1: higher addresses are wanted next; -1: lower ones. False: not there, or too late. */
bool complete_memory_read(struct complete_memory *m, __u64 addr, void *to, size_t len, int ahead);

/* Where the walks of a STACK stopped, if they did so for a page that could not be read. */
struct complete_edge {
	bool native, python;
	__u64 native_next;	/* the frame that was not read, */
	__u64 native_from;	/* the one that links to it, */
	__u64 native_pc;	/* and that one's return address; 0: it is in no memory */
	__u64 python_next, python_from;
	__u64 python_code;	/* of python_from; 0: an entry frame, of which the link alone is known */
	__u64 stack;		/* lowest address of the native frames; 0: not known */
	size_t n_native, n_python; /* entries that are frames, or shims */
};

/* Return: is there anything that may be read? @s: a record that record_check() accepted. */
bool complete_edge_of(const struct rprof_stack *s, struct complete_edge *e);

struct complete_native {
	__u64 pc;
	__u64 flags;		/* as in the record */
	__u64 low;		/* lowest address of the frame */
};

/* What was read. Followed by the Python frames: where the native ones end is known first. */
struct complete_tail {
	__u16 n_native, n_python;
	__u8 stop_native, stop_python;
	__u8 reserved[2];
	struct complete_native native[];
};

#define COMPLETE_TAIL_MAX                                                                          \
	(sizeof(struct complete_tail) + RPROF_MAX_NATIVE * sizeof(struct complete_native) +        \
	 RPROF_MAX_PYTHON * sizeof(struct rprof_python_frame))

/* Of a shim .code is its address; 0: not known. */
static inline struct rprof_python_frame *complete_tail_python(struct complete_tail *t)
{
	return (struct rprof_python_frame *)(t->native + t->n_native);
}

static inline size_t complete_tail_size(const struct complete_tail *t)
{
	return sizeof(*t) + t->n_native * sizeof(struct complete_native) +
	       t->n_python * sizeof(struct rprof_python_frame);
}

/* The native frames from the edge on. @space: NULL: nothing is known of its mappings */
void complete_native(struct complete_memory *m, const struct complete_edge *e,
		     const struct space *space, struct complete_tail *t);

/* Behind the native ones in @t: the Python frames. @seed, @key: of hash.h */
void complete_python(struct complete_memory *m, const struct complete_edge *e,
		     const struct rprof_python *p, __u64 seed, __u64 key, struct complete_tail *t);
/* The frame that links to the first one: do its words say what the record says? */
bool complete_python_links(const __u8 *frame, const struct complete_edge *e,
			   const struct rprof_python *p);

/*
 * complete_record() - @s with what was read behind it: a STACK as the kernel side would have sent it.
 * @id: its id
 * @out: RPROF_MAX_STACK_LEN bytes, 8-aligned
 */
void complete_record(const struct rprof_stack *s, const struct complete_edge *e,
		     struct complete_tail *t, __u64 id, struct rprof_stack *out);

#endif
