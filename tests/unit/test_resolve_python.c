// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Native and Python frames of a record in one printed stack, over the test's own address space with
 * two libraries: one that plays the interpreter, and an extension. The order is tested in
 * test_merge.c; here: names, files, lines, marks, options.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile.h"
#include "located.h"
#include "modules.h"
#include "python_codes.h"
#include "python_names.h"
#include "record.h"
#include "resolve.h"
#include "spaces.h"

/* In each function: +4 its frame is up, +9 the return address of a call. */
#define FUNCTIONS                                                                                  \
	".text\n"                                                                                  \
	".macro func name\n.balign 16; .globl \\name; .type \\name,@function; \\name:\n"           \
	".cfi_startproc; push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16; mov %rsp,%rbp\n"    \
	".cfi_def_cfa_register 6; call .; nop; leave; .cfi_def_cfa 7,8; ret\n"                     \
	".cfi_endproc; .size \\name,.-\\name\n.endm\n"                                             \
	".section .note.GNU-stack,\"\",@progbits; .text\n"

static const char interpreter[] = FUNCTIONS
	"func _PyEval_EvalFrameDefault\nfunc list_sort\nfunc gc_collect_main\nfunc visit\n"
	".globl start; .type start,@function\n"
	"start: .cfi_startproc; .cfi_undefined rip; call .; hlt\n"
	".cfi_endproc; .size start,.-start\n"
	/* +3: the frame pointer is saved among others. */
	".balign 16; .globl lost; .type lost,@function; lost: .cfi_startproc\n"
	"push %rbx; .cfi_def_cfa_offset 16; .cfi_offset 3,-16\n"
	"push %rbp; .cfi_def_cfa_offset 24; .cfi_offset 6,-24\n"
	"nop; call .; nop; .cfi_endproc; .size lost,.-lost\n";
static const char extension[] = FUNCTIONS "func ext_call\n";

static struct {
	struct modules *modules;
	struct spaces *spaces;
	const struct space *space;
	struct resolver *resolver;
	struct python_codes *codes;
	struct python_recent recent;
	struct python_style style;
	char *eval, *list_sort, *gc, *visit, *start, *lost, *ext;
	__u32 interpreter;
	bool known;		/* pythons.c says which file it is */
} t;

static struct {
	struct rprof_stack s;
	struct rprof_native_frame native[64];
	struct rprof_python_frame python[64];
} r;

static void begin_stack(void)
{
	memset(&r, 0, sizeof(r));
	r.s.tgid = (__u32)getpid();
	r.s.space = 1;
	t.known = true;
}

static void push(const char *pc)
{
	r.native[r.s.n_native] = (struct rprof_native_frame){ (size_t)pc, r.s.n_native ?
										  RPROF_HOW_CHAIN :
										  RPROF_HOW_PC };
	r.s.n_native++;
}

static void python(__u64 code, __u32 where)
{
	r.python[r.s.n_python++] = (struct rprof_python_frame){ code, 7, where };
}

static void shim(__u64 entry)
{
	r.python[r.s.n_python++] = (struct rprof_python_frame){ entry, 0, RPROF_PY_SHIM };
}

static struct located *locate(void)
{
	static struct {
		struct rprof_stack s;
		__u64 words[4 * 64];
	} sent;
	const struct located_python how = {
		.codes = t.codes,
		.recent = &t.recent,
		.strings = resolver_strings(t.resolver),
		.style = &t.style,
		.interpreter = t.known ? t.interpreter : 0,
	};
	const size_t n_native = r.s.n_native * sizeof(*r.native);
	const size_t n_python = r.s.n_python * sizeof(*r.python);
	struct located *l;

	/* Style and resolver are others in each test. */
	memset(&t.recent, 0, sizeof(t.recent));
	sent.s = r.s;
	sent.s.h.type = RPROF_RECORD_STACK;
	sent.s.h.len = (__u32)(sizeof(r.s) + n_native + n_python);
	memcpy(sent.words, r.native, n_native);
	memcpy((char *)sent.words + n_native, r.python, n_python);
	assert_int_equal(record_check(&sent, sent.s.h.len), 0);
	l = locate_stack(&sent.s, t.space, t.modules, NULL);
	assert_non_null(l);
	assert_int_equal(located_add_python(l, &sent.s, &how), 0);
	return l;
}

