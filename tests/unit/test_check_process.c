// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
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

#include "check_parts.h"
#include "check_report.h"

static void a_64_bit_process_has_large_headers(void **state)
{
	const __u64 auxv[] = { AT_PAGESZ, 4096, AT_PHENT, 56, AT_NULL, 0 };
	char bytes[sizeof(auxv) + 1];

	assert_int_equal(check_auxv_bits(auxv, sizeof(auxv)), 64);
	memcpy(bytes + 1, auxv, sizeof(auxv));
	assert_int_equal(check_auxv_bits(bytes + 1, sizeof(auxv)), 64);
}

static void a_32_bit_process_has_small_headers(void **state)
{
	/* As Linux writes it: AT_SYSINFO_EHDR first, an odd number of pairs before the one. */
	const __u32 even[] = { AT_SYSINFO_EHDR, 0xf7fc0000, AT_PHENT, 32, AT_NULL, 0 };
	const __u32 odd[] = { AT_PHENT, 32, AT_PHNUM, 9, AT_NULL, 0 };

	assert_int_equal(check_auxv_bits(even, sizeof(even)), 32);
	assert_int_equal(check_auxv_bits(odd, sizeof(odd)), 32);
}

static void what_says_nothing_is_not_guessed(void **state)
{
	const __u64 none[] = { AT_PAGESZ, 4096, AT_NULL, 0 };
	const __u64 strange[] = { AT_PHENT, 57, AT_NULL, 0 };

	assert_int_equal(check_auxv_bits(none, sizeof(none)), 0);
	assert_int_equal(check_auxv_bits(strange, sizeof(strange)), 0);
	assert_int_equal(check_auxv_bits("", 0), 0);
	assert_int_equal(check_auxv_bits("1234567", 7), 0);
}

static void this_process_has_64_bits(void **state)
{
	char auxv[1024];
	int fd = open("/proc/self/auxv", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, auxv, sizeof(auxv));

	close(fd);
	assert_true(n > 0);
	assert_int_equal(check_auxv_bits(auxv, (size_t)n), 64);
}

static char *check_text(__u32 pid)
{
	struct check_report *r = check_report_new();
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	check_process(r, pid);
	assert_int_equal(check_write_text(r, f), 0);
	fclose(f);
	check_report_free(r);
	return text;
}

static void our_own_process_is_told_of(void **state)
{
	char *text = check_text(getpid());

	assert_non_null(strstr(text, "fine        state               test_check_proc"));
	assert_non_null(strstr(text, "names: .symtab"));
	assert_null(strstr(text, "impossible"));
	free(text);
}

static void no_process_is_impossible(void **state)
{
	char *text = check_text(0x7ffffff0);

	assert_non_null(strstr(text, "impossible  state               no such process"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_64_bit_process_has_large_headers),
		cmocka_unit_test(a_32_bit_process_has_small_headers),
		cmocka_unit_test(what_says_nothing_is_not_guessed),
		cmocka_unit_test(this_process_has_64_bits),
		cmocka_unit_test(our_own_process_is_told_of),
		cmocka_unit_test(no_process_is_impossible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
