/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The fields of CPython's structs, one row each: _Py_DebugOffsets of 3.13 to 3.15 in the order of its
 * words (Include/internal/pycore_debug_offsets.h), and, among them, what no debug table has.
 */
#include "python_fields.h"

#include <errno.h>
#include <string.h>

#define ALL (PYTHON_IN_3_13 | PYTHON_IN_3_14 | PYTHON_IN_3_15)
#define SINCE_14 (PYTHON_IN_3_14 | PYTHON_IN_3_15)
#define SINCE_15 PYTHON_IN_3_15
#define OLD PYTHON_IN_BUILTIN

#define SIZE PYTHON_SIZE
#define ZERO PYTHON_ZERO
#define ELSEWHERE PYTHON_ELSEWHERE
#define OPTIONAL PYTHON_OPTIONAL

#define FT RPROF_PYTHON_FREE_THREADED
#define OBJECTS RPROF_PYTHON_FRAME_OBJECTS
#define CFRAME RPROF_PYTHON_CFRAME
#define IS_ENTRY RPROF_PYTHON_IS_ENTRY
#define BASE_FRAME RPROF_PYTHON_BASE_FRAME
#define GENERATION RPROF_PYTHON_GENERATION
#define CODE_VERSION RPROF_PYTHON_CODE_VERSION
#define GC_FRAME RPROF_PYTHON_GC_FRAME
#define STATUS RPROF_PYTHON_STATUS

#define TO(member)                                                                                 \
	.to = offsetof(struct rprof_python, member),                                               \
	.to_size = sizeof(((struct rprof_python *)0)->member)

#define MAX_ELSEWHERE (1u << 20)

static const struct {
	const char *name;
	const char *noun;
	__u32 ceiling;	/* no offset reaches it, */
	__u32 max_size;	/* no size is larger */
} sections[PYTHON_SECTIONS] = {
	[PYTHON_RUNTIME] = { "runtime_state", "runtime", 1u << 20, 1u << 20 },
	[PYTHON_INTERPRETER] = { "interpreter_state", "interpreter", 1u << 18, 1u << 20 },
	[PYTHON_THREAD] = { "thread_state", "thread state", 4096, 4096 },
	[PYTHON_EXC_ITEM] = { "err_stackitem", "item", 16, 16 },
	[PYTHON_CFRAME] = { "cframe", "cframe", 32, 32 },
	[PYTHON_FRAME] = { "interpreter_frame", "frame", 256, 256 },
	[PYTHON_CODE] = { "code_object", "code object", 512, 512 },
	[PYTHON_OBJECT] = { "pyobject", "object", 64, 64 },
	[PYTHON_TYPE] = { "type_object", "type", 4096, 4096 },
	[PYTHON_HEAP_TYPE] = { "heap_type_object", "type", 4096, 4096 },
	[PYTHON_TUPLE] = { "tuple_object", "tuple", 256, 256 },
	[PYTHON_LIST] = { "list_object", "list", 256, 256 },
	[PYTHON_SET] = { "set_object", "set", 1024, 1024 },
	[PYTHON_DICT] = { "dict_object", "dict", 256, 256 },
	[PYTHON_FLOAT] = { "float_object", "float", 256, 256 },
	[PYTHON_LONG] = { "long_object", "int", 256, 256 },
	[PYTHON_BYTES] = { "bytes_object", "bytes object", 256, 256 },
	[PYTHON_UNICODE] = { "unicode_object", "string", 256, 256 },
	/* In struct rprof_python these count from the interpreter. */
	[PYTHON_GC] = { "gc", "gc state", 1u << 18, 4096 },
	[PYTHON_GEN] = { "gen_object", "generator", 1024, 1024 },
	[PYTHON_LLIST] = { "llist_node", "node", 16, 16 },
	[PYTHON_DEBUGGER] = { "debugger_support", "struct", MAX_ELSEWHERE, 0 },
	[PYTHON_TASK] = { "asyncio_task_object", "task", 4096, 4096 },
	[PYTHON_ASYNC_INTERPRETER] = { "asyncio_interpreter_state", "interpreter", 1u << 18,
				       1u << 20 },
	[PYTHON_ASYNC_THREAD] = { "asyncio_thread_state", "thread state", 1u << 18, 1u << 18 },
};

