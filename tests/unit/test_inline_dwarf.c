// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The oracle is addr2line -f -i of binutils, asked about every byte of .text. (It has faults of its
 * own, which the programs here do not meet: it prints the ELF symbol in place of an innermost call
 * that has no mangled name in C++, and knows neither DW_FORM_rnglistx of clang's DWARF 5 nor GCC's
 * type units.)
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inline_dwarf.h"
#include "inline_program.h"

#define MAX_NAMES 64

struct calls {
	int n;
	char *names[MAX_NAMES];
};

struct text {
	unsigned long long start;
	size_t size;
	struct calls *at;	/* one for each byte */
};

static struct text text_of(const char *path)
{
	GElf_Shdr header = find_section(path, ".text");
	struct text t = { .start = header.sh_addr, .size = header.sh_size };

	t.at = calloc(t.size, sizeof(*t.at));
	assert_non_null(t.at);
	return t;
}

static void free_text(struct text *t)
{
	for (size_t i = 0; i < t->size; i++) {
		for (int k = 0; k < t->at[i].n; k++)
			free(t->at[i].names[k]);
	}
	free(t->at);
}

/* "0xADDRESS", then a line of a name and one of a place for each call, and for the function. */
static struct text by_addr2line(const char *path)
{
	const char *list = compile_path("addresses");
	struct text t = text_of(path);
	struct calls *calls = NULL;
	char command[2048], *line = NULL;
	size_t cap = 0;
	FILE *f = fopen(list, "we");

	assert_non_null(f);
	for (size_t i = 0; i < t.size; i++)
		fprintf(f, "%llx\n", t.start + i);
	fclose(f);
	snprintf(command, sizeof(command), "addr2line -f -i -a -e '%s' < '%s' 2>&1", path, list);
	f = popen(command, "re");
	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0x", 2)) {
			calls = &t.at[strtoull(line, NULL, 16) - t.start];
			continue;
		}
		assert_non_null(calls);
		assert_true(calls->n < MAX_NAMES);
		calls->names[calls->n++] = strdup(line);
		assert_true(getline(&line, &cap, f) > 0);
	}
	free(line);
	assert_int_equal(pclose(f), 0);
	for (size_t i = 0; i < t.size; i++) {
		assert_true(t.at[i].n > 0);
		free(t.at[i].names[--t.at[i].n]);
	}
	return t;
}

static struct text by_us(const char *path, const char *text_path)
{
	struct inline_image image = map_image(path);
	struct text t = text_of(text_path);
	const char *names[MAX_NAMES];
	struct inline_dwarf *d;

	assert_int_equal(inline_dwarf_open(image.bytes, image.size, &d), 0);
	for (size_t i = 0; i < t.size; i++) {
		t.at[i].n = inline_dwarf_find(d, t.start + i, names, MAX_NAMES);
		assert_in_range(t.at[i].n, 0, MAX_NAMES);
		for (int k = 0; k < t.at[i].n; k++)
			t.at[i].names[k] = strdup(names[k]);
	}
	inline_dwarf_free(d);
	munmap(image.bytes, image.size);
	return t;
}

static void assert_same_calls(const struct calls *a, const struct calls *b)
{
	assert_int_equal(a->n, b->n);
	for (int k = 0; k < a->n; k++)
		assert_string_equal(a->names[k], b->names[k]);
}

static size_t count_inlined(const struct text *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->size; i++)
		n += t->at[i].n > 0;
	return n;
}

/* Frees both. */
static void assert_same_text(struct text *a, struct text *b)
{
	assert_int_equal(a->size, b->size);
	for (size_t i = 0; i < a->size; i++)
		assert_same_calls(&a->at[i], &b->at[i]);
	assert_true(count_inlined(a) > 100);
	free_text(a);
	free_text(b);
}

static void assert_like_addr2line(const char *path)
{
	struct text ours = by_us(path, path), theirs = by_addr2line(path);

	assert_same_text(&ours, &theirs);
}

static const char *compile_cxx(const char *name, const char *flags)
{
	return compile(name, "c++", inline_source_cxx, flags);
}

#define CXX_FLAGS "-O2 -lstdc++ -fno-lto "

