// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The yardstick of names: at the first, a middle and the last byte of every function that nm lists,
 * ours is that of addr2line, apart from what compilers append; where a function has several names,
 * both are of nm's for it.
 */
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
#include "symbol_name.h"

enum { MAX_FUNCTIONS = 200000, STEPS = 3 };

struct function {
	unsigned long long addr;
	unsigned long long size;
	char *name;
};

static struct function functions[MAX_FUNCTIONS];
static size_t n_functions;

static void cut(char *name)
{
	char *at = strchr(name + 1, '@');

	if (at && strcmp(at, "@plt") != 0)
		*at = '\0';
	name[symbol_base_length(name, strlen(name))] = '\0';
}

static void list_functions(const char *path, const char *nm_flags)
{
	static char line[1 << 16], name[1 << 16];
	char command[1024];
	FILE *f;

	n_functions = 0;
	snprintf(command, sizeof(command), "LC_ALL=C nm -n -S --defined-only %s '%s' 2>/dev/null",
		 nm_flags, path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) && n_functions < MAX_FUNCTIONS) {
		struct function *fn = &functions[n_functions];
		char type;

		if (sscanf(line, "%llx %llx %c %65535s", &fn->addr, &fn->size, &type, name) != 4 ||
		    !strchr("tTwWi", type) || !fn->size)
			continue;
		cut(name);
		fn->name = strdup(name);
		n_functions++;
	}
	pclose(f);
}

static void forget_functions(void)
{
	for (size_t i = 0; i < n_functions; i++)
		free(functions[i].name);
	n_functions = 0;
}

