/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A process with a native stack, and a STACK record of it that is cut: for test_complete.c. The stack is
 * our own memory, the rest is in the image of python_image.h. The includer brings their headers.
 */
#ifndef RPROF_TEST_COMPLETE_IMAGE_H
#define RPROF_TEST_COMPLETE_IMAGE_H

#define TGID 77u
#define TID 78u
#define STACK_SIZE 0x20000u
#define TEXT_SIZE 0x10000u
#define GUARD 0x10000u
#define HEAP (IMAGE + 0xa0000)		/* frames of the interpreter, 128 bytes apart, root first */
#define NATIVE 12			/* frames of the chain, of 256 bytes */
#define WALKED 4			/* of them, by the kernel side */

/* Mapped for real, between pages that nobody may access, so that /proc tells of them. */
static __u64 STACK, STACK_END, TEXT, TEXT_END;
static struct spaces *spaces;
static const struct space *space;
static __u64 chain_flags; /* of frames: user-mode qemu executes memory that is not executable */

static union {
	struct rprof_stack stack;
	__u64 words[RPROF_MAX_STACK_LEN / 8 + 1];
} cut;

static struct rprof_python layout;
static bool has_python;
static __u32 faults;
static __u64 clock_ns;	/* goes on a little whenever it is asked; tests set it forward */
static struct python_memory memory;

static bool swapped;	/* all of it */

static __u64 absent_of(__u32 tgid, __u64 page, size_t n)
{
	assert_int_equal(tgid, TGID);
	return swapped ? ~0ULL : 0;
}

static __u64 now(void)
{
	return clock_ns += 1000;
}

static const struct rprof_python *offsets(void *ctx, __u32 tgid, struct python_memory *m)
{
	*m = memory;
	return has_python ? &layout : NULL;
}

static __u32 faults_of(__u32 tgid, __u32 tid)
{
	assert_int_equal(tgid, TGID);
	assert_in_range(tid, TID, TID + 2);
	return faults;
}

/* The native stack is our own memory, all else is in the image. */
static size_t read_both(void *ctx, const struct python_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const __u64 at = ranges[i].addr;

		if (at >= STACK && at < STACK_END && ranges[i].len <= STACK_END - at)
			memcpy(ranges[i].to, (void *)(uintptr_t)at, ranges[i].len);
		else if (!image_read(NULL, &ranges[i], 1))
			return i;
	}
	return n;
}

static void poke(__u64 addr, __u64 word)
{
	if (addr >= STACK && addr < STACK_END)
		memcpy((void *)(uintptr_t)addr, &word, sizeof(word));
	else
		put_word(addr, word);
}

