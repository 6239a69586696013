// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Stacks made by hand over the test's own address space, with code of which every instruction and
 * every unwind rule is known. What marks.c decides is tested there; here: names, rules, words.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "compile.h"
#include "ksyms.h"
#include "located.h"
#include "modules.h"
#include "resolve.h"
#include "spaces.h"

/* 16 bytes each, so that addresses can be computed. */
static const char code[] =
	".text\n"
	".macro func name\n.balign 16; .globl \\name; .type \\name,@function; \\name:\n.endm\n"
	".macro done name\n.size \\name,.-\\name\n.endm\n"
	/* +0 push, +1 mov, +4 up, +9 return address of the call, +10 leave, +11 ret */
	"func framed; .cfi_startproc\n"
	"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16; mov %rsp,%rbp\n"
	".cfi_def_cfa_register 6; call framed; nop; leave; .cfi_def_cfa 7,8; ret\n"
	".cfi_endproc; done framed\n"
	"func leaf; .cfi_startproc; nop; nop; nop; ret; .cfi_endproc; done leaf\n"
	/* +3: rbp pushed among others, +8 return address there */
	"func lost; .cfi_startproc\n"
	"push %rbx; .cfi_def_cfa_offset 16; .cfi_offset 3,-16\n"
	"push %rbp; .cfi_def_cfa_offset 24; .cfi_offset 6,-24\n"
	"nop; call lost; nop; .cfi_endproc; done lost\n"
	"func start; .cfi_startproc; .cfi_undefined rip; call start; hlt\n"
	".cfi_endproc; done start\n"
	"func tramp; .cfi_startproc; .cfi_signal_frame; nop; nop; .cfi_endproc; done tramp\n"
	/* A call that never returns is the last instruction; what follows is another function. */
	"func never; .cfi_startproc; push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16\n"
	"mov %rsp,%rbp; .cfi_def_cfa_register 6; nop; nop; nop; nop; nop; nop; nop; call never\n"
	".cfi_endproc; done never\n"
	"func after; nop; nop; nop; done after\n"
	"func nameless; nop; nop; nop; nop\n"
	".section .note.GNU-stack,\"\",@progbits\n";

static struct {
	struct modules *modules;
	struct spaces *spaces;
	struct ksyms *ksyms;
	struct resolver *resolver;
	char *framed, *leaf, *lost, *start, *tramp, *never, *after;
	char *anon;
	const char *marks;
} t;

static struct {
	struct rprof_stack s;
	__u64 kernel[RPROF_MAX_KERNEL];
	struct rprof_native_frame native[RPROF_MAX_NATIVE];
} r;

static void begin_stack(unsigned int stop)
{
	memset(&r, 0, sizeof(r));
	r.s.tgid = (__u32)getpid();
	r.s.space = 1;
	r.s.stop_native = (__u8)stop;
}

static void push(const char *pc, __u64 flags)
{
	r.native[r.s.n_native++] = (struct rprof_native_frame){ (size_t)pc, flags };
}

/* The record as the kernel sends it: the native frames follow the kernel ones at once. */
static int resolve_record(struct resolved_stack *out)
{
	static struct {
		struct rprof_stack s;
		__u64 words[RPROF_MAX_KERNEL + 2 * RPROF_MAX_NATIVE];
	} sent;
	struct located *l;
	int err;

	sent.s = r.s;
	memcpy(sent.words, r.kernel, r.s.n_kernel * sizeof(__u64));
	memcpy(sent.words + r.s.n_kernel, r.native, r.s.n_native * sizeof(*r.native));
	l = locate_stack(&sent.s, spaces_at(t.spaces, r.s.tgid, 1), t.modules, NULL);
	assert_non_null(l);
	err = resolve_stack(t.resolver, l, false, out);
	located_free(l);
	return err;
}

/* Root first, as it is printed; marks for the account after " | ". */
static const char *resolve(void)
{
	static char text[1 << 16];
	struct resolved_stack out;
	size_t at = 0;

	assert_int_equal(resolve_record(&out), 0);
	text[0] = '\0';
	for (size_t i = out.n_frames; i-- > 0;)
		at += (size_t)sprintf(text + at, "%s%s", at ? ";" : "", out.frames[i].name);
	for (size_t i = 0; i < out.n_marks; i++)
		at += (size_t)sprintf(text + at, " | %s: %s", out.marks[i]->kind,
				      out.marks[i]->module);
	assert_true(out.n_symbolized <= out.n_named);
	assert_true(out.n_named <= out.n_frames);
	free(out.frames);
	return text;
}