static void calls_in_c_are_those_of_addr2line(void **state)
{
	static const char *const flags[] = {
		"-O2 -gdwarf-5",
		"-O2 -gdwarf-4",
		"-O3 -g -gz=zlib",
		"-O2 -gdwarf-5 -no-pie",
		"-Os -gdwarf-4 -gz=zlib -ffunction-sections -Wl,--gc-sections",
		"-O2 -g -flto",
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		assert_like_addr2line(compile("c", "c", inline_source_c, flags[i]));
}

static void calls_in_cxx_are_those_of_addr2line(void **state)
{
	assert_like_addr2line(compile_cxx("cxx5", CXX_FLAGS "-gdwarf-5"));
	assert_like_addr2line(compile_cxx("cxx4", CXX_FLAGS "-gdwarf-4 -gz=zlib"));
}

/* clang: no .debug_aranges, functions within namespaces, and in DWARF 5 ranges by index. */
static void what_clang_makes_is_read(void **state)
{
	const char *path = compile_path("clang"), *source = compile_path("clang.cc");
	FILE *f = fopen(source, "we");
	struct text dwarf4, dwarf5;

	assert_non_null(f);
	assert_true(fputs(inline_source_cxx, f) >= 0);
	fclose(f);
	shell("clang++ -O2 -gdwarf-4 '%s' -o '%s'", source, path);
	assert_like_addr2line(path);
	dwarf4 = by_us(path, path);
	shell("clang++ -O2 -gdwarf-5 '%s' -o '%s'", source, path);
	dwarf5 = by_us(path, path);
	assert_same_text(&dwarf4, &dwarf5);
}

static void separate_debug_file_has_the_same(void **state)
{
	const char *path = compile_cxx("whole", CXX_FLAGS "-g"), *debug = compile_path("debug");
	struct text whole, separate;

	shell("objcopy --only-keep-debug '%s' '%s'", path, debug);
	whole = by_us(path, path);
	separate = by_us(debug, path);
	assert_same_text(&whole, &separate);
}

static void what_dwz_shared_within_a_file_is_found(void **state)
{
	const char *path = compile_cxx("dwz", CXX_FLAGS "-gdwarf-4");
	struct text before = by_us(path, path), after;

	shell("dwz '%s'", path);
	after = by_us(path, path);
	assert_same_text(&before, &after);
}

/* Names that moved to an alternate file, which is not opened: right ones or none. */
static void calls_without_a_name_hide_all(void **state)
{
	const char *path = compile_cxx("multi", CXX_FLAGS "-gdwarf-4");
	struct text before = by_us(path, path), after;
	size_t n_left;

	shell("cd '%s' && cp multi other && dwz -m alternate multi other", compile_dir);
	after = by_us(path, path);
	for (size_t i = 0; i < after.size; i++) {
		if (after.at[i].n)
			assert_same_calls(&after.at[i], &before.at[i]);
	}
	n_left = count_inlined(&after);
	assert_true(n_left < count_inlined(&before) / 2);
	free_text(&before);
	free_text(&after);
}

static void split_debug_information_is_not_looked_for(void **state)
{
	const char *path = compile_path("split"), *source = compile_path("split.c");
	FILE *f = fopen(source, "we");
	struct text t;

	assert_non_null(f);
	assert_true(fputs(inline_source_c, f) >= 0);
	fclose(f);
	shell("cd '%s' && ${CC:-gcc} -O2 -g -gsplit-dwarf split.c -o split", compile_dir);
	t = by_us(path, path);
	assert_int_equal(count_inlined(&t), 0);
	free_text(&t);
}

static void no_more_than_asked_for(void **state)
{
	const char *path = compile_cxx("deep", CXX_FLAGS "-g");
	struct inline_image image = map_image(path);
	struct text all = by_us(path, path);
	const char *names[3];
	struct inline_dwarf *d;

	assert_int_equal(inline_dwarf_open(image.bytes, image.size, &d), 0);
	for (size_t i = 0; i < all.size; i++) {
		int n = inline_dwarf_find(d, all.start + i, names, 3);

		assert_int_equal(n, all.at[i].n <= 3 ? all.at[i].n : 0);
	}
	assert_int_equal(inline_dwarf_find(d, 0, names, 3), 0);
	assert_int_equal(inline_dwarf_find(d, UINT64_MAX, names, 3), 0);
	inline_dwarf_free(d);
	munmap(image.bytes, image.size);
	free_text(&all);
}

static void files_without_debug_information_are_refused(void **state)
{
	struct inline_image image;
	struct inline_dwarf *d;
	char text[] = "no ELF file";

	assert_int_equal(inline_dwarf_open(text, sizeof(text), &d), -EINVAL);
	image = map_image(compile("bare", "c", inline_source_c, "-O2 -g0 -s"));
	assert_int_equal(inline_dwarf_open(image.bytes, image.size, &d), -EINVAL);
	munmap(image.bytes, image.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_in_c_are_those_of_addr2line),
		cmocka_unit_test(calls_in_cxx_are_those_of_addr2line),
		cmocka_unit_test(what_clang_makes_is_read),
		cmocka_unit_test(separate_debug_file_has_the_same),
		cmocka_unit_test(what_dwz_shared_within_a_file_is_found),
		cmocka_unit_test(calls_without_a_name_hide_all),
		cmocka_unit_test(split_debug_information_is_not_looked_for),
		cmocka_unit_test(no_more_than_asked_for),
		cmocka_unit_test(files_without_debug_information_are_refused),
	};

	return cmocka_run_group_tests_name("inline_dwarf", tests, NULL, NULL);
}