/* Read by scripts/python-layouts.py, too. */
const struct python_field python_fields[] = {
	{ PYTHON_RUNTIME, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_RUNTIME, "finalizing", .in = ALL | OLD, .width = 8, TO(runtime_finalizing) },
	{ PYTHON_RUNTIME, "interpreters_head", .in = ALL | OLD, .width = 8,
	  TO(runtime_interpreters) },
	{ PYTHON_RUNTIME, "tstate_current", .in = OLD, .width = 8, .unless = STATUS,
	  TO(runtime_current) },
	{ PYTHON_INTERPRETER, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_INTERPRETER, "id", .in = ALL | OLD, .width = 8 },
	{ PYTHON_INTERPRETER, "next", .in = ALL | OLD, .width = 8, .flags = ZERO, TO(interp_next) },
	{ PYTHON_INTERPRETER, "threads_head", .in = ALL | OLD, .width = 8, TO(interp_threads) },
	{ PYTHON_INTERPRETER, "threads_main", .in = SINCE_14, .width = 8 },
	{ PYTHON_INTERPRETER, "gc", .in = ALL | OLD, .width = 8 },
	{ PYTHON_INTERPRETER, "imports_modules", .in = ALL, .width = 8 },
	{ PYTHON_INTERPRETER, "sysdict", .in = ALL, .width = 8 },
	{ PYTHON_INTERPRETER, "builtins", .in = ALL, .width = 8 },
	{ PYTHON_INTERPRETER, "ceval_gil", .in = ALL, .width = 8 },
	{ PYTHON_INTERPRETER, "gil_runtime_state", .in = ALL, .width = 1 },
	{ PYTHON_INTERPRETER, "gil_runtime_state_enabled", .in = ALL, .width = 4,
	  .flags = ZERO | ELSEWHERE },
	{ PYTHON_INTERPRETER, "gil_runtime_state_locked", .in = ALL, .width = 4 },
	{ PYTHON_INTERPRETER, "gil_runtime_state_holder", .in = ALL, .width = 8 },
	{ PYTHON_INTERPRETER, "code_object_generation", .in = SINCE_14, .width = 8,
	  .needs = GENERATION, TO(interp_generation) },
	{ PYTHON_INTERPRETER, "tlbc_generation", .in = SINCE_14, .width = 4, .needs = FT },
	{ PYTHON_THREAD, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_THREAD, "prev", .in = ALL, .width = 8, .flags = ZERO },
	{ PYTHON_THREAD, "next", .in = ALL | OLD, .width = 8, TO(ts_next) },
	{ PYTHON_THREAD, "interp", .in = ALL | OLD, .width = 8, TO(ts_interp) },
	{ PYTHON_THREAD, "current_frame", .in = ALL | OLD, .width = 8, TO(ts_frame) },
	{ PYTHON_THREAD, "base_frame", .in = SINCE_15, .width = 8, .needs = BASE_FRAME,
	  TO(ts_base_frame) },
	{ PYTHON_THREAD, "last_profiled_frame", .in = SINCE_15, .width = 8 },
	{ PYTHON_THREAD, "last_profiled_frame_seq", .in = SINCE_15, .width = 8 },
	{ PYTHON_THREAD, "thread_id", .in = ALL | OLD, .width = 8, TO(ts_thread_id) },
	{ PYTHON_THREAD, "native_thread_id", .in = ALL | OLD, .width = 8, .unless = OBJECTS,
	  TO(ts_native_tid) },
	{ PYTHON_THREAD, "datastack_chunk", .in = ALL | OLD, .width = 8, .unless = OBJECTS,
	  TO(ts_chunk) },
	{ PYTHON_THREAD, "status", .in = ALL | OLD, .width = 4, .needs = STATUS, TO(ts_status) },
	{ PYTHON_THREAD, "holds_gil", .in = SINCE_15, .width = 4 },
	{ PYTHON_THREAD, "gil_requested", .in = SINCE_15, .width = 4 },
	{ PYTHON_THREAD, "current_exception", .in = SINCE_15, .width = 16 },
	{ PYTHON_THREAD, "exc_state", .in = SINCE_15, .width = 16 },
	{ PYTHON_THREAD, "current_executor", .in = 0, .width = 8, .flags = OPTIONAL,
	  .needs = GENERATION, .unless = FT, TO(ts_executor) },
	{ PYTHON_EXC_ITEM, "exc_value", .in = SINCE_15, .width = 16, .flags = ZERO },
	{ PYTHON_CFRAME, "size", .in = OLD, .flags = SIZE, .needs = CFRAME },
	{ PYTHON_CFRAME, "current_frame", .in = OLD, .width = 8, .flags = ZERO, .needs = CFRAME,
	  TO(cframe_frame) },
	{ PYTHON_CFRAME, "previous", .in = OLD, .width = 8, .needs = CFRAME, TO(cframe_previous) },
	{ PYTHON_FRAME, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_FRAME, "previous", .in = ALL | OLD, .width = 8, TO(f_previous) },
	{ PYTHON_FRAME, "executable", .in = ALL | OLD, .width = 8, .flags = ZERO, TO(f_code) },
	{ PYTHON_FRAME, "instr_ptr", .in = ALL | OLD, .width = 8, TO(f_instr) },
	{ PYTHON_FRAME, "localsplus", .in = ALL, .width = 8 },
	{ PYTHON_FRAME, "owner", .in = ALL | OLD, .width = 1, .unless = OBJECTS, TO(f_owner) },
	{ PYTHON_FRAME, "stackpointer", .in = SINCE_14, .width = 8 },
	{ PYTHON_FRAME, "tlbc_index", .in = SINCE_14, .width = 4, .needs = FT | GENERATION,
	  TO(f_tlbc) },
	{ PYTHON_FRAME, "is_entry", .in = OLD, .width = 1, .needs = IS_ENTRY, TO(f_entry) },
	{ PYTHON_CODE, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_CODE, "filename", .in = ALL | OLD, .width = 8, TO(co_filename) },
	{ PYTHON_CODE, "name", .in = ALL | OLD, .width = 8, .unless = OBJECTS },
	{ PYTHON_CODE, "qualname", .in = ALL | OLD, .width = 8, TO(co_name) },
	{ PYTHON_CODE, "linetable", .in = ALL | OLD, .width = 8, TO(co_lines) },
	{ PYTHON_CODE, "firstlineno", .in = ALL | OLD, .width = 4, TO(co_firstlineno) },
	{ PYTHON_CODE, "argcount", .in = ALL, .width = 4 },
	{ PYTHON_CODE, "localsplusnames", .in = ALL, .width = 8 },
	{ PYTHON_CODE, "localspluskinds", .in = ALL, .width = 8 },
	{ PYTHON_CODE, "co_code_adaptive", .in = ALL | OLD, .width = 1, .unless = OBJECTS,
	  TO(co_code) },
	{ PYTHON_CODE, "co_tlbc", .in = SINCE_14, .width = 8, .needs = FT | GENERATION,
	  TO(co_tlbc) },
	{ PYTHON_CODE, "version", .in = OLD, .width = 4, .needs = CODE_VERSION, TO(co_version) },
	{ PYTHON_OBJECT, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_OBJECT, "ob_type", .in = ALL | OLD, .width = 8, TO(co_type) },
	{ PYTHON_TYPE, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_TYPE, "tp_name", .in = ALL | OLD, .width = 8 },
	{ PYTHON_TYPE, "tp_repr", .in = ALL, .width = 8 },
	{ PYTHON_TYPE, "tp_flags", .in = ALL, .width = 8 },
	{ PYTHON_TYPE, "tp_basicsize", .in = SINCE_15, .width = 8 },
	{ PYTHON_TYPE, "tp_dictoffset", .in = SINCE_15, .width = 8 },
	{ PYTHON_HEAP_TYPE, "size", .in = SINCE_15, .flags = SIZE },
	{ PYTHON_HEAP_TYPE, "ht_cached_keys", .in = SINCE_15, .width = 8 },
	{ PYTHON_TUPLE, "size", .in = ALL, .flags = SIZE },
	{ PYTHON_TUPLE, "ob_item", .in = ALL, .width = 8 },
	{ PYTHON_TUPLE, "ob_size", .in = ALL, .width = 8 },
	{ PYTHON_LIST, "size", .in = ALL, .flags = SIZE },
	{ PYTHON_LIST, "ob_item", .in = ALL, .width = 8 },
	{ PYTHON_LIST, "ob_size", .in = ALL, .width = 8 },
	{ PYTHON_SET, "size", .in = SINCE_14, .flags = SIZE },
	{ PYTHON_SET, "used", .in = SINCE_14, .width = 8 },
	{ PYTHON_SET, "table", .in = SINCE_14, .width = 8 },
	{ PYTHON_SET, "mask", .in = SINCE_14, .width = 8 },
	{ PYTHON_DICT, "size", .in = ALL, .flags = SIZE },
	{ PYTHON_DICT, "ma_keys", .in = ALL, .width = 8 },
	{ PYTHON_DICT, "ma_values", .in = ALL, .width = 8 },
	{ PYTHON_FLOAT, "size", .in = ALL, .flags = SIZE },
	{ PYTHON_FLOAT, "ob_fval", .in = ALL, .width = 8 },
	{ PYTHON_LONG, "size", .in = ALL, .flags = SIZE },
	{ PYTHON_LONG, "lv_tag", .in = ALL, .width = 8 },
	{ PYTHON_LONG, "ob_digit", .in = ALL, .width = 4 },
	{ PYTHON_BYTES, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_BYTES, "ob_size", .in = ALL | OLD, .width = 8, TO(bytes_size) },
	{ PYTHON_BYTES, "ob_sval", .in = ALL | OLD, .width = 1, TO(bytes_data) },
	{ PYTHON_UNICODE, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_UNICODE, "state", .in = ALL | OLD, .width = 4, TO(str_state) },
	{ PYTHON_UNICODE, "length", .in = ALL | OLD, .width = 8, TO(str_length) },
	{ PYTHON_UNICODE, "asciiobject_size", .in = ALL | OLD, .width = 1, TO(str_ascii) },
	{ PYTHON_UNICODE, "compactunicodeobject_size", .in = SINCE_15 | OLD, .width = 1,
	  TO(str_compact) },
	{ PYTHON_UNICODE, "hash", .in = OLD, .width = 8, TO(str_hash) },
	{ PYTHON_GC, "size", .in = ALL | OLD, .flags = SIZE },
	{ PYTHON_GC, "collecting", .in = ALL | OLD, .width = 4, TO(interp_collecting) },
	{ PYTHON_GC, "frame", .in = SINCE_15, .width = 8, .needs = GC_FRAME, TO(interp_gc_frame) },
	{ PYTHON_GC, "generation_stats_size", .in = SINCE_15, .flags = ELSEWHERE },
	{ PYTHON_GC, "generation_stats", .in = SINCE_15, .width = 8 },
	{ PYTHON_GEN, "size", .in = SINCE_14, .flags = SIZE },
	{ PYTHON_GEN, "gi_name", .in = SINCE_14, .width = 8 },
	{ PYTHON_GEN, "gi_iframe", .in = SINCE_14, .width = 8 },
	{ PYTHON_GEN, "gi_frame_state", .in = SINCE_14, .width = 1 },
	{ PYTHON_LLIST, "next", .in = SINCE_14, .width = 8, .flags = ZERO },
	{ PYTHON_LLIST, "prev", .in = SINCE_14, .width = 8 },
	{ PYTHON_DEBUGGER, "eval_breaker", .in = SINCE_14, .flags = ELSEWHERE },
	{ PYTHON_DEBUGGER, "remote_debugger_support", .in = SINCE_14, .flags = ELSEWHERE },
	{ PYTHON_DEBUGGER, "remote_debugging_enabled", .in = SINCE_14, .flags = ELSEWHERE },
	{ PYTHON_DEBUGGER, "debugger_pending_call", .in = SINCE_14, .flags = ELSEWHERE | ZERO },
	{ PYTHON_DEBUGGER, "debugger_script_path", .in = SINCE_14, .flags = ELSEWHERE },
	{ PYTHON_DEBUGGER, "debugger_script_path_size", .in = SINCE_14, .flags = ELSEWHERE },
};

