// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ksyms.h"

static const char text[] = "ffffffff81002000 T do_work\n"
			   "ffffffff81000000 T _text\n"
			   "ffffffff81000000 T startup\n"
			   "ffffffff81000000 t startup_local\n"
			   "0000000000004000 A absolute_constant\n"
			   "ffffffff81001000 t helper.isra.0\n"
			   "ffffffff81001800 W weak_one\n"
			   "ffffffff81001800 t strong_but_local\n"
			   "ffffffff81003000 D some_data\n"
			   "ffffffffc0001000 t ext4_read\t[ext4]\n"
			   "ffffffffc0002000 t bpf_prog_6deef7357e7b4530\t[bpf]\n";

static void assert_name(const struct ksyms *k, __u64 addr, const char *name)
{
	const char *found = ksyms_find(k, addr);

	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, name);
}

static struct ksyms *parse(const char *bytes, size_t len)
{
	char *copy = malloc(len ? len : 1);
	struct ksyms *k;

	memcpy(copy, bytes, len);
	k = ksyms_parse(copy, len);
	free(copy);
	assert_non_null(k);
	return k;
}

static void address_belongs_to_the_function_before_it(void **state)
{
	struct ksyms *k = parse(text, strlen(text));

	assert_false(ksyms_hidden(k));
	assert_name(k, 0, NULL);
	assert_name(k, 0xffffffff80ffffffULL, NULL);
	assert_name(k, 0xffffffff81000fffULL, "startup");
	assert_name(k, 0xffffffff81001000ULL, "helper.isra.0");
	assert_name(k, 0xffffffff81001810ULL, "weak_one");
	assert_name(k, 0xffffffff81002fffULL, "do_work");
	ksyms_free(k);
}

static void data_is_no_function_and_ends_one(void **state)
{
	struct ksyms *k = parse(text, strlen(text));

	assert_name(k, 0xffffffff81003000ULL, NULL);
	assert_name(k, 0xffffffffc0000000ULL, NULL);
	/* Absolute symbols are no places. */
	assert_name(k, 0x4000, NULL);
	ksyms_free(k);
}

/* Code that is in no table, or came after it, lies behind them. */
static void name_ends_with_what_it_belongs_to(void **state)
{
	static const char groups[] = "ffffffff81000000 T startup\n"
				     "ffffffff81000f00 T last_of_text\n"
				     "ffffffff81001800 T _etext\n"
				     "ffffffff81002000 D data\n"
				     "ffffffff81003000 t in_init\n"
				     "ffffffff81003800 T _einittext\n"
				     "ffffffffc0001000 t ext4_read\t[ext4]\n"
				     "ffffffffc0005000 t ext4_write\t[ext4]\n"
				     "ffffffffc0005800 t btrfs_read\t[btrfs]\n"
				     "ffffffffc0008000 t trampoline\t[__builtin__ftrace]\n"
				     "ffffffffc000a000 t bpf_prog_6deef7357e7b4530\t[bpf]\n"
				     "ffffffffc000a800 t bpf_prog_0123456789abcdef_x\t[bpf]\n";
	struct ksyms *k = parse(groups, strlen(groups));

	assert_name(k, 0xffffffff810017ffULL, "last_of_text");
	assert_name(k, 0xffffffff81001800ULL, NULL);
	assert_name(k, 0xffffffff81001fffULL, NULL);
	assert_name(k, 0xffffffff810037ffULL, "in_init");
	assert_name(k, 0xffffffff81003800ULL, NULL);
	assert_name(k, 0xffffffff81100000ULL, NULL);
	/* A long function of a module; its last ends where another begins, or with its page. */
	assert_name(k, 0xffffffffc0004fffULL, "ext4_read");
	assert_name(k, 0xffffffffc00057ffULL, "ext4_write");
	assert_name(k, 0xffffffffc0005fffULL, "btrfs_read");
	assert_name(k, 0xffffffffc0006000ULL, NULL);
	/* What is allocated alone does not reach to the next of its kind either. */
	assert_name(k, 0xffffffffc0008fffULL, "trampoline");
	assert_name(k, 0xffffffffc0009000ULL, NULL);
	/* Other code may lie in the same page. */
	assert_name(k, 0xffffffffc000a000ULL, "bpf_prog_6deef7357e7b4530");
	assert_name(k, 0xffffffffc000a001ULL, NULL);
	assert_name(k, 0xffffffffc000a7ffULL, NULL);
	assert_name(k, 0xffffffffc000a800ULL, "bpf_prog_0123456789abcdef_x");
	assert_name(k, 0xffffffffc000b000ULL, NULL);
	assert_name(k, ~0ULL, NULL);
	ksyms_free(k);
}

static void our_own_programs_lend_no_names(void **state)
{
	static const char bpf[] = "ffffffffc000a000 t bpf_prog_0123456789abcdef_other\t[bpf]\n"
				  "ffffffffc000a100 t bpf_prog_0123456789abcdef_rprof_exec\t[bpf]\n"
				  "ffffffffc000a200 t bpf_prog_0123456789abcdef_rprofit\t[bpf]\n";
	struct ksyms *k = parse(bpf, strlen(bpf));

	assert_name(k, 0xffffffffc000a000ULL, "bpf_prog_0123456789abcdef_other");
	assert_name(k, 0xffffffffc000a100ULL, NULL);
	assert_name(k, 0xffffffffc000a180ULL, NULL);
	assert_name(k, 0xffffffffc000a200ULL, "bpf_prog_0123456789abcdef_rprofit");
	ksyms_free(k);
}

