// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "arch.h"
#include "elf_symbols.h"

/*
 * A file with a symbol table and nothing else, written by hand: .text at 0x1000-0x2000, .data.
 * Section 1 .text, 2 .symtab, 3 .strtab, 4 .data, 5 .shstrtab.
 */
struct image {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[6];
	Elf64_Sym syms[64];
	char names[1024];
	size_t n_syms;
	size_t names_len;
};

static struct image im;

static void begin_image(void)
{
	memset(&im, 0, sizeof(im));
	memcpy(im.eh.e_ident, ELFMAG, SELFMAG);
	im.eh.e_ident[EI_CLASS] = ELFCLASS64;
	im.eh.e_ident[EI_DATA] = ARCH_ELF_DATA;
	im.eh.e_ident[EI_VERSION] = EV_CURRENT;
	im.eh.e_type = ET_DYN;
	im.eh.e_machine = ARCH_ELF_MACHINE;
	im.eh.e_version = EV_CURRENT;
	im.eh.e_ehsize = sizeof(im.eh);
	im.eh.e_shoff = offsetof(struct image, sh);
	im.eh.e_shentsize = sizeof(im.sh[0]);
	im.eh.e_shnum = 6;
	im.sh[1] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
				 .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				 .sh_addr = 0x1000,
				 .sh_size = 0x1000 };
	im.sh[4] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
				 .sh_flags = SHF_ALLOC | SHF_WRITE,
				 .sh_addr = 0x3000,
				 .sh_size = 0x1000 };
	im.sh[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				 .sh_link = 3,
				 .sh_offset = offsetof(struct image, syms),
				 .sh_entsize = sizeof(im.syms[0]) };
	im.sh[3] =
		(Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct image, names) };
	im.n_syms = 1;
	im.names_len = 1;
}

static Elf64_Sym *add(const char *name, __u64 value, __u64 size, int type, int bind, int section)
{
	Elf64_Sym *s = &im.syms[im.n_syms++];

	*s = (Elf64_Sym){ .st_name = (Elf64_Word)im.names_len,
			  .st_value = value,
			  .st_size = size,
			  .st_info = ELF64_ST_INFO(bind, type),
			  .st_shndx = (Elf64_Half)section };
	strcpy(im.names + im.names_len, name);
	im.names_len += strlen(name) + 1;
	im.sh[2].sh_size = im.n_syms * sizeof(*s);
	im.sh[3].sh_size = im.names_len;
	return s;
}

static void func(const char *name, __u64 value, __u64 size, int bind)
{
	add(name, value, size, STT_FUNC, bind, 1);
}

static struct elf_symbols *load_bytes(const void *bytes, size_t size)
{
	struct elf_symbols *s = elf_symbols_new();
	struct elf_file f;

	assert_int_equal(elf_file_open_bytes(&f, bytes, size), 0);
	assert_int_equal(elf_file_read_sections(&f), 0);
	if (elf_symbols_add(s, &f, SHT_SYMTAB, 0))
		elf_symbols_add(s, &f, SHT_DYNSYM, 0);
	elf_symbols_finish(s, true);
	elf_file_fini(&f);
	return s;
}

static struct elf_symbols *load(void)
{
	return load_bytes(&im, sizeof(im));
}

static void assert_at(const struct elf_symbols *s, __u64 addr, const char *name, __u64 start)
{
	__u64 got = 0;
	const char *found = elf_symbols_find(s, addr, &got);

	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
	assert_int_equal(got, start);
}

static void function_reaches_as_far_as_its_size(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("one", 0x1000, 0x10, STB_GLOBAL);
	func("two", 0x1020, 0x20, STB_LOCAL);
	s = load();
	assert_at(s, 0xfff, NULL, 0);
	assert_at(s, 0x1000, "one", 0x1000);
	assert_at(s, 0x100f, "one", 0x1000);
	assert_at(s, 0x1010, NULL, 0);
	assert_at(s, 0x101f, NULL, 0);
	assert_at(s, 0x1020, "two", 0x1020);
	assert_at(s, 0x103f, "two", 0x1020);
	assert_at(s, 0x1040, NULL, 0);
	assert_at(s, ~0ULL, NULL, 0);
	elf_symbols_free(s);
}

static void best_alias_wins_whatever_the_order(void **state)
{
	for (int turn = 0; turn < 2; turn++) {
		struct elf_symbols *s;

		begin_image();
		if (turn)
			func("read", 0x1000, 0x10, STB_GLOBAL);
		func("a", 0x1000, 0x10, STB_LOCAL);
		func("rd", 0x1000, 0x10, STB_WEAK);
		func("__libc_read", 0x1000, 0x10, STB_GLOBAL);
		func("reae", 0x1000, 0x10, STB_GLOBAL);
		if (!turn)
			func("read", 0x1000, 0x10, STB_GLOBAL);
		s = load();
		assert_at(s, 0x1008, "read", 0x1000);
		elf_symbols_free(s);
	}
}