/* Root first; marks for the account after " | ". */
static const char *resolve(void)
{
	static char text[1 << 14];
	struct located *l = locate();
	struct resolved_stack out;
	size_t at = 0, unknown = 0;

	assert_int_equal(resolve_stack(t.resolver, l, false, &out), 0);
	located_free(l);
	text[0] = '\0';
	for (size_t i = out.n_frames; i-- > 0;) {
		at += (size_t)sprintf(text + at, "%s%s", at ? ";" : "", out.frames[i].name);
		unknown += !strcmp(out.frames[i].name, "[unknown Python function]");
	}
	for (size_t i = 0; i < out.n_marks; i++)
		at += (size_t)sprintf(text + at, " | %s: %s", out.marks[i]->kind,
				      out.marks[i]->module);
	assert_int_equal(out.n_named - out.n_symbolized, unknown);
	free(out.frames);
	return text;
}

static size_t put_text(char *to, struct rprof_code_text *part, const char *text)
{
	const size_t len = strlen(text);

	*part = (struct rprof_code_text){
		.addr = 0x1000, .length = (__u32)len, .captured = (__u16)len, .kind = 1
	};
	memcpy(to, text, len);
	return (len + 7) & ~(size_t)7;
}

/* A code object at @address, of fingerprint 7: 8 code units, all of line @line; 0: of none. */
static void add_code(__u64 address, const char *name, const char *file, int line)
{
	/* Objects/locations.md: no columns and line +0; or no location. */
	const char lines[] = { (char)(0x80 | (line ? 13 : 15) << 3 | 7), 0, 0 };
	struct {
		struct rprof_code c;
		char text[512];
	} code = { 0 };
	char *at = code.text;

	at += put_text(at, &code.c.parts[RPROF_CODE_NAME], name);
	at += put_text(at, &code.c.parts[RPROF_CODE_FILE], file);
	code.c.parts[RPROF_CODE_NAME].ascii = code.c.parts[RPROF_CODE_FILE].ascii = 1;
	code.c.parts[RPROF_CODE_LINES] = (struct rprof_code_text){
		.addr = 0x2000,
		.length = line ? 2 : 1,
		.captured = line ? 2 : 1,
		.kind = 1,
	};
	memcpy(at, lines, sizeof(lines));
	code.c.h.type = RPROF_RECORD_CODE;
	code.c.h.len = (__u32)(sizeof(code.c) + (size_t)(at - code.text) + 8);
	code.c.code = address;
	code.c.fingerprint = 7;
	code.c.tgid = (__u32)getpid();
	code.c.firstlineno = line;
	code.c.version = 0x030f;
	assert_int_equal(record_check(&code, code.c.h.len), 0);
	assert_int_equal(python_codes_add(t.codes, &code.c), 0);
}

static const struct rprof_python *no_memory(void *ctx, __u32 tgid, struct python_memory *memory)
{
	return NULL;
}

static void new_resolver(bool no_native, bool native_all)
{
	resolver_free(t.resolver);
	t.resolver = resolver_new(&(struct resolver_config){
		.modules = t.modules,
		.no_native = no_native,
		.native_all = native_all,
	});
	assert_non_null(t.resolver);
}

static void add_codes(void)
{
	t.codes = python_codes_new(&(struct python_codes_config){ 1, 3, NULL, no_memory });
	assert_non_null(t.codes);
	add_code(0xa0, "main", "/srv/app/main.py", 10);
	add_code(0xb0, "Sorter.key", "/srv/app/lib/sorter.py", 20);
	add_code(0xc0, "<lambda>", "<string>", 1);
	add_code(0xd0, "__init__", "__init__", 0);
	add_code(0xe0, "generated", "x.py", 0);
}

/* Nothing is said of Python frames: whether there were any is not known. */
static void sample_before_the_interpreter_is_found_says_so(void **state)
{
	begin_stack();
	r.s.stop_python = RPROF_STOP_NONE;
	push(t.visit + 4);
	push(t.start + 5);
	assert_non_null(strstr(resolve(), "[Python not known yet];start"));
	t.known = false;
	assert_null(strstr(resolve(), "[Python not known yet]"));
	begin_stack();
	r.s.stop_python = RPROF_STOP_NO_STATE;
	push(t.visit + 4);
	assert_null(strstr(resolve(), "[Python not known yet]"));
	/* A thread of another library's. */
	begin_stack();
	r.s.stop_python = RPROF_STOP_NONE;
	push(t.ext + 4);
	assert_null(strstr(resolve(), "[Python not known yet]"));
}

