// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The names are what `addr2line -C`, `c++filt` and the ABIs' own examples say. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "demangle.h"

struct pair {
	const char *mangled, *name;
};

static void expect_names(const struct pair *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char *name = demangle(pairs[i].mangled);

		if (!pairs[i].name)
			assert_null(name);
		else if (!name)
			fail_msg("%s is not demangled", pairs[i].mangled);
		else
			assert_string_equal(name, pairs[i].name);
		free(name);
	}
}

#define EXPECT(...) \
	do { \
		static const struct pair pairs[] = { __VA_ARGS__ }; \
		expect_names(pairs, sizeof(pairs) / sizeof(pairs[0])); \
	} while (0)

static void cxx_has_its_parameters(void **state)
{
	EXPECT({ "_Z3foov", "foo()" }, { "_ZN3foo3barERKSsi", "foo::bar(std::string const&, int)" },
	       { "_ZNSt6vectorIiSaIiEE9push_backERKi",
		 "std::vector<int, std::allocator<int> >::push_back(int const&)" },
	       { "_ZN1AC1Ev", "A::A()" }, { "_ZN1AplERKS_", "A::operator+(A const&)" },
	       { "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const" },
	       { "_ZN12_GLOBAL__N_14workEv", "(anonymous namespace)::work()" });
}

static void rust_has_no_hashes(void **state)
{
	EXPECT({ "_ZN3foo3bar17h0123456789abcdefE", "foo::bar" },
	       { "_ZN4core3fmt5Write9write_fmt17h5a9cf2a3a4d1e8b7E",
		 "core::fmt::Write::write_fmt" },
	       { "_ZN42_$LT$I$u20$as$u20$core..iter..Iterator$GT$4next17h0123456789abcdefE",
		 "<I as core::iter::Iterator>::next" },
	       { "_RNvC7mycrate3foo", "mycrate::foo" },
	       { "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
	       { "_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>" });
}

static void d_is_known_by_its_prefix(void **state)
{
	EXPECT({ "_D3foo3barFiZv", "foo.bar(int)" }, { "_Dmain", "D main" },
	       { "_D8demangle4testFAaZv", "demangle.test(char[])" }, { "_DYNAMIC", NULL });
}

static void what_is_not_mangled_is_left_alone(void **state)
{
	EXPECT({ "main", NULL }, { "", NULL }, { "_", NULL }, { "_start", NULL }, { "_Z", NULL },
	       { "_R", NULL }, { "_D", NULL }, { "Z3foov", NULL }, { "_Zfoo", NULL },
	       { "i", NULL });
}

static void what_is_behind_an_at_sign_stays(void **state)
{
	EXPECT({ "_Z3foov@plt", "foo()@plt" }, { "_ZN1AC1Ev@@V_1.0", "A::A()@@V_1.0" },
	       { "memcpy@plt", NULL });
}

static void name_of_many_bytes_is_refused(void **state)
{
	size_t len = 1 << 20;
	char *symbol = malloc(len + 1);

	assert_non_null(symbol);
	memset(symbol, 'P', len);
	symbol[len] = '\0';
	memcpy(symbol, "_Z1f", 4);
	assert_null(demangle(symbol));
	memcpy(symbol, "_D1f", 4);
	assert_null(demangle(symbol));
	/* As long as is still tried: the parser calls itself for each of them. */
	for (size_t n = 100; n <= 8192; n *= 2) {
		symbol[n] = '\0';
		assert_null(demangle(symbol));
		symbol[n] = 'P';
	}
	free(symbol);
}

/* Each parameter is a pair of the one before: 2^60 of them when printed. */
static void cxx_that_unfolds_without_end_is_refused(void **state)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char symbol[2048] = "_Z1f1PI1AS0_E", *at = symbol + strlen(symbol);

	for (unsigned int i = 1; i < 35; i++)
		at += sprintf(at, "S_IS%c_S%c_E", digits[i], digits[i]);
	assert_null(demangle(symbol));
	/* And a few levels of it are a name. */
	strcpy(symbol, "_Z1f1PI1AS0_ES_IS1_S1_E");
	at = demangle(symbol);
	assert_string_equal(at, "f(P<A, A>, P<P<A, A>, P<A, A> >)");
	free(at);
}