static void larger_alias_keeps_what_lies_beyond_the_smaller(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("whole", 0x1000, 0x40, STB_LOCAL);
	func("head", 0x1000, 0x10, STB_GLOBAL);
	func("inner", 0x1020, 0x8, STB_LOCAL);
	s = load();
	assert_at(s, 0x100f, "head", 0x1000);
	assert_at(s, 0x1010, "whole", 0x1000);
	assert_at(s, 0x1020, "inner", 0x1020);
	assert_at(s, 0x1028, "whole", 0x1000);
	assert_at(s, 0x1040, NULL, 0);
	elf_symbols_free(s);
}

static void overlapping_functions_do_not_hide_each_others_ends(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("first", 0x1000, 0x20, STB_GLOBAL);
	func("second", 0x1010, 0x20, STB_GLOBAL);
	s = load();
	assert_at(s, 0x100f, "first", 0x1000);
	assert_at(s, 0x1010, "second", 0x1010);
	assert_at(s, 0x102f, "second", 0x1010);
	assert_at(s, 0x1030, NULL, 0);
	elf_symbols_free(s);
}

static void function_without_size_reaches_to_the_next_one(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("asm_one", 0x1000, 0, STB_GLOBAL);
	func("asm_two", 0x1100, 0, STB_GLOBAL);
	func("sized", 0x1200, 0x10, STB_GLOBAL);
	func("asm_last", 0x1300, 0, STB_GLOBAL);
	func("inside", 0x1208, 0, STB_GLOBAL);
	s = load();
	assert_at(s, 0x10ff, "asm_one", 0x1000);
	assert_at(s, 0x11ff, "asm_two", 0x1100);
	assert_at(s, 0x120f, "sized", 0x1200);
	/* Beyond a function with a size there is nothing known, whatever lies inside it. */
	assert_at(s, 0x1210, NULL, 0);
	/* The last one ends with its section. */
	assert_at(s, 0x1fff, "asm_last", 0x1300);
	assert_at(s, 0x2000, NULL, 0);
	elf_symbols_free(s);
}

static void label_counts_only_where_no_function_is(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("f", 0x1000, 0x10, STB_GLOBAL);
	add("in_f", 0x1008, 0, STT_NOTYPE, STB_LOCAL, 1);
	add("bare", 0x1100, 0, STT_NOTYPE, STB_GLOBAL, 1);
	func("asm_f", 0x1200, 0, STB_GLOBAL);
	add("loop", 0x1208, 0, STT_NOTYPE, STB_LOCAL, 1);
	add("data", 0x3000, 0, STT_NOTYPE, STB_GLOBAL, 4);
	add("object", 0x1400, 0x10, STT_OBJECT, STB_GLOBAL, 1);
	add("undefined", 0x1500, 0x10, STT_FUNC, STB_GLOBAL, SHN_UNDEF);
	s = load();
	assert_at(s, 0x1008, "f", 0x1000);
	assert_at(s, 0x1010, NULL, 0);
	assert_at(s, 0x1100, "bare", 0x1100);
	assert_at(s, 0x11ff, "bare", 0x1100);
	assert_at(s, 0x1208, "asm_f", 0x1200);
	assert_at(s, 0x1400, "asm_f", 0x1200);
	assert_at(s, 0x1500, "asm_f", 0x1200);
	assert_at(s, 0x3000, NULL, 0);
	elf_symbols_free(s);
}

static void version_is_cut_off(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("memcpy@@GLIBC_2.14", 0x1000, 0x10, STB_GLOBAL);
	func("old@GLIBC_2.2.5", 0x1010, 0x10, STB_GLOBAL);
	func("@odd", 0x1020, 0x10, STB_GLOBAL);
	add("ifunc", 0x1030, 0x10, STT_GNU_IFUNC, STB_GLOBAL, 1);
	func("", 0x1040, 0x10, STB_GLOBAL);
	s = load();
	assert_at(s, 0x1000, "memcpy", 0x1000);
	assert_at(s, 0x1010, "old", 0x1010);
	assert_at(s, 0x1020, "@odd", 0x1020);
	assert_at(s, 0x1030, "ifunc", 0x1030);
	assert_at(s, 0x1040, NULL, 0);
	elf_symbols_free(s);
}

