// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compile.h"
#include "runtimes.h"

static const char names[] = "\0.text\0.gopclntab\0.go.buildinfo";

static void sections_say_go(void **state)
{
	const Elf64_Shdr other[] = { { 0 }, { .sh_name = 1 } };
	const Elf64_Shdr go[] = { { 0 }, { .sh_name = 1 }, { .sh_name = 7 } };
	const Elf64_Shdr cut[] = { { 0 }, { .sh_name = 18 } };
	struct runtimes found = { 0 };

	runtimes_sections(other, 2, names, sizeof(names), &found);
	assert_false(found.go);
	runtimes_sections(go, 3, names, sizeof(names), &found);
	assert_true(found.go);
	/* A table that ends within the name. */
	found = (struct runtimes){ 0 };
	runtimes_sections(cut, 2, names, sizeof(names) - 1, &found);
	assert_false(found.go);
	runtimes_sections(cut, 2, names, sizeof(names), &found);
	assert_true(found.go);
}

static void a_symbol_that_is_only_referred_to_says_nothing(void **state)
{
	static const char strings[] = "\0caml_frametable\0node_module_register";
	Elf64_Sym symbols[] = { { 0 }, { .st_name = 1 }, { .st_name = 17 } };
	struct runtimes found = { 0 };

	runtimes_symbols(symbols, 3, strings, sizeof(strings), &found);
	assert_false(found.ocaml || found.node);
	symbols[1].st_shndx = 5;
	runtimes_symbols(symbols, 3, strings, sizeof(strings), &found);
	assert_true(found.ocaml && !found.node);
	symbols[2].st_shndx = 5;
	runtimes_symbols(symbols, 3, strings, sizeof(strings), &found);
	assert_true(found.node);
}

static void names_beyond_the_table_are_no_names(void **state)
{
	const Elf64_Sym symbols[] = { { .st_name = ~0u, .st_shndx = 1 } };
	const Elf64_Shdr sections[] = { { 0 }, { .sh_name = ~0u } };
	struct runtimes found = { 0 };

	runtimes_symbols(symbols, 1, "", 0, &found);
	runtimes_symbols(symbols, 1, "x", 1, &found);
	runtimes_sections(sections, 2, "x", 1, &found);
	assert_false(found.ocaml || found.node || found.go);
}

static int open_compiled(const char *source, const char *flags)
{
	int fd = open(compile("file", "c", source, flags), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void a_file_is_read(void **state)
{
	struct runtimes found;
	int fd = open_compiled("int caml_frametable; int main(void) { return 0; }\n", "");

	runtimes_read(fd, &found);
	close(fd);
	assert_true(found.ocaml && !found.go && !found.node);
}

static void a_stripped_library_is_read(void **state)
{
	struct runtimes found;
	int fd = open_compiled("int node_module_register; extern int caml_frametable;\n"
			       "int f(void) { return caml_frametable; }\n",
			       "-shared -fPIC -s");

	runtimes_read(fd, &found);
	close(fd);
	assert_true(found.node && !found.ocaml);
}

static void what_is_no_elf_file_says_nothing(void **state)
{
	struct runtimes found;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	found.go = true;
	runtimes_read(fd, &found);
	close(fd);
	assert_false(found.ocaml || found.node || found.go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_say_go),
		cmocka_unit_test(a_symbol_that_is_only_referred_to_says_nothing),
		cmocka_unit_test(names_beyond_the_table_are_no_names),
		cmocka_unit_test(a_file_is_read),
		cmocka_unit_test(a_stripped_library_is_read),
		cmocka_unit_test(what_is_no_elf_file_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