/* A reference of Rust: the distance from behind "_R" in digits to base 62, from 1. */
static char *put_rust_ref(char *at, size_t target)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	if (target <= 62)
		return at + sprintf(at, "B%c_", digits[target - 1]);
	return at + sprintf(at, "B%c%c_", digits[(target - 1) / 62], digits[(target - 1) % 62]);
}

/* Nested tuples of two: a::b::<((u32, u32), (u32, u32))> and so on. */
static char *demangle_rust_tuples(int levels)
{
	char symbol[2048] = "_RINvC1a1bTmmE", *at = symbol + strlen(symbol), *last = at - 4;

	for (int i = 0; i < levels; i++) {
		char *here = at;

		*at++ = 'T';
		at = put_rust_ref(at, (size_t)(last - symbol) - 2);
		at = put_rust_ref(at, (size_t)(last - symbol) - 2);
		*at++ = 'E';
		last = here;
	}
	strcpy(at, "E");
	return demangle(symbol);
}

static void rust_that_unfolds_without_end_is_refused(void **state)
{
	char *name = demangle_rust_tuples(1);

	assert_string_equal(name, "a::b::<(u32, u32), ((u32, u32), (u32, u32))>");
	free(name);
	name = demangle_rust_tuples(8);
	assert_true(strlen(name) > 1000);
	free(name);
	assert_null(demangle_rust_tuples(40));
}

/* Arrays with the one before as key and as value. */
static char *demangle_d_arrays(int levels)
{
	char symbol[2048] = "_D1a1bFHii", *at = symbol + strlen(symbol), *last = at - 3;

	for (int i = 0; i < levels; i++) {
		char *here = at;

		*at++ = 'H';
		at += sprintf(at, "Q%c", (int)('a' + (at - last)));
		at += sprintf(at, "Q%c", (int)('a' + (at - last)));
		last = here;
	}
	strcpy(at, "Zv");
	return demangle(symbol);
}

static void d_that_unfolds_without_end_is_refused(void **state)
{
	char *name = demangle_d_arrays(1);

	assert_string_equal(name, "a.b(int[int], int[int][int[int]])");
	free(name);
	name = demangle_d_arrays(6);
	assert_true(strlen(name) > 500);
	free(name);
	assert_null(demangle_d_arrays(60));
}

/* The parser for D tries each of these twice: 2^200 steps without an end. */
static void d_that_takes_ages_is_given_up(void **state)
{
	char symbol[2048] = "_D1a", *at = symbol + strlen(symbol);
	struct sigaction action;
	sigset_t blocked;
	char *name;

	for (int i = 0; i < 200; i++)
		at += sprintf(at, "FS1a");
	/* A thread that has all signals blocked is held no longer, and keeps its mask. */
	sigfillset(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	assert_null(demangle(symbol));
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_true(sigismember(&blocked, SIGRTMAX));
	sigpending(&blocked);
	assert_false(sigismember(&blocked, SIGRTMAX));
	sigemptyset(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	/* Somebody else's signal of that number does nothing. */
	assert_int_equal(sigaction(SIGRTMAX, NULL, &action), 0);
	assert_ptr_not_equal(action.sa_handler, SIG_DFL);
	raise(SIGRTMAX);
	name = demangle("_D3foo3barFiZv");
	assert_string_equal(name, "foo.bar(int)");
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cxx_has_its_parameters),
		cmocka_unit_test(rust_has_no_hashes),
		cmocka_unit_test(d_is_known_by_its_prefix),
		cmocka_unit_test(what_is_not_mangled_is_left_alone),
		cmocka_unit_test(what_is_behind_an_at_sign_stays),
		cmocka_unit_test(name_of_many_bytes_is_refused),
		cmocka_unit_test(cxx_that_unfolds_without_end_is_refused),
		cmocka_unit_test(rust_that_unfolds_without_end_is_refused),
		cmocka_unit_test(d_that_unfolds_without_end_is_refused),
		cmocka_unit_test(d_that_takes_ages_is_given_up),
	};

	return cmocka_run_group_tests_name("demangle", tests, NULL, NULL);
}
