/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How CPython lays its objects out, by version: what user space gives to the programs, stated again
 * from the release builds of x86-64. Addresses are the image's.
 */
#ifndef RPROF_HOSTBPF_PYTHON_LAYOUTS_H
#define RPROF_HOSTBPF_PYTHON_LAYOUTS_H

#include "hostbpf.h"

enum { PY39, PY310, PY311, PY312, PY313, PY314, PY315, PY315T, N_LAYOUTS };

/* Strings up to 3.11, then without a wchar_t pointer, and with the header of free-threaded builds. */
#define OLD_TEXT                                                                                   \
	.str_length = 16, .str_hash = 24, .str_state = 32, .str_ascii = 48, .str_compact = 72,     \
	.str_kind_shift = 2, .str_compact_bit = 5, .str_ascii_bit = 6, .bytes_size = 16,           \
	.bytes_data = 32, .co_type = 8
#define NEW_TEXT                                                                                   \
	.str_length = 16, .str_hash = 24, .str_state = 32, .str_ascii = 40, .str_compact = 56,     \
	.str_kind_shift = 2, .str_compact_bit = 5, .str_ascii_bit = 6, .bytes_size = 16,           \
	.bytes_data = 32, .co_type = 8
#define FT_TEXT                                                                                    \
	.str_length = 32, .str_hash = 40, .str_state = 48, .str_ascii = 56, .str_compact = 72,     \
	.str_kind_shift = 8, .str_compact_bit = 11, .str_ascii_bit = 12, .bytes_size = 32,         \
	.bytes_data = 48, .co_type = 24

/* Code objects of 3.12 to 3.15. */
#define NEW_CODE                                                                                   \
	.co_read = 136, .co_from = 64, .co_name = 128, .co_filename = 112, .co_lines = 136,        \
	.co_firstlineno = 68, .co_version = 92

#define NEW_FLAGS (RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION)