static int map_all(void **state)
{
	__u8 *all = mmap(NULL, 3 * GUARD + STACK_SIZE + TEXT_SIZE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(all, MAP_FAILED);
	STACK = (uintptr_t)all + GUARD;
	STACK_END = STACK + STACK_SIZE;
	TEXT = STACK_END + GUARD;
	TEXT_END = TEXT + TEXT_SIZE;
	assert_int_equal(mprotect(all + GUARD, STACK_SIZE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(mprotect((void *)(uintptr_t)TEXT, TEXT_SIZE, PROT_READ | PROT_EXEC), 0);
	spaces = new_spaces();
	space = read_self(spaces);
	chain_flags = RPROF_HOW_CHAIN;
	if (!space_mapping(space, TEXT))
		chain_flags |= RPROF_NATIVE_UNCHECKED;
	return 0;
}

static int unmap_all(void **state)
{
	free_spaces(spaces);
	return munmap((void *)(uintptr_t)(STACK - GUARD), 3 * GUARD + STACK_SIZE + TEXT_SIZE);
}

/* Address of the link of frame @i of the chain, 0 the leaf; and the return address beside it. */
static __u64 frame_at(int i)
{
	return STACK + 0x8000 + 256ULL * i;
}

static __u64 ra(int i)
{
	return TEXT + 0x100 + 16ULL * i;
}

/* Frame i links to i + 1, and its return address is ra(i); the last link is 0. */
static void write_chain(void)
{
	for (int i = 0; i < NATIVE; i++) {
		poke(frame_at(i), i + 1 < NATIVE ? frame_at(i + 1) : 0);
		poke(frame_at(i) + ARCH_CHAIN_RA, ra(i));
	}
}

/* What the kernel side sends: the interrupted pc, return addresses 0 to WALKED - 1, and NEXT. */
static void cut_native(void)
{
	struct rprof_native_frame *f = (void *)record_native(&cut.stack);

	f[0] = (struct rprof_native_frame){ TEXT + 8, RPROF_HOW_PC };
	for (int i = 0; i < WALKED; i++)
		f[i + 1] = (struct rprof_native_frame){ ra(i), RPROF_HOW_CHAIN };
	f[WALKED + 1] = (struct rprof_native_frame){
		frame_at(WALKED), RPROF_NATIVE_NEXT | 256ULL << RPROF_NATIVE_NEXT_SHIFT
	};
	cut.stack.n_native = WALKED + 2;
	cut.stack.stop_native = RPROF_STOP_FAULT;
}

static void end_record(void)
{
	cut.stack.h.len =
		(__u32)(sizeof(cut.stack) + 16u * cut.stack.n_native + 16u * cut.stack.n_python);
	assert_int_equal(record_check(&cut, cut.stack.h.len), 0);
}

static struct completer *begin(void)
{
	const struct completer_config config = { SEED,	    KEY,	NULL, offsets,
						 faults_of, 1ULL << 60, now,  absent_of };
	struct completer *c;

	image_init();
	memset((void *)(uintptr_t)STACK, 0, STACK_SIZE);
	memory = (struct python_memory){ .read = read_both };
	layout = image_layout;
	layout.f_read = 80;
	layout.f_previous = 8;
	layout.f_instr = 56;
	layout.f_owner = 70;
	layout.co_code = 200;
	has_python = false;
	clock_ns = 1ULL << 40;
	swapped = false;
	faults = 5;
	memset(&cut, 0, sizeof(cut));
	cut.stack.h.type = RPROF_RECORD_STACK;
	cut.stack.stack = 0x1111;
	cut.stack.tgid = TGID;
	cut.stack.space = 3;
	write_chain();
	cut_native();
	end_record();
	c = completer_new(&config);
	assert_non_null(c);
	return c;
}

static struct rprof_sample sample(__u32 had_faults)
{
	return (struct rprof_sample){
		.h = { RPROF_RECORD_SAMPLE, 0, sizeof(struct rprof_sample) },
		.time_ns = now(),
		.stack = cut.stack.stack,
		.value = 1,
		.tid = TID,
		.faults = had_faults,
	};
}

static const struct rprof_stack *complete(struct completer *c, __u32 had_faults)
{
	const struct rprof_sample s = sample(had_faults);
	const struct rprof_stack *whole;

	assert_true(completer_wants(&cut.stack));
	whole = completer_complete(c, &s, &cut.stack, space);
	if (whole) {
		assert_int_equal(record_check(whole, whole->h.len), 0);
		assert_false(completer_wants(whole));
	}
	return whole;
}

static inline void assert_failed(struct completer *c, enum complete_why why)
{
	struct completer_stats stats;

	completer_stats(c, &stats);
	assert_int_equal(stats.failed[why], 1);
	assert_int_equal(stats.completed, 0);
	completer_free(c);
}

/* Return addresses up to, and not including, ra(@end). */
static void assert_native(const struct rprof_stack *s, int end, unsigned int stop)
{
	const struct rprof_native_frame *f = record_native(s);

	assert_int_equal(s->n_native, 1 + end);
	for (int i = 0; i < end; i++) {
		assert_int_equal(f[i + 1].pc, ra(i));
		assert_int_equal(f[i + 1].flags, i < WALKED ? RPROF_HOW_CHAIN : chain_flags);
	}
	assert_int_equal(s->stop_native, stop);
}

#endif
