// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The readers are this program, as they are rprof-bpf in use: see main(). */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "inline_dwarf.h"
#include "inline_program.h"
#include "inline_worker.h"
#include "inlines.h"
#include "log.h"

static char program[512];
static __u64 inside;		/* an address of it with these calls */
static const char *const calls[] = { "leaf", "middle", "outer" };

static void expect_calls(struct inlines *in, __u32 file)
{
	const char *const *names;

	assert_int_equal(inlines_find(in, file, inside, &names), 3);
	for (int i = 0; i < 3; i++)
		assert_string_equal(names[i], calls[i]);
}

static void expect_none(struct inlines *in, __u32 file)
{
	const char *const *names;

	assert_int_equal(inlines_find(in, file, inside, &names), 0);
}

static void expect_late(struct inlines *in, __u32 file)
{
	const char *const *names;

	assert_int_equal(inlines_find(in, file, inside, &names), -EAGAIN);
}

static struct inlines_report report_of(const struct inlines *in)
{
	struct inlines_report r;

	inlines_report(in, &r);
	return r;
}

static void add(struct inlines *in, __u32 file, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(inlines_add(in, file, fd), 0);
}

static struct inlines *new_with_program(void)
{
	struct inlines *in = inlines_new();

	assert_non_null(in);
	add(in, 7, program);
	return in;
}

/* Our children. Return: how many; *last is one of them. */
static int readers(pid_t *last)
{
	char path[64];
	int pid, n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1) {
		*last = pid;
		n++;
	}
	fclose(f);
	return n;
}

static int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static int set_up(void **state)
{
	const char *names[INLINE_MAX_CALLS];
	struct inline_image image;
	struct inline_dwarf *d;
	GElf_Shdr text;

	log_set_level(LOG_ERROR);
	snprintf(program, sizeof(program), "%s",
		 compile("program", "c", inline_source_c, "-O2 -g -gz=none"));
	image = map_image(program);
	text = find_section(program, ".text");
	assert_int_equal(inline_dwarf_open(image.bytes, image.size, &d), 0);
	for (__u64 at = text.sh_addr; at < text.sh_addr + text.sh_size && !inside; at++) {
		if (inline_dwarf_find(d, at, names, INLINE_MAX_CALLS) == 3)
			inside = at;
	}
	inline_dwarf_free(d);
	munmap(image.bytes, image.size);
	return !inside;
}

static void names_come_innermost_first_and_nothing_is_left(void **state)
{
	int before = open_files();
	struct inlines *in = new_with_program();
	struct inlines_report r;
	pid_t pid;

	assert_int_equal(readers(&pid), 0);
	expect_calls(in, 7);
	expect_calls(in, 7);
	expect_none(in, 8);
	assert_int_equal(readers(&pid), 1);
	assert_int_equal(inlines_add(in, 7, open(program, O_RDONLY)), -EEXIST);
	r = report_of(in);
	assert_int_equal(r.files, 1);
	assert_int_equal(r.started, 1);
	assert_int_equal(r.queries, 2);
	assert_int_equal(r.answered, 2);
	assert_int_equal(r.given_up + r.late + r.damaged, 0);
	assert_true(r.time_ns > 0);
	inlines_free(in);
	assert_int_equal(readers(&pid), 0);
	assert_int_equal(open_files(), before);
	inlines_free(NULL);
}

/* The first number after @name in a file of /proc/PID; @base of the number. */
static unsigned long long number_of(pid_t pid, const char *file, const char *name, int base)
{
	unsigned long long value = ~0ULL;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)))
			value = strtoull(line + strlen(name), NULL, base);
	}
	fclose(f);
	return value;
}

static void reader_has_no_rights(void **state)
{
	struct inlines *in = new_with_program();
	char path[64];
	int n = 0;
	pid_t pid;
	DIR *d;

	expect_calls(in, 7);
	assert_int_equal(readers(&pid), 1);
	assert_int_equal(number_of(pid, "status", "Seccomp:", 10), 2);
	assert_int_equal(number_of(pid, "status", "NoNewPrivs:", 10), 1);
	assert_int_equal(number_of(pid, "status", "CapPrm:", 16), 0);
	assert_int_equal(number_of(pid, "status", "CapEff:", 16), 0);
	assert_int_equal(number_of(pid, "limits", "Max cpu time", 10), 20);
	assert_in_range(number_of(pid, "limits", "Max address space", 10), 512 << 20, 1ULL << 47);
	if (!geteuid()) {
		assert_int_equal(number_of(pid, "status", "Uid:", 10), 65534);
		/* The socket alone. */
		snprintf(path, sizeof(path), "/proc/%d/fd", pid);
		d = opendir(path);
		assert_non_null(d);
		for (struct dirent *e; (e = readdir(d));)
			n += e->d_name[0] != '.';
		closedir(d);
		assert_int_equal(n, 1);
	}
	inlines_free(in);
}

