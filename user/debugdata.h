/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * .gnu_debugdata: an ELF file with the symbols that .dynsym lacks, compressed by xz, in a stripped
 * file (Fedora's MiniDebugInfo).
 */
#ifndef RPROF_DEBUGDATA_H
#define RPROF_DEBUGDATA_H

#include <linux/types.h>
#include <stddef.h>

#define DEBUGDATA_MAX (64u << 20)	/* bytes, uncompressed; the largest seen have 10 MiB */

/*
 * debugdata_unpack() - uncompress; pure.
 * @max: bytes of output; more is refused
 * @out: from malloc
 * Return: 0 or -errno (-EINVAL: malformed, -E2BIG: more than @max, or wants more memory than xz -9).
 */
int debugdata_unpack(const void *data, size_t size, size_t max, void **out, size_t *out_size);

#endif
