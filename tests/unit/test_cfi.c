// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The oracle is readelf: every row that it prints for a file is turned into the state that
 * the row means, by this file's own words, and compared with cfi_rule_at() at the row's first and
 * last byte.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile.h"
#include "module.h"

struct readelf_row {
	unsigned long long start;
	unsigned long long end;
	char cfa[32];
	char fp[32];
	char ra[32];
	bool is_signal;
	bool ends_function;
};

struct rows {
	struct readelf_row *rows;
	size_t n;
};

static struct module *open_module(const char *path)
{
	struct module *m = NULL;

	assert_int_equal(module_open(open(path, O_RDONLY | O_CLOEXEC), &m), 0);
	return m;
}

static void add_row(struct rows *r, const struct readelf_row *row)
{
	if (!(r->n & (r->n + 1)) || !r->rows) {
		r->rows = realloc(r->rows, (r->n * 2 + 2) * sizeof(*r->rows));
		assert_non_null(r->rows);
	}
	r->rows[r->n++] = *row;
}

/* The words of a line, without names in brackets: "r9 (r9)". */
static int split(char *line, char *words[], int max)
{
	char *save;
	int n = 0;

	for (char *w = strtok_r(line, " \n", &save); w && n < max;
	     w = strtok_r(NULL, " \n", &save)) {
		if (*w != '(')
			words[n++] = w;
	}
	return n;
}

/* Value of column @name in a line of rules, whose header was @columns. */
static void pick(char *columns[], int n, char *words[], const char *name, char *out)
{
	strcpy(out, "none");
	for (int i = 0; i < n; i++) {
		if (!strcmp(columns[i], name))
			snprintf(out, 32, "%s", words[i]);
	}
}

/* Offsets of CIEs with their letters, and the rows of one as initial rules. */
struct cie {
	unsigned long long offset;
	bool is_signal;
	struct readelf_row initial;
};

static struct rows read_rows(const char *path)
{
	static struct cie cies[8192];
	size_t n_cies = 0;
	struct rows r = { 0 };
	char command[1024], line[4096], header[4096] = "";
	char *columns[64], *words[64];
	int n_columns = 0;
	struct cie *cie = NULL;
	bool in_cie = false, any = false;
	unsigned long long start = 0, end = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "LC_ALL=C readelf --wide --debug-dump=frames-interp '%s' 2>/dev/null", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long offset, of_cie, a, b;
		struct readelf_row row = { 0 };
		char *at;
		int n;

		if (strstr(line, "Contents of the .debug_frame"))
			break;
		at = strstr(line, " FDE cie=");
		if ((at || strstr(line, " CIE \"")) && any && r.n)
			r.rows[r.n - 1].end = end, r.rows[r.n - 1].ends_function = true;
		if (sscanf(line, "%llx", &offset) == 1 && strstr(line, " CIE \"")) {
			assert_true(n_cies < 8192);
			cie = &cies[n_cies++];
			*cie = (struct cie){ .offset = offset,
					     .is_signal = strchr(strstr(line, "CIE \""), 'S') };
			in_cie = true;
			any = false;
			continue;
		}
		if (at && sscanf(at, " FDE cie=%llx pc=%llx..%llx", &of_cie, &a, &b) == 3) {
			start = a;
			end = b;
			in_cie = any = false;
			for (size_t i = 0; i < n_cies; i++) {
				if (cies[i].offset == of_cie)
					cie = &cies[i];
			}
			/* Until a row of its own the function has its CIE's. */
			row = cie->initial;
			row.start = start;
			row.end = end;
			row.is_signal = cie->is_signal;
			row.ends_function = true;
			if (start < end)
				add_row(&r, &row);
			continue;
		}
		if (strstr(line, "   LOC ")) {
			snprintf(header, sizeof(header), "%s", line);
			n_columns = split(header, columns, 64);
			continue;
		}
		n = split(line, words, 64);
		if (n != n_columns || n < 2 || strlen(words[0]) != 16 || !isxdigit(words[0][0]))
			continue;
		row.start = strtoull(words[0], NULL, 16);
		pick(columns, n, words, "CFA", row.cfa);
		pick(columns, n, words, "rbp", row.fp);
		pick(columns, n, words, "ra", row.ra);
		if (in_cie) {
			cie->initial = row;
			continue;
		}
		row.is_signal = cie->is_signal;
		if (r.n && r.rows[r.n - 1].start == row.start && !any) {
			r.n--; /* the CIE's row, replaced at once */
		} else if (r.n) {
			r.rows[r.n - 1].end = row.start;
			r.rows[r.n - 1].ends_function = false;
		}
		any = true;
		row.end = end;
		row.ends_function = true;
		if (row.start < row.end)
			add_row(&r, &row);
	}
	pclose(f);
	return r;
}

