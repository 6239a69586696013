// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "task_layout.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log.h"
#include "proc.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define TASK_BYTES 16384u	/* more than any task_struct has */
#define BLOCK 512u		/* read at once; what lies behind the struct need not be readable */
#define STEP 4u			/* acrs of s390x are words of 4 bytes */
#define SLEEP_US 1000
#define PAGE 4096u

/* ---- pure ------------------------------------------------------------------------------------ */

static __u32 half_at(const struct task_view *v, size_t at)
{
	__u32 half;

	memcpy(&half, v->bytes + at, sizeof(half));
	return half;
}

static __u64 word_at(const struct task_view *v, size_t at)
{
	__u64 word;

	memcpy(&word, v->bytes + at, sizeof(word));
	return word;
}

static bool is_thread_pointer(const struct task_view *v, size_t at, const struct rprof_config *c)
{
	return word_at(v, at) == v->tp;
}

/* It begins at a page, also where stacks are not aligned to their size. */
static bool is_stack(const struct task_view *v, size_t at, const struct rprof_config *c)
{
	const __u64 start = word_at(v, at);

	return at % 8 == 0 && start % PAGE == 0 && start <= v->sp && v->sp - start < c->thread_size;
}

/* task_struct.pid and .tgid, side by side. */
static bool is_numbers(const struct task_view *v, size_t at, const struct rprof_config *c)
{
	return v->tid && half_at(v, at) == v->tid && half_at(v, at + 4) == v->tgid;
}

/* task_struct.min_flt and .maj_flt, side by side. */
static bool is_faults(const struct task_view *v, size_t at, const struct rprof_config *c)
{
	return v->faults_known && at % 8 == 0 && at + 16 <= v->size &&
	       word_at(v, at) == v->faults[0] && word_at(v, at + 8) == v->faults[1];
}

/* The one place that is so in each of them; 0: there is none, or several. */
static __u32 only_place(const struct task_view *views, size_t n, const struct rprof_config *c,
			bool (*is)(const struct task_view *v, size_t at,
				   const struct rprof_config *c))
{
	__u32 found = 0;

	/* What lies at 0 is the thread_info, or the state. */
	for (size_t at = STEP; at < TASK_BYTES; at += STEP) {
		size_t i = 0;

		while (i < n && at + 8 <= views[i].size && is(&views[i], at, c))
			i++;
		if (i < n)
			continue;
		if (found)
			return 0;
		found = at;
	}
	return found;
}

void task_layout_of(const struct task_view *views, size_t n, struct rprof_config *c)
{
	c->task_tp = only_place(views, n, c, is_thread_pointer);
	c->task_stack = only_place(views, n, c, is_stack);
	c->task_pid = only_place(views, n, c, is_numbers);
	c->task_tgid = c->task_pid ? c->task_pid + 4 : 0;
	c->task_faults = only_place(views, n, c, is_faults);
}

/* ---- of this process ------------------------------------------------------------------------- */

/* Value of the program's map: a block of the current task's struct, and the program's stack. */
struct block {
	unsigned char bytes[BLOCK];
	__u64 sp;
};

/* A program that copies them; its argument is where in the struct. Return: its fd, or -errno. */
static int load_reader(int map)
{
	const struct bpf_insn insns[] = {
		/* r6 = ctx->args[0] */
		{ .code = BPF_LDX | BPF_MEM | BPF_DW, .dst_reg = 6, .src_reg = 1 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_current_task },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_X, .dst_reg = 6 },
		/* r1 = the map's value; ->sp = r10 */
		{ .code = BPF_LD | BPF_IMM | BPF_DW,
		  .dst_reg = 1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE,
		  .imm = map },
		{ 0 },
		{ .code = BPF_STX | BPF_MEM | BPF_DW,
		  .dst_reg = 1,
		  .src_reg = 10,
		  .off = offsetof(struct block, sp) },
		/* return bpf_probe_read_kernel(r1, BLOCK, r6) */
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = BLOCK },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 3, .src_reg = 6 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_read_kernel },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "rprof_task", "GPL", insns,
			     ARRAY_SIZE(insns), NULL);
}

struct reader {
	int program, map;
	int err;
	struct task_view view;
	unsigned char bytes[TASK_BYTES];
};

/* The block at @at of this thread's struct. */
static int read_block(const struct reader *r, __u64 at, struct block *block)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &at, .ctx_size_in = sizeof(at));
	__u32 zero = 0;
	int err = bpf_prog_test_run_opts(r->program, &opts);

	if (err)
		return err;
	if (opts.retval)
		return -EFAULT;
	return bpf_map_lookup_elem(r->map, &zero, block) ? -errno : 0;
}

/* Copy this thread's struct. */
static void copy_task(struct reader *r)
{
	struct block block;

	for (size_t at = 0; at < TASK_BYTES && !r->err; at += BLOCK) {
		r->err = read_block(r, at, &block);
		if (r->err)
			break;
		memcpy(r->bytes + at, block.bytes, BLOCK);
		r->view.size = at + BLOCK;
		r->view.sp = block.sp;
	}
	/* Behind it is what it is. */
	if (r->err == -EFAULT && r->view.size)
		r->err = 0;
}

/* As a thread: look at the one that runs this. */
static void *look(void *arg)
{
	struct reader *r = arg;
	struct rusage before, after;

	/* Its registers are saved when it is switched out. */
	usleep(SLEEP_US);
	r->view = (struct task_view){ .bytes = r->bytes, .tp = (__u64)pthread_self() };
	if (!proc_is_nested()) {
		r->view.tid = (__u32)gettid();
		r->view.tgid = (__u32)getpid();
	}
	/* A first time, for the page faults of it. */
	copy_task(r);
	getrusage(RUSAGE_THREAD, &before);
	copy_task(r);
	getrusage(RUSAGE_THREAD, &after);
	r->view.faults[0] = (__u64)after.ru_minflt;
	r->view.faults[1] = (__u64)after.ru_majflt;
	r->view.faults_known = before.ru_minflt == after.ru_minflt &&
			       before.ru_majflt == after.ru_majflt;
	return NULL;
}

static int look_twice(struct reader *here, struct reader *there, struct rprof_config *c)
{
	struct task_view views[2];
	pthread_t thread;
	int err;

	look(here);
	err = -pthread_create(&thread, NULL, look, there);
	if (err)
		return err;
	pthread_join(thread, NULL);
	if (here->err || there->err)
		return here->err ? here->err : there->err;
	views[0] = here->view;
	views[1] = there->view;
	task_layout_of(views, ARRAY_SIZE(views), c);
	log_debug("task_struct: thread pointer at %u, stack %u, pid %u, faults %u (0: not found)",
		  c->task_tp, c->task_stack, c->task_pid, c->task_faults);
	return 0;
}

int task_layout_find(struct rprof_config *c)
{
	struct reader *readers = calloc(2, sizeof(*readers));
	int map, program, err = -ENOMEM;

	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "rprof_task", sizeof(__u32), sizeof(struct block),
			     1, NULL);
	program = map < 0 ? -errno : load_reader(map);
	if (program < 0) {
		err = program;
	} else if (readers) {
		for (size_t i = 0; i < 2; i++) {
			readers[i].map = map;
			readers[i].program = program;
		}
		err = look_twice(&readers[0], &readers[1], c);
	}
	if (err)
		log_debug("task_struct: cannot look at our own: %s", strerror(-err));
	if (program >= 0)
		close(program);
	if (map >= 0)
		close(map);
	free(readers);
	return err;
}