static void write_file(const char *path, const char *content)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(content, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void assert_looks(struct ksyms *k, __u64 addr, const char *name)
{
	const char *found = ksyms_look(k, addr);

	if (name)
		assert_string_equal(found ? found : "(none)", name);
	else
		assert_null(found);
}

static void table_is_read_again_for_code_that_it_does_not_cover(void **state)
{
	static const char old[] = "ffffffff81000000 T startup\n"
				  "ffffffff81001000 T _etext\n";
	static const char new[] = "ffffffff81000000 T another_now\n"
				  "ffffffff81001000 T _etext\n"
				  "ffffffffc0001000 t late_read\t[late]\n";
	char path[] = "/tmp/rprof-test-kallsyms-XXXXXX";
	int fd = mkstemp(path);
	struct ksyms *k;

	assert_true(fd >= 0);
	close(fd);
	write_file(path, old);
	k = ksyms_load_file(path);
	assert_non_null(k);
	write_file(path, new);
	/* Not in the first second. */
	assert_looks(k, 0xffffffffc0001234ULL, NULL);
	usleep(1050000);
	/* What is covered is no reason. */
	assert_looks(k, 0xffffffff81000010ULL, "startup");
	assert_looks(k, 0xffffffffc0001234ULL, "late_read");
	assert_looks(k, 0xffffffff81000010ULL, "another_now");
	/* At most once a second; and a table that is gone leaves the one at hand. */
	write_file(path, old);
	assert_looks(k, 0xffffffffd0001234ULL, NULL);
	assert_looks(k, 0xffffffffc0001234ULL, "late_read");
	unlink(path);
	usleep(1050000);
	assert_looks(k, 0xffffffffd0001234ULL, NULL);
	assert_looks(k, 0xffffffffc0001234ULL, "late_read");
	ksyms_free(k);
}

static void module_name_is_not_part_of_the_symbol(void **state)
{
	struct ksyms *k = parse(text, strlen(text));

	assert_name(k, 0xffffffffc0001234ULL, "ext4_read");
	ksyms_free(k);
}

static void hidden_addresses_give_no_names(void **state)
{
	static const char hidden[] = "0000000000000000 T startup\n0000000000000000 t helper\n";
	struct ksyms *k = parse(hidden, strlen(hidden));

	assert_true(ksyms_hidden(k));
	assert_name(k, 0, NULL);
	assert_name(k, 0xffffffff81000000ULL, NULL);
	ksyms_free(k);
}

static void malformed_lines_are_skipped(void **state)
{
	static const char bad[] = "\n"
				  "x\n"
				  "ffffffff81000000\n"
				  "ffffffff81000000 T\n"
				  "ffffffff81000000 T \n"
				  "ffffffff81000000T x\n"
				  "fffffffff81000000 T seventeen_digits\n"
				  "ffffffff81000000 T good\n"
				  "ffffffff81000010 T last_without_newline";
	struct ksyms *k = parse(bad, strlen(bad));

	assert_name(k, 0xffffffff81000000ULL, "good");
	assert_name(k, 0xffffffff81000010ULL, "last_without_newline");
	ksyms_free(k);
	k = parse("", 0);
	assert_false(ksyms_hidden(k));
	assert_name(k, 1, NULL);
	ksyms_free(k);
}

/* As root with kptr_restrict 0 or 1 the names are there; else the table says that they are not. */
static void table_of_this_kernel_loads(void **state)
{
	struct ksyms *k = ksyms_open();

	if (!k) {
		print_message("/proc/kallsyms cannot be read here\n");
		skip();
	}
	if (!ksyms_hidden(k)) {
		char line[512], name[400];
		FILE *f = fopen("/proc/kallsyms", "r");
		unsigned long long addr;
		size_t n = 0;
		char type;

		assert_non_null(f);
		while (fgets(line, sizeof(line), f)) {
			if (sscanf(line, "%llx %c %399s", &addr, &type, name) != 3 || !addr ||
			    !strchr("tTwW", type))
				continue;
			/* Programs that others load come and go while we read. */
			if (strstr(line, "[bpf]"))
				continue;
			if (!strcmp(name, "_etext") || !strcmp(name, "_einittext"))
				continue;
			n++;
			assert_non_null(ksyms_look(k, addr));
			if (!strcmp(name, "do_exit"))
				assert_string_equal(ksyms_find(k, addr), name);
		}
		fclose(f);
		assert_true(n > 1000);
	}
	ksyms_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(address_belongs_to_the_function_before_it),
		cmocka_unit_test(data_is_no_function_and_ends_one),
		cmocka_unit_test(name_ends_with_what_it_belongs_to),
		cmocka_unit_test(our_own_programs_lend_no_names),
		cmocka_unit_test(table_is_read_again_for_code_that_it_does_not_cover),
		cmocka_unit_test(module_name_is_not_part_of_the_symbol),
		cmocka_unit_test(hidden_addresses_give_no_names),
		cmocka_unit_test(malformed_lines_are_skipped),
		cmocka_unit_test(table_of_this_kernel_loads),
	};

	return cmocka_run_group_tests_name("ksyms", tests, NULL, NULL);
}