static void signals_of_the_terminal_do_not_end_it(void **state)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct inlines *in = new_with_program();
	pid_t pid;

	expect_calls(in, 7);
	assert_int_equal(readers(&pid), 1);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		kill(pid, signals[i]);
	expect_calls(in, 7);
	assert_int_equal(report_of(in).started, 1);
	inlines_free(in);
}

static void death_of_a_reader_costs_its_file_alone(void **state)
{
	struct inlines *in = new_with_program();
	pid_t pid;

	expect_calls(in, 7);
	assert_int_equal(readers(&pid), 1);
	kill(pid, SIGKILL);
	add(in, 8, program);
	expect_none(in, 7);
	expect_none(in, 7);
	expect_calls(in, 8);
	assert_int_equal(report_of(in).given_up, 1);
	assert_int_equal(report_of(in).queries, 3);
	inlines_free(in);
}

/* Given up after ten seconds of waiting in all, which is for the long run. */
static void late_answer_is_lost_and_the_next_one_right(void **state)
{
	const char *full = getenv("RPROF_FULL");
	struct inlines *in = new_with_program();
	const char *const *names;
	pid_t pid;

	expect_calls(in, 7);
	assert_int_equal(readers(&pid), 1);
	kill(pid, SIGSTOP);
	expect_late(in, 7);
	assert_int_equal(report_of(in).late, 1);
	kill(pid, SIGCONT);
	expect_calls(in, 7);
	assert_int_equal(report_of(in).given_up, 0);
	kill(pid, SIGSTOP);
	for (int i = 0; full && i < 8; i++)
		expect_late(in, 7);
	/* It is on the brink. */
	for (int i = 0; full && i < 2; i++)
		inlines_find(in, 7, inside, &names);
	if (full)
		expect_none(in, 7);
	assert_int_equal(report_of(in).given_up, full ? 1 : 0);
	inlines_free(in);
	assert_int_equal(readers(&pid), 0);
}

static void readers_are_few_however_many_files(void **state)
{
	struct inlines *in = inlines_new();
	pid_t pid;

	for (__u32 file = 0; file < 10; file++)
		add(in, file, program);
	for (__u32 i = 0; i < 20; i++) {
		expect_calls(in, i % 10);
		assert_in_range(readers(&pid), 1, 8);
	}
	assert_int_equal(report_of(in).given_up, 0);
	assert_int_equal(report_of(in).answered, 20);
	assert_true(report_of(in).started > 10);
	inlines_free(in);
}

static void files_have_a_limit(void **state)
{
	struct inlines *in = inlines_new();
	int err = 0, before = open_files();

	for (__u32 file = 0; !err && file < 2000; file++)
		err = inlines_add(in, file, open(program, O_RDONLY | O_CLOEXEC));
	assert_int_equal(err, -EMFILE);
	assert_int_equal(open_files(), before + report_of(in).files);
	inlines_free(in);
	assert_int_equal(open_files(), before);
}

static const char *copy_program(const char *name)
{
	const char *path = compile_path(name);

	shell("cp '%s' '%s'", program, path);
	return path;
}

/* Whatever is in a section, its reader alone may suffer. */
static void damaged_sections_end_no_more_than_their_reader(void **state)
{
	static const char *const sections[] = { ".debug_info", ".debug_abbrev", ".debug_rnglists",
						".debug_str" };
	struct inlines *in = new_with_program();
	const char *const *names;
	unsigned int seed = 1;
	__u32 file = 100;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		GElf_Shdr header = find_section(program, sections[i]);

		for (int k = 0; k < 12; k++, file++) {
			const char *path = copy_program("damaged");
			char byte[4];

			for (size_t n = 0; n < (k < 6 ? 4 : header.sh_size); n++) {
				for (size_t b = 0; b < sizeof(byte); b++)
					byte[b] = (char)rand_r(&seed);
				overwrite(path,
					  header.sh_offset + rand_r(&seed) % (header.sh_size - 3),
					  byte, sizeof(byte));
			}
			add(in, file, path);
			inlines_find(in, file, inside, &names);
		}
	}
	expect_calls(in, 7);
	/* Of random bytes nothing can be made. */
	assert_true(report_of(in).given_up + report_of(in).damaged >= 6);
	inlines_free(in);
}