static void what_compilers_append_is_cut_off(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("split.part.0", 0x1000, 0x10, STB_LOCAL);
	func("split.cold", 0x1010, 0x10, STB_LOCAL);
	func("_Z3foov.constprop.0.isra.0", 0x1020, 0x10, STB_LOCAL);
	func("versioned.cold@@V1", 0x1030, 0x10, STB_LOCAL);
	/* A tail that the linker shares is cut at the same byte. */
	add("", 0x1040, 0x10, STT_FUNC, STB_LOCAL, 1)->st_name = im.syms[2].st_name + 2;
	s = load();
	assert_at(s, 0x1000, "split", 0x1000);
	assert_at(s, 0x1010, "split", 0x1010);
	assert_at(s, 0x1020, "_Z3foov", 0x1020);
	assert_at(s, 0x1030, "versioned", 0x1030);
	assert_at(s, 0x1040, "lit", 0x1040);
	elf_symbols_free(s);
}

static void resolver_is_named_before_what_it_resolves(void **state)
{
	struct elf_symbols *s;

	begin_image();
	add("memcpy", 0x1000, 0x10, STT_GNU_IFUNC, STB_GLOBAL, 1);
	func("memcpy_resolver", 0x1000, 0x10, STB_LOCAL);
	add("alone", 0x1010, 0x10, STT_GNU_IFUNC, STB_GLOBAL, 1);
	s = load();
	assert_at(s, 0x1008, "memcpy_resolver", 0x1000);
	assert_at(s, 0x1018, "alone", 0x1010);
	elf_symbols_free(s);
}

static void two_tables_are_one(void **state)
{
	struct elf_symbols *s = elf_symbols_new();
	struct elf_file f;

	begin_image();
	func("first", 0x1000, 0x10, STB_GLOBAL);
	func("asm", 0x1010, 0, STB_GLOBAL);
	assert_int_equal(elf_file_open_bytes(&f, &im, sizeof(im)), 0);
	assert_int_equal(elf_file_read_sections(&f), 0);
	assert_int_equal(elf_symbols_add(s, &f, SHT_SYMTAB, 0), 0);
	assert_int_equal(elf_symbols_add(s, &f, SHT_DYNSYM, 0), -ENOENT);
	/* The other one is of a file that lies elsewhere. */
	begin_image();
	func("second", 0x1000, 0x10, STB_GLOBAL);
	assert_int_equal(elf_symbols_add(s, &f, SHT_SYMTAB, 0x20), 0);
	elf_symbols_finish(s, true);
	elf_file_fini(&f);
	assert_int_equal(elf_symbols_count(s), 3);
	assert_at(s, 0x100f, "first", 0x1000);
	/* Of size 0: up to the next symbol, of whichever table. */
	assert_at(s, 0x101f, "asm", 0x1010);
	assert_at(s, 0x1020, "second", 0x1020);
	assert_at(s, 0x1030, NULL, 0);
	elf_symbols_free(s);
}

/* Bytes that are no text stay as they are; a name of a megabyte is cut. */
static void names_are_bytes_and_end(void **state)
{
	enum { LONG = 1 << 20 };
	char *file = malloc(sizeof(im) + LONG);
	struct elf_symbols *s;
	__u64 start;

	begin_image();
	func("\xff\xfe\x1b[31m;\n", 0x1000, 0x10, STB_GLOBAL);
	s = load();
	assert_at(s, 0x1000, "\xff\xfe\x1b[31m;\n", 0x1000);
	elf_symbols_free(s);
	begin_image();
	func("x", 0x1000, 0x10, STB_GLOBAL);
	im.syms[1].st_name = 0;
	im.sh[3].sh_offset = sizeof(im);
	im.sh[3].sh_size = LONG;
	memcpy(file, &im, sizeof(im));
	memset(file + sizeof(im), 'x', LONG);
	s = load_bytes(file, sizeof(im) + LONG);
	assert_int_equal(strlen(elf_symbols_find(s, 0x1000, &start)), 65535);
	elf_symbols_free(s);
	free(file);
}

static void dynsym_serves_when_symtab_has_no_functions(void **state)
{
	struct elf_symbols *s;

	begin_image();
	func("f", 0x1000, 0x10, STB_GLOBAL);
	im.sh[5] = im.sh[2];
	im.sh[5].sh_type = SHT_DYNSYM;
	im.sh[2].sh_size = sizeof(im.syms[0]);
	s = load();
	assert_at(s, 0x1000, "f", 0x1000);
	elf_symbols_free(s);
	/* And when it is broken. */
	im.sh[2].sh_size = ~0ULL;
	s = load();
	assert_at(s, 0x1000, "f", 0x1000);
	elf_symbols_free(s);
}

