// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The id of a stack: the same for the same content, another for any other, and secret in its key. */
#include "thread_x86.h"

#include "emit.bpf.h"

#define N_KERNEL 5
#define N_NATIVE 20
#define N_WORDS (N_KERNEL + 2 * N_NATIVE)
#define MAX_IDS 40000

static u64 ids[MAX_IDS];
static u32 n_ids;

static struct scratch *base(u32 slot)
{
	struct scratch *s = host_scratch(slot);

	s->stack.tgid = TGID;
	s->stack.space = 1;
	memcpy(s->stack.comm, "target\0\0\0\0\0\0\0\0\0", sizeof(s->stack.comm));
	s->stack.n_kernel = N_KERNEL;
	s->stack.n_native = N_NATIVE;
	s->stack.n_python = 0;
	s->stack.stop_kernel = RPROF_STOP_END;
	s->stack.stop_native = RPROF_STOP_END;
	s->stack.stop_python = RPROF_STOP_NONE;
	for (u32 i = 0; i < N_KERNEL; i++)
		s->words[i] = 0xffffffff81000000ULL + 32 * i;
	for (u32 i = 0; i < N_NATIVE; i++) {
		s->words[N_KERNEL + 2 * i] = RA(i);
		s->words[N_KERNEL + 2 * i + 1] = i ? RPROF_HOW_CHAIN : RPROF_HOW_PC;
	}
	s->n_words = N_WORDS;
	s->time_ns = 1000;
	s->tid = TID;
	return s;
}

static u64 id_of(u32 slot)
{
	const struct rprof_sample *last;

	emit_sample(slot);
	last = host.records[host.n_records - 1].data;
	assert_int_equal(last->h.type, RPROF_RECORD_SAMPLE);
	assert_int_equal(last->stack, host_scratch(slot)->stack.stack);
	return last->stack;
}

