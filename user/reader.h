/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reading hostile bytes forward. All access goes through reader_take(), the one bounds check. After
 * a read past the end the reader is bad, stays so, and all reads give 0: look once, at the end.
 * Numbers are in this machine's byte order and may lie at any address.
 */
#ifndef RPROF_READER_H
#define RPROF_READER_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct reader {
	const unsigned char *at;
	const unsigned char *end;
	bool bad;
};

static inline size_t reader_left(const struct reader *r)
{
	return (size_t)(r->end - r->at);
}

/* The next @n bytes, or NULL. */
static inline const unsigned char *reader_take(struct reader *r, __u64 n)
{
	const unsigned char *bytes = r->at;

	if (r->bad || n > reader_left(r)) {
		r->bad = true;
		r->at = r->end;
		return NULL;
	}
	r->at += n;
	return bytes;
}

static inline __u8 reader_u8(struct reader *r)
{
	const unsigned char *bytes = reader_take(r, 1);

	return bytes ? *bytes : 0;
}

static inline __u16 reader_u16(struct reader *r)
{
	const unsigned char *bytes = reader_take(r, 2);
	__u16 v = 0;

	if (bytes)
		memcpy(&v, bytes, sizeof(v));
	return v;
}

static inline __u32 reader_u32(struct reader *r)
{
	const unsigned char *bytes = reader_take(r, 4);
	__u32 v = 0;

	if (bytes)
		memcpy(&v, bytes, sizeof(v));
	return v;
}

static inline __u64 reader_u64(struct reader *r)
{
	const unsigned char *bytes = reader_take(r, 8);
	__u64 v = 0;

	if (bytes)
		memcpy(&v, bytes, sizeof(v));
	return v;
}

/* Bits beyond 64 are dropped; ten bytes hold 64, more make the reader bad. DWARF 5, 7.6. */
static inline __u64 reader_leb(struct reader *r, bool is_signed)
{
	unsigned int shift = 0;
	__u64 v = 0;
	__u8 byte;

	do {
		if (shift >= 70) {
			r->bad = true;
			return 0;
		}
		byte = reader_u8(r);
		if (shift < 64)
			v |= (__u64)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && (byte & 0x40))
		v |= ~0ULL << shift;
	return v;
}

static inline __u64 reader_uleb(struct reader *r)
{
	return reader_leb(r, false);
}

static inline __s64 reader_sleb(struct reader *r)
{
	return (__s64)reader_leb(r, true);
}

#endif
