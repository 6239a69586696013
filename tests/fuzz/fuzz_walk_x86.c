// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Whole samples over hostile memory: registers, stack, holes and mapping table come from the input,
 * and the record must be what a walker that reads word by word, written here, finds. One input is up
 * to three samples in a row on one scratch, since that is never cleared. tests/bpf/test_fuzz_x86.c
 * runs the same on seeded random bytes.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "hostbpf.h"
#include "rules.h"

#define TEXT 0x400000ULL
#define LIB 0x7f0000000000ULL
#define STACK 0x7ff000000000ULL
#define STACK_LEN 0x10000ULL
#define TOP_PAGES (-2ULL * HOST_PAGE)
#define MAX_MAPPINGS 6
#define FIRST 10

/* The input, as an endless stream. */

static const uint8_t *input, *input_end;

static u32 byte(void)
{
	return input < input_end ? *input++ : 0;
}

static u64 bytes(u32 n)
{
	u64 value = 0;

	while (n--)
		value = value << 8 | byte();
	return value;
}

/* An address, or what may stand for one. */
static u64 plausible(void)
{
	u64 word = bytes(2);

	switch (byte() % 10) {
	case 0:
		return 0;
	case 1:
		return TEXT + word;
	case 2:
		return LIB + word;
	case 3:
		return STACK + word;
	case 4:
		return TOP_PAGES + (word & ~7ULL) % (2 * HOST_PAGE);
	case 5:
		return bytes(8);
	case 6:
		return STACK + STACK_LEN - 16 + (word & 3) * 8;
	default:
		return STACK + (word & ~7ULL);
	}
}

/* Memory, code, table. */

/* What stands at TEXT + 64 * i, and what it proves. */
static const struct {
	u8 code[4];
	u32 how;
} codes[] = {
	{ { 0 }, RPROF_HOW_PC },
	{ { 0xc3 }, RPROF_HOW_SP },
	{ { 0x48, 0x89, 0xe5 }, RPROF_HOW_SP8 },
	{ { 0xc9 }, RPROF_HOW_CHAIN },
};

#define N_CODES (sizeof(codes) / sizeof(codes[0]))
#define RANDOM_CODE (TEXT + 64 * N_CODES)

static struct rprof_mapping mappings[MAX_MAPPINGS];
static u32 n_mappings;

static void make_memory(void)
{
	host_forget();
	host_user_region(TEXT, HOST_PAGE);
	for (u32 i = 0; i < N_CODES; i++)
		host_poke_bytes(TEXT + 64 * i, codes[i].code, sizeof(codes[i].code));
	host_poke(RANDOM_CODE, bytes(8));
	host_poke(RANDOM_CODE + 8, bytes(8));
	host_user_region(STACK, STACK_LEN);
	host_user_region(TOP_PAGES, -TOP_PAGES);
}

static u64 chain_start;

static void make_stack(void)
{
	u64 at = STACK + (bytes(2) & ~7ULL), size = byte();
	u64 step = 16 + (size < 128 ? size % 16 * 8 : size * 16);

	if (size % 4 == 0) /* Low enough for as many frames as it takes to meet the limit. */
		at = STACK + (at & 0xff8);
	chain_start = at;
	for (u32 n = bytes(2) % 1024; n && at + step + 16 < STACK + STACK_LEN; n--) {
		host_poke(at, at + step);
		host_poke(at + 8, TEXT + 0x7e00 + n); /* across two mappings */
		at += step;
	}
	for (u32 n = byte() % 32; n; n--) {
		u64 where = byte() % 8 ? STACK + (bytes(2) & ~7ULL) :
					 TOP_PAGES + bytes(2) % (2 * HOST_PAGE - 8);

		host_poke(where, plausible());
	}
}

static void make_holes(void)
{
	u32 holes = bytes(2) & bytes(2);

	for (u32 i = 0; i < 16; i++)
		if (holes & 1u << i)
			host_user_hole(STACK + i * HOST_PAGE);
}

static void add_mapping(u64 start, u64 end, u32 flags)
{
	mappings[n_mappings++] =
		(struct rprof_mapping){ .start = start, .end = end, .flags = flags };
}