static bool row_is_up(const struct readelf_row *r)
{
	return !strcmp(r->cfa, "rbp+16") && !strcmp(r->fp, "c-16") && !strcmp(r->ra, "c-8");
}

static enum cfi_state meaning(const struct readelf_row *r, bool next_is_up)
{
	long n, k;

	if (!strcmp(r->ra, "u"))
		return CFI_END;
	if (r->is_signal)
		return CFI_UNKNOWN;
	if (row_is_up(r))
		return CFI_FP_UP;
	if (strcmp(r->ra, "c-8") != 0)
		return CFI_UNKNOWN;
	/* readelf prints "u" also for a register that no rule names. */
	if (!strcmp(r->fp, "none") || !strcmp(r->fp, "u") || !strcmp(r->fp, "s"))
		return strstr(r->cfa, "rbp") ? CFI_FP_LOST : CFI_FP_UNTOUCHED;
	if (sscanf(r->cfa, "rsp+%ld", &n) != 1 || sscanf(r->fp, "c-%ld", &k) != 1)
		return CFI_FP_LOST;
	if (k > n)
		return CFI_FP_UNTOUCHED; /* popped */
	return k == 16 && n == 16 && next_is_up ? CFI_FP_UNTOUCHED : CFI_FP_LOST;
}

struct census {
	size_t rows;
	size_t states[CFI_END + 1];
	size_t expressions;
};

static struct census compare(const char *path)
{
	struct module *m = open_module(path);
	struct rows r = read_rows(path);
	struct census c = { .rows = r.n };

	for (size_t i = 0; i < r.n; i++) {
		const struct readelf_row *row = &r.rows[i];
		bool next_is_up = !row->ends_function && i + 1 < r.n && row_is_up(row + 1);

		for (int last = 0; last < 2; last++) {
			unsigned long long pc = last ? row->end - 1 : row->start;
			struct cfi_rule rule;
			char reg[8];
			long offset;

			assert_int_equal(cfi_rule_at(m, pc, &rule), 0);
			assert_int_equal(rule.signal_frame, row->is_signal);
			if (!last) {
				c.states[rule.state]++;
				c.expressions += !strcmp(row->cfa, "exp");
			}
			/* Readelf does not say what an expression is. */
			if (!strcmp(row->cfa, "exp") || !strcmp(row->fp, "exp"))
				continue;
			if (rule.state != meaning(row, next_is_up)) {
				print_message("%s: %llx: %s %s %s: state %d, should be %d\n", path,
					      pc, row->cfa, row->fp, row->ra, rule.state,
					      meaning(row, next_is_up));
				fail();
			}
			if (sscanf(row->cfa, "%3[a-z]%ld", reg, &offset) != 2)
				continue;
			if (!strcmp(reg, "rsp") || !strcmp(reg, "rbp")) {
				assert_int_equal(rule.cfa_is_sp, !strcmp(reg, "rsp"));
				assert_int_equal(rule.cfa_offset, offset);
			}
		}
	}
	free(r.rows);
	module_free(m);
	print_message("%s: %zu rows: %zu up, %zu untouched, %zu lost, %zu ends, %zu unknown, "
		      "%zu with an expression\n",
		      path, c.rows, c.states[CFI_FP_UP], c.states[CFI_FP_UNTOUCHED],
		      c.states[CFI_FP_LOST], c.states[CFI_END], c.states[CFI_UNKNOWN],
		      c.expressions);
	return c;
}

static void every_row_of_libc_means_what_readelf_says(void **state)
{
	struct link_map *map = NULL;
	struct census c;

	assert_int_equal(dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &map), 0);
	c = compare(map->l_name);
	assert_true(c.rows > 10000);
	assert_true(c.states[CFI_FP_LOST] > c.rows / 10);
	assert_true(c.states[CFI_FP_UNTOUCHED] > c.rows / 10);
	/* clone() and the vector of restart code at least. */
	assert_true(c.states[CFI_END] >= 1);
}