static void hostile_tables_give_no_names(void **state)
{
	static const struct {
		size_t offset;
		__u64 value;
	} pokes[] = {
		{ offsetof(Elf64_Shdr, sh_size), 1ULL << 60 },
		{ offsetof(Elf64_Shdr, sh_size), ~0ULL },
		{ offsetof(Elf64_Shdr, sh_offset), ~0ULL },
		{ offsetof(Elf64_Shdr, sh_offset), 1ULL << 40 },
		{ offsetof(Elf64_Shdr, sh_entsize), 0 },
		{ offsetof(Elf64_Shdr, sh_entsize), 16 },
		{ offsetof(Elf64_Shdr, sh_entsize), 1ULL << 63 },
	};

	for (size_t i = 0; i < sizeof(pokes) / sizeof(pokes[0]); i++) {
		struct elf_symbols *s;

		begin_image();
		func("f", 0x1000, 0x10, STB_GLOBAL);
		memcpy((char *)&im.sh[2] + pokes[i].offset, &pokes[i].value, 8);
		s = load();
		assert_at(s, 0x1000, NULL, 0);
		elf_symbols_free(s);
	}
	for (__u32 link = 0; link < 64; link = link * 2 + 1) {
		struct elf_symbols *s;

		begin_image();
		func("f", 0x1000, 0x10, STB_GLOBAL);
		im.sh[2].sh_link = link == 3 ? 0xffffffff : link;
		s = load();
		assert_at(s, 0x1000, NULL, 0);
		elf_symbols_free(s);
	}
}

static void hostile_symbols_stay_within_the_tables(void **state)
{
	struct elf_symbols *s;

	begin_image();
	add("name_outside", 0x1000, 0x10, STT_FUNC, STB_GLOBAL, 1)->st_name = 0xffffffff;
	func("end_overflows", 0x1100, ~0ULL, STB_GLOBAL);
	add("section_outside", 0x1200, 0, STT_FUNC, STB_GLOBAL, 4711);
	add("at_the_top", ~0ULL, 8, STT_FUNC, STB_GLOBAL, 1);
	/* No NUL after the last name: the table ends in the middle of it. */
	func("unterminated", 0x1050, 0x10, STB_GLOBAL);
	im.sh[3].sh_size -= 5;
	s = load();
	assert_at(s, 0x1000, NULL, 0);
	assert_at(s, 0x1050, "untermin", 0x1050);
	assert_at(s, 0x1200, "end_overflows", 0x1100);
	assert_at(s, ~0ULL - 1, "end_overflows", 0x1100);
	elf_symbols_free(s);
}

/* One long name for every symbol, and nested functions: neither may cost more than its table. */
static void names_and_ranges_stay_proportional_to_the_file(void **state)
{
	enum { N = 200000, LONG = 60000 };
	size_t size = sizeof(im) + N * sizeof(Elf64_Sym) + LONG + 1;
	char *file = calloc(1, size);
	Elf64_Sym *syms = (Elf64_Sym *)(file + sizeof(im));
	char *names = (char *)(syms + N);
	struct elf_symbols *s;
	__u64 start;

	begin_image();
	im.sh[2].sh_offset = sizeof(im);
	im.sh[2].sh_size = N * sizeof(Elf64_Sym);
	im.sh[3].sh_offset = sizeof(im) + N * sizeof(Elf64_Sym);
	im.sh[3].sh_size = LONG + 1;
	memcpy(file, &im, sizeof(im));
	memset(names, 'x', LONG);
	for (__u32 i = 0; i < N; i++)
		syms[i] = (Elf64_Sym){ .st_name = i % 7,
				       .st_value = 0x1000 + i,
				       .st_size = 2ULL * (N - i),
				       .st_shndx = 1,
				       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC) };
	s = load_bytes(file, size);
	/* The text budget ran out after a few; those few are there. */
	assert_non_null(elf_symbols_find(s, 0x1001, &start));
	elf_symbols_free(s);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(function_reaches_as_far_as_its_size),
		cmocka_unit_test(best_alias_wins_whatever_the_order),
		cmocka_unit_test(larger_alias_keeps_what_lies_beyond_the_smaller),
		cmocka_unit_test(overlapping_functions_do_not_hide_each_others_ends),
		cmocka_unit_test(function_without_size_reaches_to_the_next_one),
		cmocka_unit_test(label_counts_only_where_no_function_is),
		cmocka_unit_test(version_is_cut_off),
		cmocka_unit_test(what_compilers_append_is_cut_off),
		cmocka_unit_test(resolver_is_named_before_what_it_resolves),
		cmocka_unit_test(two_tables_are_one),
		cmocka_unit_test(names_are_bytes_and_end),
		cmocka_unit_test(dynsym_serves_when_symtab_has_no_functions),
		cmocka_unit_test(hostile_tables_give_no_names),
		cmocka_unit_test(hostile_symbols_stay_within_the_tables),
		cmocka_unit_test(names_and_ranges_stay_proportional_to_the_file),
	};

	return cmocka_run_group_tests_name("elf_symbols", tests, NULL, NULL);
}