static void make_table(u32 space)
{
	u32 kind = byte(), flags = byte();

	n_mappings = 0;
	if (kind & 7) {
		if (kind & 8)
			add_mapping(0x1000, 0x3000, flags & 7);
		if (kind & 16)
			add_mapping(TEXT, TEXT + 0x8000, flags & 32 ? 0 : RPROF_MAPPING_EXEC);
		add_mapping(TEXT + 0x8000, TEXT + 0x10000, RPROF_MAPPING_EXEC);
		add_mapping(LIB, LIB + 0xc000, RPROF_MAPPING_EXEC);
		if (kind & 32)
			add_mapping(STACK + (flags & 64 ? 0x4000 : 0),
				    STACK + STACK_LEN - (flags & 128 ? 0x2000 : 0),
				    RPROF_MAPPING_STACK | (flags & 4));
		if (kind & 64)
			add_mapping(TOP_PAGES, ~0ULL, RPROF_MAPPING_STACK | (flags & 1));
	}
	host_table(0, n_mappings ? space : 0, 0, FIRST + kind % 4, mappings, n_mappings);
}

/* The walker again, a word at a time. */

struct model {
	struct rprof_native_frame frames[RPROF_MAX_NATIVE];
	u32 n, stop;
	u64 flags, end;
};

static const struct rprof_mapping *mapping_of(u64 addr)
{
	for (u32 i = 0; i < n_mappings; i++) {
		const struct rprof_mapping *m = &mappings[i];

		if (addr < m->end)
			return addr >= m->start || m->flags & RPROF_MAPPING_GROWSDOWN ? m : NULL;
	}
	return NULL;
}

/* The flag that a return address @addr gets, or NOT_CODE. */
#define NOT_CODE ~0ULL

static u64 code_flag(u64 addr)
{
	const struct rprof_mapping *m = mapping_of(addr);

	if (m && addr < m->start)
		m = NULL; /* the gap below the main stack */
	if (addr < 65536 || (m && !(m->flags & RPROF_MAPPING_EXEC)))
		return NOT_CODE;
	return m ? 0 : RPROF_NATIVE_UNCHECKED;
}

static void model_push(struct model *m, u64 pc, u64 flags)
{
	m->frames[m->n].pc = pc;
	m->frames[m->n++].flags = flags | m->flags;
}

static void model_word(struct model *m, u64 at, u32 how)
{
	u64 word, flag;

	if (at >= m->end || !host_peek(at, &word, sizeof(word)))
		return;
	flag = code_flag(word);
	if (flag == 0 || (flag == RPROF_NATIVE_UNCHECKED && how < RPROF_HOW_WORD_SP))
		model_push(m, word, how | flag);
}

static void model_begin(struct model *m, u64 ip, u64 sp)
{
	const struct rprof_mapping *stack = mapping_of(sp);
	u32 code = (ip - TEXT) / 64, how = RPROF_HOW_PC;

	m->n = 0;
	m->end = ~0ULL;
	m->flags = n_mappings ? RPROF_NATIVE_UNBOUND : RPROF_NATIVE_UNCHECKED;
	if (stack && stack->flags & RPROF_MAPPING_STACK) {
		m->end = stack->end;
		m->flags = 0;
	}
	model_push(m, ip, RPROF_HOW_PC | (code_flag(ip) ? RPROF_NATIVE_UNCHECKED : 0));
	if (sp % 8)
		return;
	if (ip >= TEXT && ip % 64 == 0 && code < N_CODES)
		how = codes[code].how;
	if (how == RPROF_HOW_SP)
		model_word(m, sp, RPROF_HOW_SP);
	if (how == RPROF_HOW_SP8)
		model_word(m, sp + 8, RPROF_HOW_SP8);
	if (how == RPROF_HOW_PC) {
		model_word(m, sp, RPROF_HOW_WORD_SP);
		model_word(m, sp + 8, RPROF_HOW_WORD_SP8);
	}
}