/* One of the names of nm for the functions around @addr? Sorted by address; few hold the same one. */
static bool is_name_at(const char *name, unsigned long long addr)
{
	size_t lo = 0, hi = n_functions;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (functions[mid].addr <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (size_t n = 0; lo-- && n < 100; n++) {
		const struct function *fn = &functions[lo];

		if (addr - fn->addr < fn->size && !strcmp(fn->name, name))
			return true;
	}
	return false;
}

static unsigned long long step_addr(const struct function *fn, int step)
{
	return fn->addr + (step == 0 ? 0 : step == 1 ? fn->size / 2 : fn->size - 1);
}

/* addr2line's output with -a: the address, then function and line, once per inlined call. */
static FILE *ask_addr2line(const char *path)
{
	const char *list = compile_path("addresses");
	char command[2048];
	FILE *f = fopen(list, "w");

	assert_non_null(f);
	for (size_t i = 0; i < n_functions; i++) {
		for (int step = 0; step < STEPS; step++)
			fprintf(f, "%llx\n", step_addr(&functions[i], step));
	}
	fclose(f);
	snprintf(command, sizeof(command), "LC_ALL=C addr2line -a -i -f -e '%s' <'%s'", path, list);
	f = popen(command, "r");
	assert_non_null(f);
	return f;
}

struct tally {
	size_t same;
	size_t alias;
};

static void compare_one(struct module *m, unsigned long long addr, char *theirs, struct tally *t)
{
	__u64 start;
	const char *ours = module_symbol(m, addr, &start);

	cut(theirs);
	if (ours && !strcmp(ours, theirs)) {
		t->same++;
		return;
	}
	if (ours && is_name_at(ours, addr) && is_name_at(theirs, addr)) {
		t->alias++;
		return;
	}
	fail_msg("%#llx: ours %s, addr2line's %s", addr, ours ? ours : "none", theirs);
}

/* As on this machine: addr2line, too, looks for a debug file below /usr/lib/debug. */
static struct module *load(const char *path)
{
	struct module_search where = { open("/", O_PATH | O_CLOEXEC), path, false, false, NULL };
	struct module *m = NULL;
	__u64 budget = ~0ULL;

	assert_int_equal(module_open(open(path, O_RDONLY | O_CLOEXEC), &m), 0);
	assert_int_equal(module_load_within(m, &where, &budget), 0);
	close(where.root_fd);
	return m;
}

/* With nm, of the file that the names are in. */
static void list_functions_of(const struct module *m, const char *path)
{
	char debug[128] = "/usr/lib/debug/.build-id/";
	struct module_report r;

	module_report(m, &r);
	assert_true(r.n_sources);
	if (r.sources[0] != SYMBOLS_BUILD_ID_FILE) {
		list_functions(path, r.sources[0] == SYMBOLS_DYNSYM ? "-D" : "");
		return;
	}
	for (unsigned int i = 0; i < r.build_id_len; i++)
		sprintf(debug + strlen(debug), i == 1 ? "/%02x" : "%02x", r.build_id[i]);
	strcat(debug, ".debug");
	list_functions(debug, "");
}

static struct tally compare_with_addr2line(const char *path)
{
	static char line[1 << 16], name[1 << 16];
	struct module *m = load(path);
	struct tally t = { 0 };
	size_t n = 0;
	bool more;
	FILE *f;

	list_functions_of(m, path);
	f = ask_addr2line(path);
	more = fgets(line, sizeof(line), f);
	while (more) {
		unsigned long long addr = strtoull(line, NULL, 16);

		name[0] = '\0';
		/* The last of the inlined calls is the function proper. */
		while ((more = fgets(line, sizeof(line), f)) && strncmp(line, "0x", 2) != 0) {
			line[strcspn(line, "\n")] = '\0';
			strcpy(name, line);
			more = fgets(line, sizeof(line), f);
		}
		compare_one(m, addr, name, &t);
		n++;
	}
	pclose(f);
	assert_int_equal(n, STEPS * n_functions);
	print_message("%s: %zu functions, %zu addresses alike, %zu by an alias\n", path,
		      n_functions, t.same, t.alias);
	module_free(m);
	forget_functions();
	return t;
}

static const char c_source[] =
	"#include <stdio.h>\n"
	"#include <stdlib.h>\n"
	"#include <string.h>\n"
	"struct s { int a, b; long c[9]; };\n"
	"static int __attribute__((noinline)) sum(struct s *s, int x) {\n"
	"	int n = 0; for (int i = 0; i < 9; i++) n += s->c[i] * x + s->a; return n; }\n"
	"static int twice(int x) { return 2 * x + getenv(\"X\")[0]; }\n"
	"int __attribute__((noinline)) risky(int x) {\n"
	"	if (x < 0) { fprintf(stderr, \"%d\\n\", x); abort(); } return twice(x); }\n"
	"int same(int x) { return risky(x) + 1; }\n"
	"int other_name(int x) __attribute__((alias(\"same\")));\n"
	"int weak_name(int x) __attribute__((weak, alias(\"same\")));\n"
	"static int fast(int x) { return x; }\n"
	"static void *choose(void) { return (void *)fast; }\n"
	"int chosen(int x) __attribute__((ifunc(\"choose\")));\n"
	"int main(int c, char **v) { struct s s = { c, 7 }; memset(s.c, c, sizeof(s.c));\n"
	"	return sum(&s, 3) + same(c) + chosen(c) + other_name(2) + weak_name(3); }\n";

static const char cxx_source[] =
	"#include <map>\n#include <string>\n#include <stdexcept>\n#include <iostream>\n"
	"namespace a { template <class T> struct box { T t; virtual ~box() {}\n"
	"	virtual int get(int x) { if (x < 0) throw std::runtime_error(\"no\"); return x; } };\n"
	"	struct both : box<int>, box<std::string> {\n"
	"	int get(int x) override { return box<int>::get(x) + 1; } }; }\n"
	"int main(int c, char **v) { std::map<std::string, int> m; a::both b;\n"
	"	auto f = [&](int x) { return m[std::to_string(x)] += b.get(x); };\n"
	"	for (int i = 0; i < c; i++) std::cout << f(i) << '\\n';\n"
	"	a::box<int> *p = &b; return p->get(c); }\n";

static void names_are_those_of_addr2line(void **state)
{
	static const char *const c_builds[] = {
		"-O2 -g -pie -fPIE",
		"-O2 -g -no-pie",
		"-O2 -g -static",
		"-O2 -g -static-pie -fPIE",
		"-O2 -g -shared -fPIC",
		"-O2 -g1 -pie -fPIE -ffunction-sections",
		"-O2 -pie -fPIE -Wl,-z,noseparate-code",
		"-O2 -g -pie -fPIE -Wl,-z,max-page-size=0x200000",
		"-O2 -g -no-pie -Wl,-Ttext-segment=0x10000000",
		"-O3 -g -flto -pie -fPIE",
	};
	static const char *const cxx_builds[] = { "-O2 -g", "-O2 -g -gdwarf-4 -fPIC -shared",
						  "-O0 -g" };

	for (size_t i = 0; i < sizeof(c_builds) / sizeof(c_builds[0]); i++)
		assert_true(compare_with_addr2line(compile("c", "c", c_source, c_builds[i])).same >
			    10);
	if (system("echo 'int main() {}' | ${CXX:-g++} -x c++ - -o /dev/null 2>/dev/null"))
		return;
	for (size_t i = 0; i < sizeof(cxx_builds) / sizeof(cxx_builds[0]); i++) {
		char flags[128];

		snprintf(flags, sizeof(flags), "%s -lstdc++", cxx_builds[i]);
		assert_true(compare_with_addr2line(compile("cc", "c++", cxx_source, flags)).same >
			    30);
	}
}

static void names_of_packaged_programs_are_those_of_addr2line(void **state)
{
	const char *paths[] = { "/usr/bin/python3", "/usr/bin/perl", "/bin/bash", NULL };
	struct link_map *map = NULL;
	size_t n = 0;

	assert_int_equal(dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &map), 0);
	paths[3] = map->l_name;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (!access(paths[i], R_OK))
			n += compare_with_addr2line(paths[i]).same;
	}
	assert_true(n > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_those_of_addr2line),
		cmocka_unit_test(names_of_packaged_programs_are_those_of_addr2line),
	};

	return cmocka_run_group_tests_name("module_names", tests, NULL, NULL);
}
