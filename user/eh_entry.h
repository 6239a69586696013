/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One function of .eh_frame, and running its table program. Shared by the parts of eh_frame. */
#ifndef RPROF_EH_ENTRY_H
#define RPROF_EH_ENTRY_H

#include "eh_frame.h"
#include "reader.h"

/* What the functions of one compiler run have in common (Common Information Entry). */
struct eh_cie {
	__u64 code_align;
	__s64 data_align;
	__u64 ra_reg;
	__u8 encoding;		/* of addresses, DW_EH_PE_* */
	bool has_length;	/* augmentation 'z' */
	bool signal_frame;
	struct reader program;	/* initial rules */
};

/* Frame Description Entry. */
struct eh_fde {
	struct eh_cie cie;
	__u64 start;
	__u64 end;
	__u64 program_vaddr;	/* address of the program's first byte */
	struct reader program;
};

/* An address encoded as DW_EH_PE @encoding at @r, whose next byte is at @vaddr. */
__u64 eh_read_pointer(struct reader *r, __u8 encoding, __u64 vaddr);

/* Runs the program up to @pc, inside the function. False: malformed, or beyond our bounds. */
bool eh_run(const struct eh_fde *fde, __u64 pc, struct eh_row *row);
/* Shows every row. False: malformed. */
bool eh_run_all(const struct eh_fde *fde, eh_row_visit *visit, void *arg);

#endif