static u32 model_chain(struct model *m, u64 sp, u64 fp)
{
	u64 lowest = sp, record[2];

	for (;;) {
		u64 flag;

		if (!fp)
			return RPROF_STOP_END;
		if (fp % 8)
			return RPROF_STOP_UNALIGNED;
		if (fp < lowest)
			return RPROF_STOP_DOWN;
		if (m->end - fp < 16 || fp >= m->end)
			return RPROF_STOP_BOUNDS;
		if (!host_peek(fp, record, sizeof(record)))
			return RPROF_STOP_FAULT;
		flag = code_flag(record[1]);
		if (flag == NOT_CODE)
			return RPROF_STOP_NOT_EXEC;
		if (m->n == RPROF_MAX_NATIVE)
			return RPROF_STOP_DEPTH;
		model_push(m, record[1], RPROF_HOW_CHAIN | flag);
		lowest = fp + 16;
		fp = record[0];
	}
}

/* Comparing. */

static const char *frames_wrong(const struct rprof_stack *s, struct model *m, u64 sp, u64 fp,
				bool any_code)
{
	const struct rprof_native_frame *f = (const void *)(s + 1);
	u32 words = 1;

	if (any_code) {
		/* What random code proves is not the model's business: take over the words. */
		while (words < s->n_native &&
		       (f[words].flags & RPROF_NATIVE_HOW) != RPROF_HOW_CHAIN)
			words++;
		memcpy(m->frames, f, words * sizeof(*f));
		m->n = words;
	}
	m->stop = model_chain(m, sp, fp);
	for (u32 i = 1; i < s->n_native; i++)
		if (code_flag(f[i].pc) & ~f[i].flags)
			return "a caller outside executable memory, or not marked unchecked";
	if (s->n_native != m->n)
		return "not the number of frames that are there";
	if (memcmp(f, m->frames, m->n * sizeof(*f)))
		return "not the frames that are there";
	return s->stop_native == m->stop ? NULL : "not the reason that is there";
}

static const char *sample_wrong(u32 round)
{
	static struct model m;
	u32 choice = byte();
	u64 ip = choice < 200 ? TEXT + 64 * (choice % (N_CODES + 1)) : plausible();
	u64 fp = byte() % 2 ? chain_start : plausible(),
	    sp = byte() % 4 ? (fp - byte() * 8) & ~7ULL : plausible();
	struct bpf_perf_event_data ctx = {};
	const struct rprof_stack *s;
	const char *wrong;

	ctx.regs.words[4] = fp;
	ctx.regs.words[16] = ip;
	ctx.regs.words[17] = 0x33;
	ctx.regs.words[19] = sp;
	ctx.regs.words[20] = 0x2b;
	host.user_reads = 0;
	rprof_clock(&ctx);
	wrong = ring_wrong();
	if (wrong)
		return wrong;
	if (count_records(RPROF_RECORD_SAMPLE) != 1)
		return "not one sample";
	s = find_stack(((const struct rprof_sample *)host.records[host.n_records - 1].data)->stack,
		       host.n_records);
	host_delete(&rprof_seen, s->stack);
	if (host.user_reads > 3u * s->n_native + 10)
		return "more reads than frames can need";
	model_begin(&m, ip, sp);
	/* Code that is not one of ours may prove something, too: zeros lie around, and the stack. */
	return frames_wrong(s, &m, sp, fp, ip % 64 || (ip - TEXT) / 64 >= N_CODES);
}

static void start(void)
{
	static const struct rprof_config config = { .hash_seed = 1,
						    .hash_key = 0x9e3779b97f4a7c15ULL,
						    .ring_quarter = 1 << 20 };

	host_reset();
	host_config(&config);
	host_proc(host.tgid, 0, 0, 0);
}

/* What is wrong with the samples of this input; NULL: nothing. */
static const char *input_wrong(const uint8_t *data, size_t size)
{
	static bool started;

	if (!started)
		start();
	started = true;
	input = data;
	input_end = data + size;
	memset(host_scratch(0), 0, sizeof(struct scratch));
	make_memory();
	for (u32 round = 0; round < 3 && (!round || input < input_end); round++) {
		const char *wrong;

		if (round) {
			host_forget();
			make_memory();
		}
		/* The same table keeps what is remembered of it; any other has another number. */
		if (!round || byte() % 2)
			make_table(round + 1);
		make_stack();
		make_holes();
		wrong = sample_wrong(round);
		if (wrong)
			return wrong;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *wrong = input_wrong(data, size);

	if (wrong) {
		fprintf(stderr, "fuzz_walk_x86: %s\n", wrong);
		abort();
	}
	return 0;
}