static int set_up(void **state)
{
	void *lib = dlopen(compile("python.so", "assembler", interpreter, "-shared -nostdlib"),
			   RTLD_NOW);
	void *ext =
		dlopen(compile("ext.so", "assembler", extension, "-shared -nostdlib"), RTLD_NOW);

	assert_non_null(lib);
	assert_non_null(ext);
	t.eval = dlsym(lib, "_PyEval_EvalFrameDefault");
	t.list_sort = dlsym(lib, "list_sort");
	t.gc = dlsym(lib, "gc_collect_main");
	t.visit = dlsym(lib, "visit");
	t.start = dlsym(lib, "start");
	t.lost = dlsym(lib, "lost");
	t.ext = dlsym(ext, "ext_call");
	t.modules = modules_new(&(struct modules_config){ 0 });
	t.spaces = spaces_new(t.modules);
	assert_int_equal(spaces_read(t.spaces, (__u32)getpid(), NULL, NULL, &t.space), 0);
	t.interpreter = space_mapping(t.space, (size_t)t.eval)->module;
	assert_int_not_equal(t.interpreter, 0);
	new_resolver(false, false);
	add_codes();
	return 0;
}

static int tear_down(void **state)
{
	resolver_free(t.resolver);
	python_codes_free(t.codes);
	spaces_free(t.spaces);
	modules_free(t.modules);
	return 0;
}

/* start -> Python main -> list.sort -> an extension -> Python key -> C. */
static void push_two_runs(void)
{
	begin_stack();
	push(t.visit + 4);
	push(t.eval + 9);
	push(t.ext + 9);
	push(t.list_sort + 9);
	push(t.eval + 9);
	push(t.start + 5);
	python(0xb0, 3);
	shim(2);
	python(0xc0, 1);
	python(0xa0, 2);
	shim(5);
}

static void frames_of_both_kinds_are_in_one_order(void **state)
{
	push_two_runs();
	assert_string_equal(resolve(), "start;main (app/main.py:10);<lambda> (<string>:1);ext_call;"
				       "Sorter.key (lib/sorter.py:20);visit");
	new_resolver(false, true);
	assert_string_equal(resolve(),
			    "start;_PyEval_EvalFrameDefault;main (app/main.py:10);"
			    "<lambda> (<string>:1);list_sort;ext_call;_PyEval_EvalFrameDefault;"
			    "Sorter.key (lib/sorter.py:20);visit");
	new_resolver(false, false);
	/* Which file is the interpreter's is not known: nothing of it is hidden but activations. */
	t.known = false;
	assert_string_equal(resolve(), "start;main (app/main.py:10);<lambda> (<string>:1);"
				       "list_sort;ext_call;Sorter.key (lib/sorter.py:20);visit");
}

static void without_native_there_are_python_frames_alone(void **state)
{
	new_resolver(true, false);
	push_two_runs();
	assert_string_equal(resolve(), "main (app/main.py:10);<lambda> (<string>:1);"
				       "Sorter.key (lib/sorter.py:20)");
	r.s.stop_native = RPROF_STOP_FAULT;
	assert_string_equal(resolve(), "main (app/main.py:10);<lambda> (<string>:1);"
				       "Sorter.key (lib/sorter.py:20)");
	r.s.stop_python = RPROF_STOP_DEPTH;
	assert_string_equal(resolve(), "[truncated: stack depth];main (app/main.py:10);"
				       "<lambda> (<string>:1);Sorter.key (lib/sorter.py:20)"
				       " | stack depth: python.so");
	begin_stack();
	push(t.start + 5);
	assert_string_equal(resolve(), "");
	new_resolver(false, false);
}

static void options_change_how_names_read(void **state)
{
	t.style = (struct python_style){ .full_filenames = true };
	push_two_runs();
	assert_string_equal(resolve(), "start;main (/srv/app/main.py:10);<lambda> (<string>:1);"
				       "ext_call;Sorter.key (/srv/app/lib/sorter.py:20);visit");
	t.style = (struct python_style){ .no_lines = true };
	assert_string_equal(resolve(), "start;main (app/main.py);<lambda> (<string>);ext_call;"
				       "Sorter.key (lib/sorter.py);visit");
	t.style = (struct python_style){ 0 };
}

static void what_is_not_known_is_said(void **state)
{
	begin_stack();
	push(t.eval + 4);
	push(t.start + 5);
	python(0xf0, 3);
	python(0xe0, 3);
	python(0xb0, RPROF_PY_NO_INSTR);
	python(0xa0, 3 | RPROF_PY_COARSE);
	shim(1);
	assert_string_equal(resolve(), "start;main (app/main.py:~10);Sorter.key (lib/sorter.py);"
				       "generated (x.py);[unknown Python function]");
	/* Another code object has its address now. */
	r.python[3].fingerprint = 8;
	r.python[2].fingerprint = 0;
	assert_string_equal(resolve(), "start;[unknown Python function];[unknown Python function];"
				       "generated (x.py);[unknown Python function]");
}