static void cut_and_foreign_files_are_given_up(void **state)
{
	const char *cut = copy_program("cut"), *text = compile_path("text");
	struct inlines *in = new_with_program();

	shell("truncate -s 4096 '%s' && echo text > '%s'", cut, text);
	add(in, 1, cut);
	add(in, 2, text);
	add(in, 3, "/dev/null");
	for (__u32 file = 1; file <= 3; file++)
		expect_none(in, file);
	assert_int_equal(report_of(in).given_up, 3);
	expect_calls(in, 7);
	inlines_free(in);
}

/* What is gone under a mapping is SIGBUS. */
static void file_that_shrinks_is_given_up(void **state)
{
	const char *path = copy_program("shrinks");
	struct inlines *in = inlines_new();
	pid_t pid;

	add(in, 1, path);
	add(in, 2, program);
	expect_calls(in, 1);
	assert_int_equal(readers(&pid), 1);
	shell("truncate -s 0 '%s'", path);
	expect_none(in, 1);
	expect_calls(in, 2);
	assert_int_equal(report_of(in).given_up, 1);
	inlines_free(in);
}

/* A section that says of itself that it unpacks to a terabyte. */
static void lie_about_the_unpacked_size_is_survived(void **state)
{
	const char *path = compile("bomb", "c", inline_source_c, "-O2 -g -gz=zlib");
	GElf_Shdr header = find_section(path, ".debug_info");
	const __u64 size = 1ULL << 40;
	struct inlines *in = new_with_program();

	assert_true(header.sh_flags & SHF_COMPRESSED);
	add(in, 1, path);
	expect_calls(in, 7);
	overwrite(path, header.sh_offset + offsetof(Elf64_Chdr, ch_size), &size, sizeof(size));
	expect_none(in, 1);
	assert_int_equal(report_of(in).given_up, 1);
	inlines_free(in);
}

static void answers_are_checked(void **state)
{
	static const struct {
		__u64 number;
		__u32 n_calls;
		const char *text;
		size_t len;
		int result;
	} cases[] = {
		{ 5, 0, "", 0, 0 },
		{ 5, 2, "a\0bc", 5, 2 },
		{ 4, 1, "a", 2, -EAGAIN },
		{ 5, 2, "a\0bc", 4, -EINVAL },
		{ 5, 1, "a\0bc", 5, -EINVAL },
		{ 5, 3, "a\0bc", 5, -EINVAL },
		{ 5, 2, "a\0", 3, -EINVAL },
		{ 5, 1, "", 0, -EINVAL },
		{ 5, ~0U, "a\0bc", 5, -EINVAL },
		{ 5, 65, "a\0bc", 5, -EINVAL },
		{ 5, 0, "a", 2, -EINVAL },
	};
	const char *names[INLINE_MAX_CALLS];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct inline_answer a = { .number = cases[i].number, .n_calls = cases[i].n_calls };
		/* Of its size exactly, for the sanitizer. */
		char *bytes = malloc(sizeof(a) + cases[i].len);

		memcpy(bytes, &a, sizeof(a));
		memcpy(bytes + sizeof(a), cases[i].text, cases[i].len);
		assert_int_equal(inlines_parse_answer(bytes, sizeof(a) + cases[i].len, 5, names),
				 cases[i].result);
		assert_int_equal(inlines_parse_answer(bytes, sizeof(a) - 1, 5, names), -EINVAL);
		if (cases[i].result == 2)
			assert_string_equal(names[1], "bc");
		free(bytes);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_come_innermost_first_and_nothing_is_left),
		cmocka_unit_test(reader_has_no_rights),
		cmocka_unit_test(signals_of_the_terminal_do_not_end_it),
		cmocka_unit_test(death_of_a_reader_costs_its_file_alone),
		cmocka_unit_test(late_answer_is_lost_and_the_next_one_right),
		cmocka_unit_test(readers_are_few_however_many_files),
		cmocka_unit_test(files_have_a_limit),
		cmocka_unit_test(damaged_sections_end_no_more_than_their_reader),
		cmocka_unit_test(cut_and_foreign_files_are_given_up),
		cmocka_unit_test(file_that_shrinks_is_given_up),
		cmocka_unit_test(lie_about_the_unpacked_size_is_survived),
		cmocka_unit_test(answers_are_checked),
	};

	if (inline_worker_wanted(argc, argv))
		return inline_worker_run();
	return cmocka_run_group_tests_name("inlines", tests, set_up, NULL);
}
