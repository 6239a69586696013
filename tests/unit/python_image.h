/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of a made-up process with code objects in it, laid out as CPython 3.13 does it. */
#ifndef RPROF_TEST_PYTHON_IMAGE_H
#define RPROF_TEST_PYTHON_IMAGE_H

#include <linux/types.h>
#include <stdbool.h>
#include <string.h>

#include "rprof/stop.h"
#include "rprof/record.h"
#include "rprof/config.h"
#include "rprof/hash.h"

#include "python_memory.h"
#include "python_layout.h"

#define IMAGE 0x7f0000000000ULL
#define IMAGE_SIZE (1u << 20)
#define SEED 0x5bd1e995cafef00dULL
#define KEY 0x9e3779b97f4a7c15ULL

/* Places of the image; the texts are 64 KiB apart. */
#define CODE (IMAGE + 0x1000)
#define NAME (IMAGE + 0x20000)
#define FILE_NAME (IMAGE + 0x40000)
#define LINES (IMAGE + 0x80000)

static __u8 image[IMAGE_SIZE];
static unsigned int image_reads;

static inline void put(__u64 addr, const void *bytes, size_t n)
{
	memcpy(image + (addr - IMAGE), bytes, n);
}

static inline void put_word(__u64 addr, __u64 word)
{
	put(addr, &word, sizeof(word));
}

/* A string of @n code points of @kind bytes. */
static inline void put_string(__u64 addr, const void *points, __u64 n, __u32 kind, bool ascii)
{
	const struct rprof_python *p = &image_layout;
	const __u32 state = kind << p->str_kind_shift | 1u << p->str_compact_bit |
			    (__u32)ascii << p->str_ascii_bit;

	put_word(addr + p->str_length, n);
	put_word(addr + p->str_hash, ~0ULL);
	put(addr + p->str_state, &state, sizeof(state));
	if (n * kind < 0x20000)
		put(addr + (ascii ? p->str_ascii : p->str_compact), points, n * kind);
}

static inline void put_ascii(__u64 addr, const char *text)
{
	put_string(addr, text, strlen(text), 1, true);
}

static inline void put_lines(const void *table, __u64 n)
{
	put_word(LINES + image_layout.bytes_size, n);
	if (n < 0x80000 - 64)
		put(LINES + image_layout.bytes_data, table, n);
}

static inline void put_code(__s32 firstlineno, __u32 version)
{
	const struct rprof_python *p = &image_layout;

	for (__u64 at = 0; at < 208; at += 8)
		put_word(CODE + at, 0x0101010101010101ULL * at);
	put_word(CODE + p->co_type, CODE_TYPE);
	put(CODE + p->co_firstlineno, &firstlineno, sizeof(firstlineno));
	put(CODE + p->co_version, &version, sizeof(version));
	put_word(CODE + p->co_name, NAME);
	put_word(CODE + p->co_filename, FILE_NAME);
	put_word(CODE + p->co_lines, LINES);
}

/* main() of /srv/app/main.py, from line 10: one unit each of lines 10, 11 and 12. */
static inline void image_init(void)
{
	static const __u8 table[] = { 0x80 | 10 << 3, 0, 0, 0x80 | 11 << 3, 0, 0,
				      0x80 | 11 << 3, 0, 0 };

	memset(image, 0, sizeof(image));
	put_code(10, 77);
	put_ascii(NAME, "Main.run");
	put_ascii(FILE_NAME, "/srv/app/main.py");
	put_lines(table, sizeof(table));
	image_reads = 0;
}

static inline bool image_has(__u64 addr, size_t len)
{
	return addr >= IMAGE && len <= IMAGE_SIZE && addr - IMAGE <= IMAGE_SIZE - len;
}

static inline size_t image_read(void *ctx, const struct python_range *ranges, size_t n)
{
	image_reads++;
	for (size_t i = 0; i < n; i++) {
		if (!image_has(ranges[i].addr, ranges[i].len))
			return i;
		memcpy(ranges[i].to, image + (ranges[i].addr - IMAGE), ranges[i].len);
	}
	return n;
}

/* The definition in hash.h, once more: of a code object with a version, */
static inline __u64 image_hash(void)
{
	__u64 h = SEED;

	for (__u64 at = 64; at < 144; at += 8) {
		__u64 word;

		memcpy(&word, image + (CODE - IMAGE) + at, sizeof(word));
		h = rprof_mix(h, word, KEY);
	}
	return h;
}

/* and the tail of a text of @n bytes at @data, which has @length code points. */
static inline __u64 image_mix_text(__u64 h, __u64 data, __u64 length, __u64 n)
{
	__u8 tail[RPROF_TEXT_TAIL] = { 0 };
	__u64 size = n < RPROF_TEXT_TAIL ? n : RPROF_TEXT_TAIL;

	memcpy(tail, image + (data - IMAGE) + n - size, size);
	return layout_mix_text(h, KEY, length, tail);
}

#endif
