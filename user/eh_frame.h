/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * .eh_frame: which function an address is in, and the row of its unwind table there. Linux Standard
 * Base Core 5.0, 10.6; DWARF 5, 6.4. A parser of hostile bytes: no I/O, bounded time and memory.
 */
#ifndef RPROF_EH_FRAME_H
#define RPROF_EH_FRAME_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#define EH_FRAME_MAX (64u << 20)	/* bytes; Chrome has 20 MiB */

enum eh_rule_kind {
	EH_UNSPECIFIED,
	EH_SAME,		/* the register is as it was in the caller */
	EH_UNDEFINED,		/* lost; of the return address: there is no caller */
	EH_AT_CFA,		/* saved at CFA + value */
	EH_AT_FP,		/* saved where the frame pointer points */
	EH_OTHER,		/* anything we do not need */
};

struct eh_rule {
	enum eh_rule_kind kind;
	__s64 value;
};

/* Registers by DWARF number. */
struct eh_row {
	__u64 start;		/* holds for [start, end) */
	__u64 end;
	bool cfa_known;		/* CFA = register + offset */
	__u64 cfa_reg;
	__s64 cfa_offset;
	struct eh_rule fp;
	struct eh_rule ra;
	bool signal_frame;	/* augmentation 'S' */
};

struct eh_frame;

/*
 * eh_frame_new() - index the functions of an .eh_frame section.
 * @data: from malloc, at most EH_FRAME_MAX; owned by the result, on failure still the caller's
 * @vaddr: address of its first byte, which pointers in it are relative to
 *
 * Reads up to the terminator or the first entry that makes no sense; what came before stands.
 * Return: 0 or -errno.
 */
int eh_frame_new(void *data, size_t size, __u64 vaddr, struct eh_frame **out);
void eh_frame_free(struct eh_frame *f);

/* Functions by index, in the order of their start; one may overlap the next. */
size_t eh_frame_count(const struct eh_frame *f);
void eh_frame_function(const struct eh_frame *f, size_t i, __u64 *start, __u64 *end);
/* The one that @pc is in. False: none. */
bool eh_frame_index(const struct eh_frame *f, __u64 pc, size_t *i);

/*
 * eh_frame_rows() - all rows of function @i, in order and without gaps.
 * @visit: false: that is enough
 * @budget: bytes of table programs that may be read; those that were are taken off
 * Return: false: its table is malformed, and the rows so far are nothing to rely on; or there was
 * not enough left.
 */
typedef bool eh_row_visit(void *arg, const struct eh_row *row);
bool eh_frame_rows(const struct eh_frame *f, size_t i, eh_row_visit *visit, void *arg,
		   __u64 *budget);

/* The row for @pc. False: no function there, or its table is malformed. */
bool eh_frame_row(const struct eh_frame *f, __u64 pc, struct eh_row *row);

#endif