static const char source[] =
	"#include <stdlib.h>\n"
	"int leaf(int x) { return x * 3 + 1; }\n"
	"__attribute__((noinline)) int mid(int x) { volatile int y = leaf(x);\n"
	"  return y + rand(); }\n"
	"int wide(int x) { __attribute__((aligned(64))) volatile int a[64]; a[x & 63] = mid(x);\n"
	"  return a[0] + a[x & 63]; }\n"
	"int spill(int a, int b, int c, int d, int e, int f) {\n"
	"  for (int i = 0; i < a; i++) { b += mid(c); c ^= mid(d); d -= mid(e); e *= mid(f);\n"
	"    f += mid(a); } return a + b + c + d + e + f; }\n"
	"int dynamic(int n) { char *p = __builtin_alloca(n); p[0] = mid(n); return p[n / 2]; }\n"
	"int main(int c, char **v) { return wide(c) + spill(c, 1, 2, 3, 4, 5) + dynamic(c); }\n";

static void every_row_of_each_kind_of_build_means_what_readelf_says(void **state)
{
	static const char *const builds[] = {
		"-O2 -fomit-frame-pointer",
		"-O2 -fno-omit-frame-pointer",
		"-O2 -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer",
		"-O2 -fno-omit-frame-pointer -fcf-protection=full -static",
		"-O0 -no-pie",
		"-O3 -fno-omit-frame-pointer -mavx2 -pie -fPIE -Wl,-z,lazy",
	};

	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		compare(compile("built", "c", source, builds[i]));
}

/*
 * Instructions whose effect is known, found by objdump in every function of the program: the state
 * there must be what the instruction means in a build with frame pointers.
 */
static void state_at_known_instructions_of_a_frame_pointer_build(void **state)
{
	const char *path =
		compile("known", "c", source, "-O2 -fno-omit-frame-pointer -fcf-protection=full");
	struct module *m = open_module(path);
	size_t seen[4] = { 0 };
	char command[1024], line[1024];
	FILE *f;

	snprintf(command, sizeof(command), "LC_ALL=C objdump -d --no-show-raw-insn '%s'", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long pc;
		struct cfi_rule rule;
		__u64 start = 0;
		const char *name;

		if (sscanf(line, " %llx:", &pc) != 1 || line[0] != ' ')
			continue;
		name = module_symbol(m, pc, &start);
		if (name &&
		    (!strcmp(name, "mid") || !strcmp(name, "spill") || !strcmp(name, "leaf"))) {
			assert_int_equal(cfi_rule_at(m, pc, &rule), 0);
			if (pc == start) {
				assert_int_equal(rule.state, CFI_FP_UNTOUCHED);
				assert_int_equal(rule.cfa_offset, 8);
				seen[0]++;
			}
			if (strstr(line, "mov    %rsp,%rbp")) {
				assert_int_equal(rule.state, CFI_FP_UNTOUCHED);
				assert_int_equal(rule.cfa_offset, 16);
				seen[1]++;
			}
			if (strstr(line, "call ")) {
				assert_int_equal(rule.state, CFI_FP_UP);
				seen[2]++;
			}
			if (strstr(line, "ret")) {
				assert_int_equal(rule.state, CFI_FP_UNTOUCHED);
				assert_true(rule.cfa_is_sp);
				assert_int_equal(rule.cfa_offset, 8);
				seen[3]++;
			}
		}
	}
	pclose(f);
	assert_int_equal(seen[0], 3);
	assert_true(seen[1] >= 2 && seen[2] >= 5 && seen[3] >= 3);
	module_free(m);
}

static void assert_state(struct module *m, __u64 pc, enum cfi_state want, __s64 offset)
{
	struct cfi_rule rule;

	assert_int_equal(cfi_rule_at(m, pc, &rule), 0);
	assert_int_equal(rule.state, want);
	if (offset)
		assert_int_equal(rule.cfa_offset, offset);
}

static __u64 address_of(struct module *m, const char *name)
{
	__u64 start;

	for (__u64 pc = 0; pc < 0x10000; pc++) {
		const char *found = module_symbol(m, pc, &start);

		if (found && !strcmp(found, name))
			return start;
	}
	fail_msg("no %s", name);
	return 0;
}