const size_t n_python_fields = sizeof(python_fields) / sizeof(python_fields[0]);

_Static_assert(sizeof(python_fields) / sizeof(python_fields[0]) <= PYTHON_FIELDS_MAX, "rows");

const char *python_section_name(enum python_section section)
{
	return sections[section].name;
}

bool python_field_exists(const struct python_field *row, __u16 flags)
{
	return (flags & row->needs) == row->needs && !(flags & row->unless);
}

size_t python_fields_size(const struct python_field *rows, size_t n, __u8 in, size_t head)
{
	size_t size = head;

	for (size_t i = 0; i < n; i++)
		size += rows[i].in & in ? sizeof(__u64) : 0;
	return size;
}

void python_fields_read(const struct python_field *rows, size_t n, __u8 in, size_t head,
			const void *bytes, struct python_words *w)
{
	const char *at = (const char *)bytes + head;

	for (size_t i = 0; i < n; i++) {
		w->value[i] = 0;
		w->has[i] = rows[i].in & in;
		if (!w->has[i])
			continue;
		memcpy(&w->value[i], at, sizeof(w->value[i]));
		at += sizeof(w->value[i]);
	}
}

__u64 python_fields_value(const struct python_words *w, enum python_section section,
			  const char *name)
{
	for (size_t i = 0; i < n_python_fields; i++) {
		if (python_fields[i].section == section && !strcmp(python_fields[i].name, name))
			return w->value[i];
	}
	return 0;
}