static const struct rprof_python python_layouts[N_LAYOUTS] = {
	[PY39] = {
		.version = 0x0309,
		.flags = RPROF_PYTHON_FRAME_OBJECTS | RPROF_PYTHON_LASTI_BYTES,
		.runtime_interpreters = 32, .runtime_current = 568, .interp_threads = 8,
		.ts_read = 184, .ts_next = 8, .ts_interp = 16, .ts_frame = 24, .ts_thread_id = 176,
		.f_read = 112, .f_code = 32, .f_previous = 24, .f_instr = 104, OLD_TEXT,
		.co_read = 120, .co_from = 16, .co_name = 112, .co_filename = 104, .co_lines = 120,
		.co_firstlineno = 40,
	},
	[PY310] = {
		.version = 0x030a, .flags = RPROF_PYTHON_FRAME_OBJECTS,
		.runtime_interpreters = 32, .runtime_current = 568, .interp_threads = 8,
		.ts_read = 184, .ts_next = 8, .ts_interp = 16, .ts_frame = 24, .ts_thread_id = 176,
		.f_read = 104, .f_code = 32, .f_previous = 24, .f_instr = 96, OLD_TEXT,
		.co_read = 120, .co_from = 16, .co_name = 112, .co_filename = 104, .co_lines = 120,
		.co_firstlineno = 40,
	},
	[PY311] = {
		.version = 0x030b, .flags = RPROF_PYTHON_CFRAME | RPROF_PYTHON_IS_ENTRY,
		.runtime_interpreters = 40, .runtime_current = 576, .interp_threads = 16,
		.ts_read = 304, .ts_next = 8, .ts_interp = 16, .ts_frame = 56, .ts_thread_id = 152,
		.ts_native_tid = 160, .ts_chunk = 296, .cframe_frame = 8, .cframe_previous = 16,
		.f_read = 72, .f_code = 32, .f_previous = 48, .f_instr = 56, .f_owner = 69,
		.f_entry = 68, OLD_TEXT, .co_read = 136, .co_from = 72, .co_name = 128,
		.co_filename = 112, .co_lines = 136, .co_firstlineno = 72, .co_code = 184,
	},
	[PY312] = {
		.version = 0x030c, .flags = NEW_FLAGS | RPROF_PYTHON_CFRAME, .status_bit = 3,
		.runtime_interpreters = 40, .interp_threads = 72,
		.ts_read = 240, .ts_next = 8, .ts_interp = 16, .ts_frame = 56, .ts_thread_id = 136,
		.ts_native_tid = 144, .ts_status = 24, .ts_chunk = 232, .cframe_frame = 0,
		.cframe_previous = 8, .f_read = 72, .f_code = 0, .f_previous = 8, .f_instr = 56,
		.f_owner = 70, NEW_TEXT, NEW_CODE, .co_code = 192,
	},
	[PY313] = {
		.version = 0x030d, .flags = NEW_FLAGS, .status_bit = 3,
		.runtime_interpreters = 632, .interp_next = 7264, .interp_threads = 7344,
		.ts_read = 240, .ts_next = 8, .ts_interp = 16, .ts_frame = 72, .ts_thread_id = 152,
		.ts_native_tid = 160, .ts_status = 32, .ts_chunk = 232, .f_read = 72, .f_code = 0,
		.f_previous = 8, .f_instr = 56, .f_owner = 70, NEW_TEXT, NEW_CODE, .co_code = 200,
	},
	[PY314] = {
		.version = 0x030e, .flags = NEW_FLAGS | RPROF_PYTHON_GENERATION, .status_bit = 3,
		.runtime_interpreters = 808, .interp_next = 7272, .interp_threads = 7344,
		.interp_generation = 7992, .interp_collecting = 7600, .ts_read = 280, .ts_next = 8,
		.ts_interp = 16, .ts_frame = 72, .ts_thread_id = 152, .ts_native_tid = 160,
		.ts_status = 32, .ts_chunk = 232, .ts_executor = 272, .f_read = 80, .f_code = 0,
		.f_previous = 8, .f_instr = 56, .f_owner = 74, .f_tags = 7, NEW_TEXT, NEW_CODE,
		.co_code = 208,
	},
	[PY315] = {
		.version = 0x030f, .status_bit = 3,
		.flags = NEW_FLAGS | RPROF_PYTHON_GENERATION | RPROF_PYTHON_BASE_FRAME |
			 RPROF_PYTHON_GC_FRAME,
		.runtime_interpreters = 936, .interp_next = 7264, .interp_threads = 7336,
		.interp_generation = 7944, .interp_collecting = 7512, .interp_gc_frame = 7520,
		.ts_read = 312, .ts_next = 8, .ts_interp = 16, .ts_frame = 72, .ts_base_frame = 80,
		.ts_thread_id = 176, .ts_native_tid = 184, .ts_status = 32, .ts_chunk = 256,
		.ts_executor = 304, .f_read = 80, .f_code = 0, .f_previous = 8, .f_instr = 56,
		.f_owner = 74, .f_tags = 7, NEW_TEXT, NEW_CODE, .co_code = 208,
	},
	[PY315T] = {
		.version = 0x030f, .status_bit = 3,
		.flags = NEW_FLAGS | RPROF_PYTHON_GENERATION | RPROF_PYTHON_BASE_FRAME |
			 RPROF_PYTHON_GC_FRAME | RPROF_PYTHON_FREE_THREADED,
		.runtime_interpreters = 936, .interp_next = 7264, .interp_threads = 7336,
		.interp_generation = 7952, .interp_collecting = 7512, .interp_gc_frame = 7520,
		.ts_read = 264, .ts_next = 8, .ts_interp = 16, .ts_frame = 72, .ts_base_frame = 80,
		.ts_thread_id = 176, .ts_native_tid = 184, .ts_status = 32, .ts_chunk = 256,
		.f_read = 80, .f_code = 0, .f_previous = 8, .f_instr = 56, .f_owner = 78,
		.f_tlbc = 72, .f_tags = 7, FT_TEXT, .co_read = 136, .co_from = 80, .co_name = 144,
		.co_filename = 128, .co_lines = 152, .co_firstlineno = 84, .co_version = 108,
		.co_code = 232, .co_tlbc = 224,
	},
};

#endif