/* One instruction a line: the comment says its offset. */
static void assembly_of_which_every_byte_is_known(void **state)
{
	static const char text[] =
		".text\n"
		/* rbp as an ordinary register, the only one pushed: same row as a prologue's. */
		".globl only; .type only,@function; only: .cfi_startproc\n"
		"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16\n" /* 0 */
		"mov %rdi,%rbp\n" /* 1 */
		"call only\n" /* 4 */
		"pop %rbp; .cfi_def_cfa_offset 8\n" /* 9 */
		"ret\n" /* 10 */
		".cfi_endproc; .size only,.-only\n"
		/* A prologue with an instruction scheduled into it. */
		".globl sched; .type sched,@function; sched: .cfi_startproc\n"
		"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16\n" /* 0 */
		"mov %rdi,%rax\n" /* 1 */
		"mov %rsp,%rbp; .cfi_def_cfa_register 6\n" /* 4 */
		"nop\n" /* 7 */
		"leave; .cfi_def_cfa 7,8\n" /* 8 */
		"ret\n" /* 9 */
		".cfi_endproc; .size sched,.-sched\n"
		/* rbp pushed among others: from then on nobody knows. */
		".globl among; .type among,@function; among: .cfi_startproc\n"
		"push %rbx; .cfi_def_cfa_offset 16; .cfi_offset 3,-16\n" /* 0 */
		"push %rbp; .cfi_def_cfa_offset 24; .cfi_offset 6,-24\n" /* 1 */
		"nop\n" /* 2 */
		"pop %rbp; .cfi_def_cfa_offset 16\n" /* 3 */
		"pop %rbx; .cfi_def_cfa_offset 8\n" /* 4 */
		"ret\n" /* 5 */
		".cfi_endproc; .size among,.-among\n"
		/* A frame base that is not where the chain expects it. */
		".globl odd; .type odd,@function; odd: .cfi_startproc\n"
		"push %rbp; .cfi_def_cfa_offset 16; .cfi_offset 6,-16\n" /* 0 */
		"lea 8(%rsp),%rbp; .cfi_def_cfa 6,8\n" /* 1 */
		"nop\n" /* 6 */
		".cfi_endproc; .size odd,.-odd\n"
		/* No caller. */
		".globl start; .type start,@function; start: .cfi_startproc\n"
		".cfi_undefined rip\n"
		"hlt\n"
		".cfi_endproc; .size start,.-start\n"
		/* The frame of a signal. */
		".globl tramp; .type tramp,@function; tramp: .cfi_startproc\n"
		".cfi_signal_frame\n"
		"nop\n"
		".cfi_endproc; .size tramp,.-tramp\n"
		/* No rules. */
		".globl bare; .type bare,@function; bare: nop; ret; .size bare,.-bare\n"
		".section .note.GNU-stack,\"\",@progbits\n";
	struct module *m = open_module(compile("bytes", "assembler", text, "-shared -nostdlib"));
	struct cfi_rule rule;
	__u64 f;

	f = address_of(m, "only");
	assert_state(m, f, CFI_FP_UNTOUCHED, 8);
	assert_state(m, f + 1, CFI_FP_LOST, 16);
	assert_state(m, f + 4, CFI_FP_LOST, 16);
	assert_state(m, f + 9, CFI_FP_LOST, 16);
	assert_state(m, f + 10, CFI_FP_UNTOUCHED, 8);
	f = address_of(m, "sched");
	assert_state(m, f, CFI_FP_UNTOUCHED, 8);
	assert_state(m, f + 1, CFI_FP_UNTOUCHED, 16);
	assert_state(m, f + 4, CFI_FP_UNTOUCHED, 16);
	assert_state(m, f + 7, CFI_FP_UP, 16);
	assert_state(m, f + 8, CFI_FP_UP, 16);
	assert_state(m, f + 9, CFI_FP_UNTOUCHED, 8);
	f = address_of(m, "among");
	assert_state(m, f + 1, CFI_FP_UNTOUCHED, 16);
	assert_state(m, f + 2, CFI_FP_LOST, 24);
	assert_state(m, f + 3, CFI_FP_LOST, 24);
	assert_state(m, f + 4, CFI_FP_UNTOUCHED, 16);
	assert_state(m, f + 5, CFI_FP_UNTOUCHED, 8);
	f = address_of(m, "odd");
	assert_state(m, f + 6, CFI_FP_LOST, 8);
	assert_state(m, address_of(m, "start"), CFI_END, 0);
	f = address_of(m, "tramp");
	assert_int_equal(cfi_rule_at(m, f, &rule), 0);
	assert_int_equal(rule.state, CFI_UNKNOWN);
	assert_true(rule.signal_frame);
	assert_state(m, address_of(m, "bare"), CFI_UNKNOWN, 0);
	assert_state(m, 0x7fffffff, CFI_UNKNOWN, 0);
	module_free(m);
}

/* A stack that is realigned: CFA by expression, rbp chain and return address as ever. */
static void realigned_frame_is_up(void **state)
{
	struct module *m = open_module(
		compile("realigned", "c", source, "-O2 -fno-omit-frame-pointer -mavx2"));
	__u64 f = address_of(m, "wide"), up = 0, start;

	for (__u64 pc = f; module_symbol(m, pc, &start) && start == f; pc++) {
		struct cfi_rule rule;

		assert_int_equal(cfi_rule_at(m, pc, &rule), 0);
		up += rule.state == CFI_FP_UP;
	}
	assert_true(up > 20);
	module_free(m);
}