static int set_up(void **state)
{
	static const char kallsyms[] = "ffffffff81000000 T entry_SYSCALL_64\n"
				       "ffffffff81000100 T do_syscall_64\n"
				       "ffffffff81000200 T ksys_read\n"
				       "ffffffff81000300 T _etext_of_this_test\n";
	void *lib = dlopen(compile("code.so", "assembler", code, "-shared -nostdlib"), RTLD_NOW);
	const struct space *sp;

	assert_non_null(lib);
	t.framed = dlsym(lib, "framed");
	t.leaf = dlsym(lib, "leaf");
	t.lost = dlsym(lib, "lost");
	t.start = dlsym(lib, "start");
	t.tramp = dlsym(lib, "tramp");
	t.never = dlsym(lib, "never");
	t.after = dlsym(lib, "after");
	t.anon = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	t.ksyms = ksyms_parse(kallsyms, strlen(kallsyms));
	t.modules = modules_new(&(struct modules_config){ 0 });
	t.spaces = spaces_new(t.modules);
	assert_int_equal(spaces_read(t.spaces, (__u32)getpid(), NULL, NULL, &sp), 0);
	t.resolver =
		resolver_new(&(struct resolver_config){ .modules = t.modules, .ksyms = t.ksyms });
	assert_non_null(t.resolver);
	return 0;
}

static int tear_down(void **state)
{
	resolver_free(t.resolver);
	spaces_free(t.spaces);
	modules_free(t.modules);
	ksyms_free(t.ksyms);
	return 0;
}

static void proven_stack_has_names_and_no_marks(void **state)
{
	begin_stack(RPROF_STOP_END);
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;framed;framed");
}

static void kernel_frames_come_before_user_frames(void **state)
{
	begin_stack(RPROF_STOP_END);
	r.s.n_kernel = 3;
	r.kernel[0] = 0xffffffff81000200; /* interrupted at its first byte */
	r.kernel[1] = 0xffffffff81000200; /* a call at the very end of what is before */
	r.kernel[2] = 0xffffffff81000050;
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;framed;entry_SYSCALL_64;do_syscall_64;ksys_read");
	r.kernel[0] = 1;
	assert_string_equal(resolve(), "start;framed;entry_SYSCALL_64;do_syscall_64;[unknown]");
}

static void cut_kernel_stack_is_marked_where_it_was_cut(void **state)
{
	begin_stack(RPROF_STOP_END);
	r.s.n_kernel = 1;
	r.kernel[0] = 0xffffffff81000210;
	r.s.stop_kernel = RPROF_STOP_DEPTH;
	push(t.start + 5, RPROF_HOW_PC);
	assert_string_equal(resolve(), "start;[truncated: stack depth];ksys_read | stack depth: ");
}

static void write_kallsyms(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* A module that is loaded while we run; and one that is unloaded, whose names stay. */
static void kernel_code_may_get_its_name_later(void **state)
{
	const char *path = compile_path("kallsyms");
	struct resolver *resolver = t.resolver;
	struct ksyms *k;

	write_kallsyms(path, "ffffffff81000000 T startup\nffffffffc0001000 t early\t[early]\n");
	k = ksyms_load_file(path);
	t.resolver = resolver_new(&(struct resolver_config){ .modules = t.modules, .ksyms = k });
	begin_stack(RPROF_STOP_NONE);
	r.s.n_kernel = 2;
	r.kernel[0] = 0xffffffffc0003010;
	r.kernel[1] = 0xffffffffc0001011;
	assert_string_equal(resolve(), "early;[unknown]");
	write_kallsyms(path, "ffffffff81000000 T startup\nffffffffc0003000 t late\t[late]\n");
	usleep(1050000);
	assert_string_equal(resolve(), "early;late");
	resolver_free(t.resolver);
	ksyms_free(k);
	t.resolver = resolver;
}

static void return_address_is_looked_up_in_the_call_before_it(void **state)
{
	begin_stack(RPROF_STOP_END);
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.after, RPROF_HOW_CHAIN);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;never;framed");
	/* But the interrupted pc is where it is. */
	begin_stack(RPROF_STOP_END);
	push(t.after, RPROF_HOW_PC);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "[truncated: no unwind rule in code.so];after"
				       " | no unwind rule: code.so");
}