__u32 python_field_get(const struct python_field *row, const struct rprof_python *p)
{
	const char *from = (const char *)p + row->to;
	__u32 wide;
	__u16 narrow;

	if (row->to_size == sizeof(wide)) {
		memcpy(&wide, from, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, from, sizeof(narrow));
	return narrow;
}

void python_fields_copy(const struct python_words *w, struct rprof_python *p)
{
	for (size_t i = 0; i < n_python_fields; i++) {
		const struct python_field *row = &python_fields[i];
		const __u32 wide = (__u32)w->value[i];
		const __u16 narrow = (__u16)wide;

		if (!w->has[i] || !python_field_exists(row, w->flags))
			continue;
		if (row->to_size == sizeof(wide))
			memcpy((char *)p + row->to, &wide, sizeof(wide));
		else if (row->to_size == sizeof(narrow))
			memcpy((char *)p + row->to, &narrow, sizeof(narrow));
	}
}

/* One table while it is checked. */
struct checking {
	const struct python_field *rows;
	size_t n;
	const struct python_words *w;
	char *why;
};

#define WHY(c, i, format, ...)                                                                     \
	(snprintf((c)->why, PYTHON_WHY, "%s: %s.%s %llu " format, (c)->w->source,                  \
		  sections[(c)->rows[i].section].name, (c)->rows[i].name,                          \
		  (unsigned long long)(c)->w->value[i], ##__VA_ARGS__),                            \
	 -EINVAL)

/* sizeof the section's struct as far as the table says so. Sizes are checked before they are used. */
static __u64 size_of(const struct checking *c, __u8 section)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->rows[i].section == section && (c->rows[i].flags & SIZE) && c->w->has[i])
			return c->w->value[i];
	}
	return sections[section].ceiling;
}

