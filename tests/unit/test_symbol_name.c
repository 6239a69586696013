// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "symbol_name.h"

static void what_compilers_append_is_cut_off(void **state)
{
	static const struct {
		const char *name;
		const char *base;
	} cases[] = {
		{ "f", "f" },
		{ "", "" },
		{ "f.cold", "f" },
		{ "f.cold.12", "f" },
		{ "f.part.0", "f" },
		{ "f.constprop.0", "f" },
		{ "f.isra.0", "f" },
		{ "f.lto_priv.31", "f" },
		{ "f.llvm.10263786274930541225", "f" },
		{ "f.constprop.0.isra.0", "f" },
		{ "f.isra.0.part.3.cold", "f" },
		{ "_Z3foov.cold", "_Z3foov" },
		{ "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE.llvm.77",
		  "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE" },
		/* Names proper. */
		{ ".cold", ".cold" },
		{ ".part.0", ".part.0" },
		{ "cold", "cold" },
		{ "f.part", "f.part" },
		{ "f.part.", "f.part." },
		{ "f.part.x", "f.part.x" },
		{ "f.isra0", "f.isra0" },
		{ "f.isra.0x", "f.isra.0x" },
		{ "f.colder", "f.colder" },
		{ "f_cold", "f_cold" },
		{ "f.0", "f.0" },
		{ "0", "0" },
		{ "...0", "...0" },
		{ "f.clone.0", "f.clone.0" },
		{ "main.main.func1", "main.main.func1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = symbol_base_length(cases[i].name, strlen(cases[i].name));

		if (len != strlen(cases[i].base))
			fail_msg("%s: %.*s", cases[i].name, (int)len, cases[i].name);
		assert_memory_equal(cases[i].name, cases[i].base, len);
	}
}

static void any_bytes_will_do(void **state)
{
	static const char alphabet[] = ".cold.part0isra9\xff";
	char name[24];

	for (unsigned int seed = 1; seed < 200000; seed++) {
		size_t len = seed % sizeof(name), base;

		for (size_t i = 0; i < len; i++)
			name[i] = alphabet[(seed * 2654435761u >> i) % (sizeof(alphabet) - 1)];
		base = symbol_base_length(name, len);
		assert_true(base <= len);
		assert_int_equal(!base, !len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_compilers_append_is_cut_off),
		cmocka_unit_test(any_bytes_will_do),
	};

	return cmocka_run_group_tests_name("symbol_name", tests, NULL, NULL);
}