static void rules_of_the_file_decide_the_marks(void **state)
{
	begin_stack(RPROF_STOP_END);
	push(t.leaf + 1, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(),
			    "start;framed;[caller unknown];leaf | caller unknown: code.so");
	begin_stack(RPROF_STOP_END);
	push(t.leaf + 1, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_WORD_SP);
	push(t.lost + 8, RPROF_HOW_WORD_SP8);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;framed;framed;leaf");
	begin_stack(RPROF_STOP_END);
	push(t.framed + 1, RPROF_HOW_PC);
	push(t.lost + 8, RPROF_HOW_WORD_SP);
	push(t.framed + 9, RPROF_HOW_SP8);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;framed;framed");
	begin_stack(RPROF_STOP_END);
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.lost + 8, RPROF_HOW_CHAIN);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "[truncated: no frame pointer in code.so];lost;framed"
				       " | no frame pointer: code.so");
	begin_stack(RPROF_STOP_BOUNDS);
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.tramp + 1, RPROF_HOW_CHAIN);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "[truncated: signal frame];tramp;framed"
				       " | signal frame: code.so");
	/* Walked through: what the signal interrupted is where it is, not behind a call. */
	begin_stack(RPROF_STOP_END);
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.tramp + 1, RPROF_HOW_CHAIN);
	push(t.framed + 4, RPROF_HOW_SIGNAL);
	push(t.start + 5, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(), "start;framed;<signal handler called>;framed");
	begin_stack(RPROF_STOP_BOUNDS);
	push(t.leaf + 1, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(),
			    "[truncated: chain leaves the stack];framed;[caller unknown];leaf"
			    " | caller unknown: code.so | chain leaves the stack: code.so");
}

static void address_without_a_name_is_never_given_one(void **state)
{
	char want[256];
	Dl_info info;
	int local;

	dladdr(t.after, &info);
	begin_stack(RPROF_STOP_END);
	push(t.after + 16 + 1, RPROF_HOW_PC);
	snprintf(want, sizeof(want),
		 "[truncated: no unwind rule in code.so];nameless | no unwind rule: code.so");
	assert_string_equal(resolve(), want);
	/* Beyond the size of a function. */
	begin_stack(RPROF_STOP_END);
	push(t.after + 5, RPROF_HOW_PC);
	snprintf(want, sizeof(want),
		 "[truncated: no unwind rule in code.so];code.so+0x%zx | no unwind rule: code.so",
		 (size_t)(t.after + 5 - (char *)info.dli_fbase));
	assert_string_equal(resolve(), want);
	begin_stack(RPROF_STOP_END);
	push(t.anon + 100, RPROF_HOW_PC);
	assert_string_equal(
		resolve(), "[truncated: no unwind rule in [anon]];[anon] | no unwind rule: [anon]");
	begin_stack(RPROF_STOP_END);
	push((char *)&local, RPROF_HOW_PC);
	assert_string_equal(
		resolve(),
		"[truncated: no unwind rule in [unknown]];[unknown] | no unwind rule: [unknown]");
}