/* The collector's state is a struct in the interpreter; of all else, what is read there. */
static __u64 extent_of(const struct checking *c, size_t i)
{
	const struct python_field *row = &c->rows[i];

	if (row->section == PYTHON_INTERPRETER && !strcmp(row->name, "gc"))
		return size_of(c, PYTHON_GC);
	return row->width;
}

static int check_size(const struct checking *c, size_t i)
{
	const __u32 max = sections[c->rows[i].section].max_size;

	if (!c->w->value[i])
		return WHY(c, i, "is no size");
	if (c->w->value[i] > max)
		return WHY(c, i, "is more than %u", max);
	return 0;
}

static int check_place(const struct checking *c, size_t i)
{
	const struct python_field *row = &c->rows[i];
	const unsigned int align = row->width < 8 ? row->width : 8;
	const __u64 value = c->w->value[i];
	__u64 size = size_of(c, row->section);

	if (!value && !(row->flags & ZERO))
		return WHY(c, i, "is no place for it");
	if (row->flags & ELSEWHERE)
		return value < MAX_ELSEWHERE ? 0 : WHY(c, i, "is absurd");
	if (value % align)
		return WHY(c, i, "is not aligned to %u bytes", align);
	if (size > sections[row->section].ceiling)
		size = sections[row->section].ceiling;
	if (extent_of(c, i) > size || value > size - extent_of(c, i))
		return WHY(c, i, "is outside the %llu-byte %s", (unsigned long long)size,
			   sections[row->section].noun);
	return 0;
}

/* Is it a place in a struct, of a field that this version has? */
static bool is_place(const struct checking *c, size_t i)
{
	return c->w->has[i] && !(c->rows[i].flags & (SIZE | ELSEWHERE)) &&
	       python_field_exists(&c->rows[i], c->w->flags);
}

static int check_apart(const struct checking *c, size_t i)
{
	const __u64 value = c->w->value[i];

	for (size_t j = 0; j < i; j++) {
		const __u64 other = c->w->value[j];

		if (c->rows[j].section != c->rows[i].section || !is_place(c, j))
			continue;
		if (value < other + extent_of(c, j) && other < value + extent_of(c, i))
			return WHY(c, i, "overlaps %s at %llu", c->rows[j].name,
				   (unsigned long long)other);
	}
	return 0;
}

static int check_row(const struct checking *c, size_t i)
{
	const struct python_field *row = &c->rows[i];

	if (!c->w->has[i])
		return 0;
	if (!python_field_exists(row, c->w->flags))
		return c->w->value[i] ? WHY(c, i, "is a place, but this build has no such field") :
					0;
	return row->flags & SIZE ? check_size(c, i) : check_place(c, i);
}

int python_fields_check(const struct python_field *rows, size_t n, const struct python_words *w,
			char why[PYTHON_WHY])
{
	const struct checking c = { .rows = rows, .n = n, .w = w, .why = why };
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		err = check_row(&c, i);
	for (size_t i = 0; i < n && !err; i++)
		err = is_place(&c, i) ? check_apart(&c, i) : 0;
	return err;
}