/* Take the id of what stands in slot 0, to be compared with all others, and begin anew. */
static void take_id(void)
{
	assert_true(n_ids < MAX_IDS);
	ids[n_ids++] = id_of(0);
	base(0);
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

static void assert_all_differ(u32 at_least)
{
	assert_true(n_ids >= at_least);
	qsort(ids, n_ids, sizeof(ids[0]), compare);
	for (u32 i = 1; i < n_ids; i++)
		assert_int_not_equal(ids[i], ids[i - 1]);
}

static int setup(void **state)
{
	thread_setup(state);
	n_ids = 0;
	base(0);
	base(1);
	return 0;
}

static void same_content_has_the_same_id(void **state)
{
	struct scratch *s = host_scratch(0);
	u64 id = id_of(0);

	assert_int_equal(id_of(0), id);
	assert_int_equal(id_of(1), id);
	/* Not of the content: when, which thread, where, and what an older sample left behind. */
	s->time_ns = 2000;
	s->tid = TID + 1;
	host.cpu = 1;
	s->words[N_WORDS] = 0x1234;
	s->hash = s->hash_at = 77;
	s->stack.h.flags = 9;
	assert_int_equal(id_of(0), id);
	assert_int_equal(count_records(RPROF_RECORD_STACK), 1);
}

static void any_changed_bit_of_a_word_changes_the_id(void **state)
{
	take_id();
	for (u32 i = 0; i < N_WORDS; i++) {
		for (u32 bit = 0; bit < 64; bit++) {
			host_scratch(0)->words[i] ^= 1ULL << bit;
			take_id();
		}
	}
	assert_all_differ(1 + N_WORDS * 64);
}

static void last_word_of_the_longest_stack_counts(void **state)
{
	struct scratch *s = host_scratch(0);

	s->stack.n_kernel = RPROF_MAX_KERNEL;
	s->stack.n_native = RPROF_MAX_NATIVE;
	s->n_words = RECORD_WORDS;
	for (u32 i = 0; i < RECORD_WORDS; i++) {
		s->words[i] ^= 1;
		ids[n_ids++] = id_of(0);
		s->words[i] ^= 1;
	}
	assert_all_differ(RECORD_WORDS);
}

static void any_changed_byte_of_the_comm_changes_the_id(void **state)
{
	take_id();
	for (u32 i = 0; i < RPROF_COMM_LEN; i++) {
		for (u32 x = 1; x < 256; x++) {
			host_scratch(0)->stack.comm[i] ^= x;
			take_id();
		}
	}
	assert_all_differ(1 + 16 * 255);
}

static void process_and_space_change_the_id(void **state)
{
	take_id();
	for (u32 bit = 0; bit < 32; bit++) {
		host_scratch(0)->stack.tgid ^= 1u << bit;
		take_id();
		host_scratch(0)->stack.space ^= 1u << bit;
		take_id();
	}
	assert_all_differ(65);
}

static void stops_change_the_id(void **state)
{
	for (u32 k = 0; k <= RPROF_STOP_KSTACK; k++) {
		for (u32 n = 0; n <= RPROF_STOP_KSTACK; n++) {
			for (u32 p = 0; p <= RPROF_STOP_KSTACK; p++) {
				struct scratch *s = host_scratch(0);

				s->stack.stop_kernel = k;
				s->stack.stop_native = n;
				s->stack.stop_python = p;
				take_id();
			}
		}
	}
	assert_all_differ(12 * 12 * 12);
}

/* The same words, cut elsewhere: two kernel frames are as long as one native frame. */
static void counts_change_the_id(void **state)
{
	for (u32 k = 0; k < N_WORDS; k++) {
		struct scratch *s = host_scratch(0);

		s->stack.n_kernel = k;
		s->stack.n_native = (N_WORDS - k) / 2;
		s->n_words = s->stack.n_kernel + 2 * s->stack.n_native;
		take_id();
	}
	assert_all_differ(N_WORDS);
}

static void order_of_frames_changes_the_id(void **state)
{
	take_id();
	for (u32 i = 0; i < N_NATIVE; i++) {
		for (u32 k = 0; k < i; k++) {
			host_scratch(0)->words[N_KERNEL + 2 * i] = RA(k);
			host_scratch(0)->words[N_KERNEL + 2 * k] = RA(i);
			take_id();
		}
	}
	assert_all_differ(N_NATIVE * (N_NATIVE - 1) / 2);
}

/* What an odd multiplier does to the top bit is no secret: bit 63 stays, the fold copies it to 31. */
static const u64 top_bits[] = { 1ULL << 63,
				1ULL << 63 | 1ULL << 31,
				1ULL << 31,
				3ULL << 62,
				3ULL << 62 | 3ULL << 30,
				1ULL << 63 | 1ULL << 30,
				1ULL << 62 | 1ULL << 30,
				1ULL << 63 | 1ULL << 62 | 1ULL << 31 };

#define N_TOP (sizeof(top_bits) / sizeof(top_bits[0]))

/* A target chooses every bit of its comm. */
static void flip_comm(u64 first, u64 second)
{
	u64 halves[2];

	memcpy(halves, host_scratch(0)->stack.comm, sizeof(halves));
	halves[0] ^= first;
	halves[1] ^= second;
	memcpy(host_scratch(0)->stack.comm, halves, sizeof(halves));
}

static void halves_of_a_comm_cannot_cancel(void **state)
{
	take_id();
	for (u32 i = 0; i < N_TOP; i++) {
		for (u32 k = 0; k < N_TOP; k++) {
			flip_comm(top_bits[i], top_bits[k]);
			take_id();
		}
	}
	/* And pairs of single bits. */
	for (u32 i = 0; i < 31; i++) {
		for (u32 k = 0; k < 31; k++) {
			flip_comm(1ULL << i, 1ULL << k);
			take_id();
			flip_comm(1ULL << i, 1ULL << (k + 31) << 1);
			take_id();
		}
	}
	assert_all_differ(1 + N_TOP * N_TOP + 2 * 31 * 31);
}

/* And of its return addresses, as long as nobody checks them; their flags stand between. */
static void addresses_of_two_frames_cannot_cancel(void **state)
{
	take_id();
	for (u32 i = 0; i < N_TOP; i++) {
		for (u32 k = 0; k < N_TOP; k++) {
			struct scratch *s = host_scratch(0);

			s->words[N_KERNEL + 2] ^= top_bits[i];
			s->words[N_KERNEL + 4] ^= top_bits[k];
			take_id();
		}
	}
	assert_all_differ(1 + N_TOP * N_TOP);
}

static void key_and_seed_change_every_id(void **state)
{
	static const u64 keys[] = { 0x9e3779b97f4a7c15ULL, 0x9e3779b97f4a7c17ULL, 3,
				    0xfffffffffffffff1ULL };

	for (u32 k = 0; k < 4; k++) {
		for (u64 seed = 0; seed < 4; seed++) {
			struct rprof_config config = thread_config();

			config.hash_key = keys[k];
			config.hash_seed = seed << 60 | seed;
			host_config(&config);
			for (u32 i = 0; i < 50; i++) {
				host_scratch(0)->words[N_WORDS - 2] = RA(i);
				take_id();
			}
		}
	}
	assert_all_differ(16 * 50);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, thread_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(same_content_has_the_same_id),
		TEST(any_changed_bit_of_a_word_changes_the_id),
		TEST(last_word_of_the_longest_stack_counts),
		TEST(any_changed_byte_of_the_comm_changes_the_id),
		TEST(process_and_space_change_the_id),
		TEST(stops_change_the_id),
		TEST(counts_change_the_id),
		TEST(order_of_frames_changes_the_id),
		TEST(halves_of_a_comm_cannot_cancel),
		TEST(addresses_of_two_frames_cannot_cancel),
		TEST(key_and_seed_change_every_id),
	};

	return cmocka_run_group_tests_name("stack_id_x86", tests, NULL, NULL);
}