static void unchecked_addresses_are_checked_here(void **state)
{
	begin_stack(RPROF_STOP_END);
	push(t.framed + 4, RPROF_HOW_PC | RPROF_NATIVE_UNCHECKED);
	push(t.framed + 9, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	push((char *)&r, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	push(t.start + 5, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	assert_string_equal(resolve(), "[truncated: return address not executable];framed;framed"
				       " | return address not executable: code.so");
}

static void absent_user_stack_says_why(void **state)
{
	begin_stack(RPROF_STOP_NO_REGS);
	assert_string_equal(resolve(), "[no user registers] | no user registers: ");
	begin_stack(RPROF_STOP_COMPAT);
	assert_string_equal(resolve(), "[unsupported: 32-bit process] | 32-bit process: ");
	begin_stack(RPROF_STOP_NONE);
	assert_string_equal(resolve(), "");
	begin_stack(RPROF_STOP_NO_MM);
	r.s.n_kernel = 1;
	r.kernel[0] = 0xffffffff81000210;
	assert_string_equal(resolve(), "ksys_read");
}

static void process_that_was_never_read_has_no_stack(void **state)
{
	begin_stack(RPROF_STOP_END);
	r.s.tgid = 0x7ffffff0;
	push(t.framed + 4, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	assert_string_equal(resolve(),
			    "[truncated: mappings not known];[unknown] | mappings not known: ");
	/* No table was known when the sample was taken; ours is newer and serves. */
	begin_stack(RPROF_STOP_END);
	r.s.space = 0;
	push(t.framed + 4, RPROF_HOW_PC | RPROF_NATIVE_UNCHECKED);
	push(t.start + 5, RPROF_HOW_CHAIN | RPROF_NATIVE_UNCHECKED);
	assert_string_equal(resolve(), "start;framed");
}

static void equal_frames_share_names_and_marks(void **state)
{
	struct resolved_stack a, b;

	begin_stack(RPROF_STOP_END);
	push(t.leaf + 1, RPROF_HOW_PC);
	push(t.framed + 9, RPROF_HOW_CHAIN);
	assert_int_equal(resolve_record(&a), 0);
	r.native[0].pc++;
	assert_int_equal(resolve_record(&b), 0);
	assert_int_equal(a.n_frames, b.n_frames);
	for (size_t i = 0; i < a.n_frames; i++)
		assert_ptr_equal(a.frames[i].name, b.frames[i].name);
	assert_int_equal(a.n_marks, 1);
	assert_ptr_equal(a.marks[0], b.marks[0]);
	assert_int_equal(a.n_named, 2);
	assert_int_equal(a.n_symbolized, 2);
	free(a.frames);
	free(b.frames);
}

/* The longest record there is, every frame with a mark. */
static void longest_stack_fits(void **state)
{
	struct resolved_stack out;

	begin_stack(RPROF_STOP_DEPTH);
	r.s.n_kernel = RPROF_MAX_KERNEL;
	r.s.stop_kernel = RPROF_STOP_DEPTH;
	for (int i = 0; i < RPROF_MAX_NATIVE; i++)
		push(t.leaf + 2, i ? RPROF_HOW_CHAIN : RPROF_HOW_PC);
	assert_int_equal(resolve_record(&out), 0);
	assert_int_equal(out.n_frames, RPROF_MAX_KERNEL + 1 + 2 * RPROF_MAX_NATIVE);
	assert_int_equal(out.n_marks, 3);
	free(out.frames);
}

/* 100,000 distinct frames: the time of the last ten thousand is that of the first. */
static void many_frames_cost_the_same_each(void **state)
{
	void *libc = dlsym(dlopen("libc.so.6", RTLD_NOW), "malloc");
	struct timespec t0, t1;
	double first = 0, last = 0;

	for (int i = 0; i < 10; i++) {
		clock_gettime(CLOCK_MONOTONIC, &t0);
		for (int k = 0; k < 10000; k += 500) {
			struct resolved_stack out;

			begin_stack(RPROF_STOP_END);
			for (int n = 0; n < 500; n++)
				push((char *)libc + i * 10000 + k + n,
				     n ? RPROF_HOW_CHAIN : RPROF_HOW_PC);
			assert_int_equal(resolve_record(&out), 0);
			free(out.frames);
		}
		clock_gettime(CLOCK_MONOTONIC, &t1);
		last = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
		if (i == 1)
			first = last;
	}
	print_message("10,000 new frames: %.3f s, later %.3f s\n", first, last);
	assert_true(last < 10 * first + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proven_stack_has_names_and_no_marks),
		cmocka_unit_test(kernel_frames_come_before_user_frames),
		cmocka_unit_test(cut_kernel_stack_is_marked_where_it_was_cut),
		cmocka_unit_test(kernel_code_may_get_its_name_later),
		cmocka_unit_test(return_address_is_looked_up_in_the_call_before_it),
		cmocka_unit_test(rules_of_the_file_decide_the_marks),
		cmocka_unit_test(address_without_a_name_is_never_given_one),
		cmocka_unit_test(unchecked_addresses_are_checked_here),
		cmocka_unit_test(absent_user_stack_says_why),
		cmocka_unit_test(process_that_was_never_read_has_no_stack),
		cmocka_unit_test(equal_frames_share_names_and_marks),
		cmocka_unit_test(longest_stack_fits),
		cmocka_unit_test(many_frames_cost_the_same_each),
	};

	return cmocka_run_group_tests_name("resolve", tests, set_up, tear_down);
}
