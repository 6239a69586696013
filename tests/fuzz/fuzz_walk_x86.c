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
#include "arch/arch.h"

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
	u8 code[9];
	u32 how;
} codes[] = {
	{ { 0 }, RPROF_HOW_PC },
	{ { 0xc3 }, RPROF_HOW_SP },
	{ { 0x48, 0x89, 0xe5 }, RPROF_HOW_SP8 },
	{ { 0xc9 }, RPROF_HOW_CHAIN },
	{ { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 }, RPROF_HOW_SIGNAL },
	{ { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 }, RPROF_HOW_SIGNAL },
};

#define SIGRETURN 4 /* the first of the two */

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

/* Handlers' frames, the words of signal frames above them; often one interrupts the next. */
static void make_signals(void)
{
	for (u32 n = byte() % 2 ? byte() % 4 : 0; n; n--) {
		u64 at = STACK + bytes(2) % (STACK_LEN - 256) / 8 * 8, choice = byte();
		u64 fp = choice & 1 ? chain_start : plausible();

		host_poke(at, choice & 2 ? fp : plausible());
		host_poke(at + 8, TEXT + 64 * (SIGRETURN + (choice >> 2) % 2));
		host_poke(at + 16 + 15 * 8, fp);
		host_poke(at + 16 + 20 * 8, choice & 8 ? fp - 8 * (byte() % 16) : plausible());
		host_poke(at + 16 + 21 * 8, choice & 16 ? plausible() : TEXT + 64 * (byte() % 8));
		host_poke(at + 16 + 23 * 8, byte() % 16 ? 0x2b000000000033ULL : 0x23);
		if ((choice & 96) == 96)
			chain_start = at;
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

/* False: no more go in. */
static bool model_push(struct model *m, u64 pc, u64 flags)
{
	if (m->n == RPROF_MAX_NATIVE) {
		m->stop = RPROF_STOP_DEPTH;
		return false;
	}
	m->frames[m->n].pc = pc;
	m->frames[m->n++].flags = flags | m->flags;
	return true;
}

/* Registers that the walk goes on with. */
struct regs {
	u64 ip, sp, fp;
	u64 link_at; /* the frame record that fp was read from; 0: none */
};

/* Does the code at @ra leave a signal frame? */
static bool is_sigreturn(u64 ra)
{
	u8 code[9];

	if (!host_peek(ra, code, sizeof(code)))
		return false;
	return !memcmp(code, codes[SIGRETURN].code, 9) ||
	       !memcmp(code, codes[SIGRETURN + 1].code, 7);
}

#define CONTEXT_WORDS 24

/* What the signal frame with its words at @at interrupted, if they can be had and look like it. */
static bool model_context(const struct model *m, u64 at, u64 words[CONTEXT_WORDS])
{
	if (m->end - at < CONTEXT_WORDS * 8 || at >= m->end ||
	    !host_peek(at, words, CONTEXT_WORDS * 8))
		return false;
	return (words[23] & 0xffff) == 0x33 || (words[23] & 0xffff) == 0x23;
}

/* A caller at @ra, found @how: 1 if the walk goes on with what a signal interrupted, -1: ends. */
static int model_signal(struct model *m, u64 ra, u64 at, u32 how, struct regs *r)
{
	u64 words[CONTEXT_WORDS];

	if (!model_context(m, at, words) || !is_sigreturn(ra))
		return 0;
	if (how == RPROF_HOW_WORD_SP || how == RPROF_HOW_WORD_SP8)
		if (words[15] != r->fp || (words[23] & 0xffff) != 0x33)
			return 0;
	if ((words[23] & 0xffff) != 0x33) {
		m->stop = RPROF_STOP_COMPAT;
		return -1;
	}
	*r = (struct regs){ .ip = words[21], .sp = words[20], .fp = words[15] };
	return 1;
}

static int model_word(struct model *m, u64 at, u32 how, struct regs *r)
{
	u64 word, flag;

	if (at >= m->end || !host_peek(at, &word, sizeof(word)))
		return 0;
	flag = code_flag(word);
	if (flag == 0 ||
	    (flag == RPROF_NATIVE_UNCHECKED && (how < RPROF_HOW_WORD_SP || !n_mappings))) {
		if (!model_push(m, word, how | flag))
			return -1;
		return model_signal(m, word, at + 8, how, r);
	}
	return 0;
}

/* What the code at @ip proves; zeros lie around, and where there is none nothing is proven. */
static u32 code_at(u64 ip)
{
	u8 code[16] = {};

	return host_peek(ip, code, sizeof(code)) ? (u32)arch_repair(code) : RPROF_HOW_PC;
}

/* Interrupted where it is about to leave a signal frame: here it must be there. */
static int model_trampoline(struct model *m, struct regs *r)
{
	u64 words[CONTEXT_WORDS];

	if (r->sp >= m->end || m->end - r->sp < CONTEXT_WORDS * 8) {
		m->stop = RPROF_STOP_BOUNDS;
		return -1;
	}
	m->stop = RPROF_STOP_FAULT;
	if (!host_peek(r->sp, words, sizeof(words)))
		return -1;
	m->stop = RPROF_STOP_COMPAT;
	if ((words[23] & 0xffff) != 0x33)
		return -1;
	*r = (struct regs){ .ip = words[21], .sp = words[20], .fp = words[15] };
	return 1;
}

/* An interrupted frame: 1 if a signal frame comes next, -1: the end. */
static int model_interrupted(struct model *m, u32 how_found, struct regs *r)
{
	const struct rprof_mapping *stack = mapping_of(r->sp);
	u32 how;
	int next;

	m->end = ~0ULL;
	m->flags = n_mappings ? RPROF_NATIVE_UNBOUND : RPROF_NATIVE_UNCHECKED;
	if (stack && stack->flags & RPROF_MAPPING_STACK) {
		m->end = stack->end;
		m->flags = 0;
	}
	if (how_found == RPROF_HOW_SIGNAL && code_flag(r->ip) == NOT_CODE) {
		m->stop = RPROF_STOP_NOT_EXEC;
		return -1;
	}
	if (!model_push(m, r->ip, how_found | (code_flag(r->ip) ? RPROF_NATIVE_UNCHECKED : 0)))
		return -1;
	if (r->sp % 8)
		return 0;
	how = code_at(r->ip);
	if (how == RPROF_HOW_SP)
		return model_word(m, r->sp, RPROF_HOW_SP, r);
	if (how == RPROF_HOW_SP8)
		return model_word(m, r->sp + 8, RPROF_HOW_SP8, r);
	if (how == RPROF_HOW_SIGNAL)
		return model_trampoline(m, r);
	if (how != RPROF_HOW_PC)
		return 0;
	next = model_word(m, r->sp, RPROF_HOW_WORD_SP, r);
	return next ? next : model_word(m, r->sp + 8, RPROF_HOW_WORD_SP8, r);
}

/* A frame record that cannot be read, and where, if the stack is bound. */
static int model_fault(struct model *m, const struct regs *r)
{
	u64 distance = r->link_at ? r->fp - r->link_at : 0;

	if (m->end != ~0ULL && m->n < RPROF_MAX_NATIVE && distance < 1ULL << 48)
		m->frames[m->n++] = (struct rprof_native_frame){
			.pc = r->fp,
			.flags = RPROF_NATIVE_NEXT | distance << 16,
		};
	return -1;
}

/* One step up the chain: 1 if a signal frame comes next, -1: the end. */
static int model_caller(struct model *m, struct regs *r)
{
	u64 record[2], fp = r->fp, flag;

	m->stop = !fp				   ? RPROF_STOP_END :
		  fp % 8			   ? RPROF_STOP_UNALIGNED :
		  fp < r->sp			   ? RPROF_STOP_DOWN :
		  m->end - fp < 16 || fp >= m->end ? RPROF_STOP_BOUNDS :
						     RPROF_STOP_FAULT;
	if (m->stop != RPROF_STOP_FAULT)
		return -1;
	if (!host_peek(fp, record, sizeof(record)))
		return model_fault(m, r);
	*r = (struct regs){ .ip = record[1], .sp = fp + 16, .fp = record[0], .link_at = fp };
	flag = code_flag(record[1]);
	if (flag == NOT_CODE) {
		m->stop = RPROF_STOP_NOT_EXEC;
		return -1;
	}
	if (!model_push(m, record[1], RPROF_HOW_CHAIN | flag))
		return -1;
	return model_signal(m, record[1], r->sp, RPROF_HOW_CHAIN, r);
}

static void model_walk(struct model *m, struct regs r)
{
	int next;

	m->n = 0;
	next = model_interrupted(m, RPROF_HOW_PC, &r);
	while (next >= 0)
		next = next ? model_interrupted(m, RPROF_HOW_SIGNAL, &r) : model_caller(m, &r);
}

/* Comparing. */

static u64 n_interrupted; /* by a signal, in all samples: tests look whether there were some */

static const char *frames_wrong(const struct rprof_stack *s, const struct model *m)
{
	const struct rprof_native_frame *f = (const void *)(s + 1);

	for (u32 i = 1; i < s->n_native; i++) {
		n_interrupted += (f[i].flags & RPROF_NATIVE_HOW) == RPROF_HOW_SIGNAL;
		if (!(f[i].flags & RPROF_NATIVE_NEXT) && code_flag(f[i].pc) & ~f[i].flags)
			return "a caller outside executable memory, or not marked unchecked";
	}
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

	/* A handler that has no frame yet: its return address at sp, or above. */
	if (byte() % 8 == 0)
		sp = chain_start + 8 - byte() % 2 * 8;
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
	if (host.user_reads > 5u * s->n_native + 10)
		return "more reads than frames can need";
	model_walk(&m, (struct regs){ .ip = ip, .sp = sp, .fp = fp });
	return frames_wrong(s, &m);
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
		make_signals();
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
