/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keyed hashes that both sides compute. A target chooses its addresses and names, so it must not be
 * able to choose two things with one hash.
 */
#ifndef RPROF_HASH_H
#define RPROF_HASH_H

/*
 * rprof_mix() - one more word. The multiplier is odd, random and secret. Words of addresses have
 * their top bits fixed, so no later word can cancel what a multiplication by an unknown number
 * spread into them; words that are free in all bits need a second round.
 */
static inline __attribute__((always_inline)) __u64 rprof_mix(__u64 h, __u64 word, __u64 key)
{
	h = (h ^ word) * key;
	return h ^ (h >> 32);
}

/*
 * The fingerprint of a code object tells it from another one that gets its address later:
 *
 *	h = hash_seed, then mixed with each word of [.co_from, .co_type + .co_read) of the object
 *
 * That is: first line, sizes, the addresses of its names and tables, and from 3.12 on co_version,
 * which an interpreter does not give twice. Without it, or where it is 0 (used up), equal addresses may hold other
 * text: then h is mixed also with, of its name and then its file name,
 *
 *	the length in code points, and the cached hash;
 *	the last RPROF_TEXT_TAIL bytes of the text as words, in two rounds each: the word, then ~h of
 *	the h before it;
 *	a shorter text is padded with zeros; what cannot be read, or is no compact string, adds nothing
 */
#define RPROF_TEXT_TAIL 64

static inline __attribute__((always_inline)) __u32 rprof_fingerprint(__u64 h)
{
	__u32 high = h >> 32; /* of the last product: every bit of every word counts */

	return high ? high : 1; /* 0: not known */
}

#endif