/* The linker's rule for a lazy PLT is an expression in pc: sp + 8, in its second half sp + 16. */
static void plt_has_its_return_address_where_its_expression_says(void **state)
{
	const char *path =
		compile("plt", "c", source, "-O2 -no-pie -Wl,-z,lazy -fcf-protection=none");
	struct module *m = open_module(path);
	char command[1024], line[1024];
	unsigned long long plt = 0;
	FILE *f;

	snprintf(command, sizeof(command), "LC_ALL=C readelf -SW '%s'", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *at = strstr(line, " .plt ");

		if (at)
			assert_int_equal(sscanf(at, " .plt PROGBITS %llx", &plt), 1);
	}
	pclose(f);
	assert_true(plt);
	/* PLT0 is 16 bytes; then jmp *GOT (6), push n (5), jmp PLT0 (5). */
	assert_state(m, plt + 16, CFI_FP_UNTOUCHED, 8);
	assert_state(m, plt + 16 + 6, CFI_FP_UNTOUCHED, 8);
	assert_state(m, plt + 16 + 11, CFI_FP_UNTOUCHED, 16);
	module_free(m);
}

static bool keeps(const char *path)
{
	struct module *m = open_module(path);
	struct cfi_rule rule;

	assert_int_equal(cfi_rule_at(m, 0, &rule), 0);
	module_free(m);
	return rule.keeps_fp;
}

/* Few functions keep it in the C library that this program runs with, if readelf says so. */
static void file_keeps_frame_pointers_if_most_of_its_functions_do(void **state)
{
	struct link_map *map = NULL;
	struct rows r;
	size_t up = 0;

	assert_true(keeps(compile("kept", "c", source, "-O2 -fno-omit-frame-pointer")));
	assert_true(
		keeps(compile("kept2", "c", source, "-O2 -fno-omit-frame-pointer -shared -fPIC")));
	assert_false(keeps(compile("omitted", "c", source, "-O2 -fomit-frame-pointer -mno-avx")));
	assert_false(
		keeps(compile("omitted2", "c", source, "-O3 -fomit-frame-pointer -shared -fPIC")));
	/* Without the linker's index, and without rules, nobody knows. */
	assert_false(keeps(compile("noindex", "c", source,
				   "-O2 -fno-omit-frame-pointer -Wl,--no-eh-frame-hdr")));
	assert_int_equal(dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &map), 0);
	r = read_rows(map->l_name);
	for (size_t i = 0; i < r.n; i++)
		up += row_is_up(&r.rows[i]);
	free(r.rows);
	assert_int_equal(keeps(map->l_name), up > r.n / 4);
}

static void rules_are_found_without_section_headers(void **state)
{
	const char *path = compile("headless", "c", source, "-O2 -fno-omit-frame-pointer");
	char copy[600];
	struct module *whole = open_module(path), *m;
	static const unsigned char zero[8];
	__u64 f = address_of(whole, "mid");
	int fd;

	snprintf(copy, sizeof(copy), "%s.cut", path);
	shell("cp '%s' '%s'", path, copy);
	fd = open(copy, O_RDWR);
	/* e_shoff, then e_shentsize, e_shnum, e_shstrndx */
	assert_int_equal(pwrite(fd, zero, 8, 40), 8);
	assert_int_equal(pwrite(fd, zero, 6, 58), 6);
	close(fd);
	m = open_module(copy);
	for (__u64 pc = f - 64; pc < f + 128; pc++) {
		struct cfi_rule a, b;

		cfi_rule_at(whole, pc, &a);
		cfi_rule_at(m, pc, &b);
		assert_int_equal(a.state, b.state);
		assert_int_equal(a.cfa_offset, b.cfa_offset);
	}
	assert_state(m, f, CFI_FP_UNTOUCHED, 8);
	module_free(whole);
	module_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(assembly_of_which_every_byte_is_known),
		cmocka_unit_test(state_at_known_instructions_of_a_frame_pointer_build),
		cmocka_unit_test(realigned_frame_is_up),
		cmocka_unit_test(plt_has_its_return_address_where_its_expression_says),
		cmocka_unit_test(rules_are_found_without_section_headers),
		cmocka_unit_test(file_keeps_frame_pointers_if_most_of_its_functions_do),
		cmocka_unit_test(every_row_of_each_kind_of_build_means_what_readelf_says),
		cmocka_unit_test(every_row_of_libc_means_what_readelf_says),
	};

	return cmocka_run_group_tests_name("cfi", tests, NULL, NULL);
}