static void interpreters_own_code_object_is_not_shown(void **state)
{
	begin_stack();
	push(t.eval + 4);
	push(t.start + 5);
	python(0xb0, 0);
	python(0xd0, 0);
	python(0xa0, 0);
	shim(1);
	assert_string_equal(resolve(), "start;main (app/main.py:10);Sorter.key (lib/sorter.py:20)");
}

static void names_outlive_the_process(void **state)
{
	struct located *l;
	struct resolved_stack out;

	push_two_runs();
	l = locate();
	located_keep(l, t.modules);
	python_codes_forget(t.codes, (__u32)getpid());
	assert_int_equal(resolve_stack(t.resolver, l, true, &out), 0);
	assert_string_equal(out.frames[1].name, "Sorter.key (lib/sorter.py:20)");
	assert_int_equal(out.frames[1].kind, FRAME_PYTHON);
	assert_int_equal(out.frames[0].kind, FRAME_NATIVE);
	free(out.frames);
	located_free(l);
	assert_string_equal(resolve(), "start;[unknown Python function];[unknown Python function];"
				       "ext_call;[unknown Python function];visit");
	python_codes_free(t.codes);
	add_codes();
}

static void cut_and_mismatch_are_marked(void **state)
{
	begin_stack();
	push(t.visit + 4);
	push(t.lost + 8);
	push(t.eval + 9);
	python(0xa0, 0);
	shim(3);
	assert_string_equal(resolve(), "main (app/main.py:10);"
				       "[truncated: no frame pointer in python.so];lost;visit"
				       " | no frame pointer: python.so");
	begin_stack();
	push(t.visit + 4);
	push(t.eval + 9);
	push(t.start + 5);
	python(0xa0, 0);
	shim(0);
	assert_string_equal(resolve(), "main (app/main.py:10);[merge mismatch];visit"
				       " | merge mismatch: python.so");
}

static void python_walk_that_ended_early_is_marked(void **state)
{
	begin_stack();
	push(t.visit + 4);
	push(t.eval + 9);
	push(t.start + 5);
	python(0xa0, 0);
	python(0x1234, RPROF_PY_NEXT);
	r.s.stop_python = RPROF_STOP_FAULT;
	assert_string_equal(resolve(),
			    "[truncated: stack page not resident];main (app/main.py:10);visit"
			    " | stack page not resident: python.so");
	r.s.n_python = 0;
	r.s.stop_python = RPROF_STOP_STATE_LOST;
	assert_string_equal(resolve(),
			    "[Python frames not found];start;_PyEval_EvalFrameDefault;visit"
			    " | Python frames not found: python.so");
	r.s.stop_python = RPROF_STOP_NO_STATE;
	assert_string_equal(resolve(), "start;_PyEval_EvalFrameDefault;visit");
}

static void absent_native_stack_leaves_python(void **state)
{
	begin_stack();
	r.s.stop_native = RPROF_STOP_NO_REGS;
	python(0xa0, 0);
	shim(0);
	assert_string_equal(resolve(),
			    "main (app/main.py:10);[no user registers] | no user registers: ");
}

static void collection_is_a_frame(void **state)
{
	begin_stack();
	push(t.visit + 4);
	push(t.gc + 9);
	push(t.eval + 9);
	push(t.start + 5);
	python(0xa0, 0);
	shim(3);
	assert_string_equal(resolve(), "start;main (app/main.py:10);<GC>;visit");
	r.python[0].where |= RPROF_PY_GC;
	assert_string_equal(resolve(), "start;main (app/main.py:10);<GC>;visit");
	r.native[1].pc = (size_t)t.list_sort + 9;
	assert_string_equal(resolve(), "start;main (app/main.py:10);<GC>;list_sort;visit");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sample_before_the_interpreter_is_found_says_so),
		cmocka_unit_test(frames_of_both_kinds_are_in_one_order),
		cmocka_unit_test(without_native_there_are_python_frames_alone),
		cmocka_unit_test(options_change_how_names_read),
		cmocka_unit_test(what_is_not_known_is_said),
		cmocka_unit_test(interpreters_own_code_object_is_not_shown),
		cmocka_unit_test(names_outlive_the_process),
		cmocka_unit_test(cut_and_mismatch_are_marked),
		cmocka_unit_test(python_walk_that_ended_early_is_marked),
		cmocka_unit_test(absent_native_stack_leaves_python),
		cmocka_unit_test(collection_is_a_frame),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
