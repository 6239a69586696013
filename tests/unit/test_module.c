// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#include "compile.h"
#include "module.h"

static const char source[] =
	"#include <stdio.h>\n"
	"int shared_data = 3;\n"
	"static int inner(int x) { return x * shared_data; }\n"
	"__attribute__((noinline)) int outer(int x) { printf(\"%d\", x); return inner(x) + x; }\n"
	"__attribute__((section(\".text.other\"))) int elsewhere(int x) { return outer(x) ^ x; }\n"
	"int main(int c, char **v) { return outer(c) + elsewhere(c); }\n";

static struct module *open_module(const char *path)
{
	struct module *m = NULL;

	assert_int_equal(module_open(open(path, O_RDONLY | O_CLOEXEC), &m), 0);
	return m;
}

static int open_bytes(const void *bytes, size_t n, struct module **m)
{
	int fd = memfd_create("module", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	return module_open(fd, m);
}

/* Every function that nm lists with a size is found by each address in it. */
static size_t compare_with_nm(const char *path, const char *nm_flags)
{
	struct module *m = open_module(path);
	char command[1024], line[4096];
	size_t n = 0;
	FILE *f;

	snprintf(command, sizeof(command), "LC_ALL=C nm %s -S --defined-only '%s' 2>/dev/null",
		 nm_flags, path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long addr, size;
		char type, name[2048];
		const char *first, *last;
		__u64 start;

		if (sscanf(line, "%llx %llx %c %2047s", &addr, &size, &type, name) != 4 ||
		    !strchr("tTwWi", type) || !size)
			continue;
		n++;
		first = module_symbol(m, addr, &start);
		assert_non_null(first);
		assert_int_equal(start, addr);
		/* Another symbol may begin inside, but the last byte is somebody's. */
		last = module_symbol(m, addr + size - 1, &start);
		assert_non_null(last);
		if (!strcmp(name, "outer") || !strcmp(name, "elsewhere"))
			assert_string_equal(first, name);
	}
	pclose(f);
	module_free(m);
	return n;
}

static void functions_are_those_of_nm_for_each_kind_of_file(void **state)
{
	static const char *const builds[] = {
		"-O1 -pie -fPIE",
		"-O1 -no-pie",
		"-O1 -static",
		"-O1 -static-pie -fPIE",
		"-O1 -shared -fPIC",
		"-O1 -pie -fPIE -Wl,-z,noseparate-code",
		"-O1 -no-pie -Wl,-Ttext-segment=0x10000000",
		"-O1 -g -pie -fPIE -ffunction-sections -Wl,-z,separate-code",
	};

	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		assert_true(compare_with_nm(compile("built", "c", source, builds[i]), "") >= 3);
}

static void dynsym_serves_a_stripped_library(void **state)
{
	const char *path = compile("lib.so", "c", source, "-O1 -shared -fPIC -s");
	struct module *m;
	__u64 start;

	assert_true(compare_with_nm(path, "-D") >= 3);
	/* What is not exported has no name: not the name of what lies before it. */
	m = open_module(path);
	for (__u64 pc = 0; pc < 0x4000; pc++) {
		const char *name = module_symbol(m, pc, &start);

		if (name)
			assert_true(!strcmp(name, "main") || !strcmp(name, "outer") ||
				    !strcmp(name, "elsewhere") || !strcmp(name, "_init") ||
				    !strcmp(name, "_fini") || strstr(name, "@plt"));
	}
	module_free(m);
}

/* Return address of the segment that holds @pc of a loaded object, as dl_iterate_phdr() sees it. */
static void functions_of_libc_are_those_of_dladdr(void **state)
{
	static const char *const names[] = { "qsort",  "printf",  "pthread_create", "getaddrinfo",
					     "malloc", "regexec", "free",	    "write" };
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	struct link_map *map = NULL;
	struct module *m;

	assert_int_equal(dlinfo(libc, RTLD_DI_LINKMAP, &map), 0);
	m = open_module(map->l_name);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		/* Through the library's handle: the sanitizer has some of these names too. */
		char *addr = dlsym(libc, names[i]);
		Dl_info info;
		__u64 start;

		if (!addr || !dladdr(addr, &info) || strcmp(info.dli_fname, map->l_name) != 0)
			continue;
		assert_non_null(module_symbol(m, (__u64)(size_t)addr - map->l_addr, &start));
		assert_int_equal(start, (size_t)info.dli_saddr - map->l_addr);
	}
	assert_true(compare_with_nm(tools_path(map->l_name), "-D") > 1000);
	module_free(m);
}

static void offsets_become_addresses_by_segment(void **state)
{
	static const char *const builds[] = {
		"-O1 -pie -fPIE",
		"-O1 -no-pie",
		"-O1 -pie -fPIE -Wl,-z,noseparate-code",
		"-O1 -no-pie -Wl,-Ttext-segment=0x10000000",
	};

	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
		const char *path = compile("built", "c", source, builds[i]);
		struct module *m = open_module(path);
		int fd = open(path, O_RDONLY);
		Elf64_Phdr ph[64];
		Elf64_Ehdr eh;
		__u64 vaddr;

		assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
		assert_true(eh.e_phnum < 64);
		assert_true(pread(fd, ph, eh.e_phnum * sizeof(ph[0]), (off_t)eh.e_phoff) > 0);
		close(fd);
		for (int j = 0; j < eh.e_phnum; j++) {
			if (ph[j].p_type != PT_LOAD || !(ph[j].p_flags & PF_X))
				continue;
			/* The kernel maps whole pages: also what lies before, in the first one. */
			assert_int_equal(module_vaddr(m, ph[j].p_offset & ~4095ULL, &vaddr), 0);
			assert_int_equal(vaddr, ph[j].p_vaddr & ~4095ULL);
			assert_int_equal(module_vaddr(m, ph[j].p_offset, &vaddr), 0);
			assert_int_equal(vaddr, ph[j].p_vaddr);
			vaddr = 1;
			assert_int_equal(
				module_vaddr(m, ph[j].p_offset + ph[j].p_filesz - 1, &vaddr), 0);
			assert_int_equal(vaddr, ph[j].p_vaddr + ph[j].p_filesz - 1);
		}
		assert_int_equal(module_vaddr(m, 1ULL << 40, &vaddr), -ENOENT);
		assert_int_equal(module_vaddr(m, ~0ULL, &vaddr), -ENOENT);
		module_free(m);
	}
}

static void other_files_are_refused(void **state)
{
	static const char *const not_elf[] = { "", "x", "\177ELF", "#!/bin/sh\nexit 0\n" };
	struct module *m = NULL;
	Elf64_Ehdr eh;
	int fd;

	for (size_t i = 0; i < sizeof(not_elf) / sizeof(not_elf[0]); i++)
		assert_int_equal(open_bytes(not_elf[i], strlen(not_elf[i]), &m), -EINVAL);
	fd = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	close(fd);
	/* Headers alone: the program headers are not in the file. */
	assert_int_equal(open_bytes(&eh, sizeof(eh), &m), -EINVAL);
	eh.e_ident[EI_CLASS] = ELFCLASS32;
	assert_int_equal(open_bytes(&eh, sizeof(eh), &m), -EINVAL);
	eh.e_ident[EI_CLASS] = ELFCLASS64;
	eh.e_machine = EM_AARCH64;
	assert_int_equal(open_bytes(&eh, sizeof(eh), &m), -EINVAL);
	assert_int_equal(module_open(open("/dev/null", O_RDONLY), &m), -EINVAL);
	assert_int_equal(module_open(open("/", O_RDONLY), &m), -EINVAL);
	assert_int_equal(module_open(-1, &m), -EBADF);
	assert_null(m);
}

static void file_may_be_closed_until_it_is_loaded(void **state)
{
	const char *path = compile("built", "c", source, "-O1");
	struct module *m = open_module(path);
	struct cfi_rule rule;
	__u64 start;

	assert_true(module_has_file(m));
	module_close_file(m);
	assert_false(module_has_file(m));
	assert_null(module_symbol(m, 0x1000, &start));
	assert_int_equal(cfi_rule_at(m, 0x1000, &rule), -EBADF);
	module_reopen_file(m, open(path, O_RDONLY | O_CLOEXEC));
	assert_int_equal(module_load(m), 0);
	assert_true(module_is_loaded(m));
	/* What is needed was read: the descriptor is not. */
	assert_false(module_has_file(m));
	assert_int_equal(cfi_rule_at(m, 0x1000, &rule), 0);
	module_free(m);
}

/* A table of sections announced by the thousand million: refused before anything is allocated. */
static void announced_sections_are_counted_first(void **state)
{
	const char *path = compile("built", "c", source, "-O1");
	size_t n = 0;
	static char bytes[1 << 20];
	Elf64_Ehdr *eh = (Elf64_Ehdr *)bytes;
	struct module *m = NULL;
	Elf64_Shdr first;
	__u64 start;
	int fd = open(path, O_RDONLY);

	n = (size_t)read(fd, bytes, sizeof(bytes));
	close(fd);
	memcpy(&first, bytes + eh->e_shoff, sizeof(first));
	eh->e_shnum = 0;
	first.sh_size = 1ULL << 32;
	memcpy(bytes + eh->e_shoff, &first, sizeof(first));
	assert_int_equal(open_bytes(bytes, n, &m), 0);
	assert_null(module_symbol(m, 0x1000, &start));
	module_free(m);
}

static __u64 random_state = 88172645463325252ULL;

static __u64 next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Bytes that matter more than others: the headers, and the words in them. */
static void damage(unsigned char *bytes, size_t *n, const Elf64_Ehdr *eh)
{
	static const __u64 words[] = { 0,	   1,	       0x18,	   0x7fffffff, 0xffffffff,
				       1ULL << 40, 1ULL << 60, 1ULL << 63, ~0ULL,      ~7ULL };
	size_t at;

	switch (next_random() % 6) {
	case 0: /* anywhere */
		bytes[next_random() % *n] ^= (unsigned char)(1 << next_random() % 8);
		break;
	case 1: /* the first page */
		bytes[next_random() % (*n < 4096 ? *n : 4096)] = (unsigned char)next_random();
		break;
	case 2: /* a word of a section header */
		at = eh->e_shoff + next_random() % eh->e_shnum * sizeof(Elf64_Shdr) +
		     next_random() % 8 * 8;
		if (at + 8 <= *n)
			memcpy(bytes + at, &words[next_random() % 10], 8);
		break;
	case 3: /* a word of a program header */
		at = eh->e_phoff + next_random() % eh->e_phnum * sizeof(Elf64_Phdr) +
		     next_random() % 7 * 8;
		if (at + 8 <= *n)
			memcpy(bytes + at, &words[next_random() % 10], 8);
		break;
	case 4: /* the file header */
		at = next_random() % (sizeof(Elf64_Ehdr) - 8);
		memcpy(bytes + at, &words[next_random() % 10], 8);
		break;
	default: /* cut */
		if (!(next_random() % 8))
			*n = next_random() % *n;
	}
}

static void look_everywhere(struct module *m)
{
	struct cfi_rule rule;
	__u64 v, start;

	for (__u64 offset = 0; offset < 0x4000; offset += 37)
		module_vaddr(m, offset, &v);
	for (__u64 pc = 0; pc < 0x3000; pc += 13) {
		const char *name = module_symbol(m, pc, &start);

		if (name)
			assert_true(strlen(name) < 65536);
		cfi_rule_at(m, pc, &rule);
		assert_true(rule.state <= CFI_END);
	}
	module_symbol(m, ~0ULL, &start);
	cfi_rule_at(m, ~0ULL, &rule);
}

static void damaged_files_never_break_it(void **state)
{
	static unsigned char whole[1 << 20], bytes[1 << 20];
	const char *flags[] = { "-O1 -fno-omit-frame-pointer", "-O1 -shared -fPIC -s" };
	int rounds = getenv("RPROF_FULL") ? 100000 : 3000, opened = 0;
	struct timespec t0, t1;

	for (int f = 0; f < 2; f++) {
		int fd = open(compile("whole", "c", source, flags[f]), O_RDONLY);
		size_t n = (size_t)read(fd, whole, sizeof(whole));

		close(fd);
		for (int i = 0; i < rounds; i++) {
			struct module *m = NULL;
			size_t left = n;

			memcpy(bytes, whole, n);
			for (__u64 k = next_random() % 4 + 1; k-- && left > 4096;)
				damage(bytes, &left, (const Elf64_Ehdr *)whole);
			clock_gettime(CLOCK_MONOTONIC, &t0);
			if (open_bytes(bytes, left, &m))
				continue;
			opened++;
			look_everywhere(m);
			module_free(m);
			clock_gettime(CLOCK_MONOTONIC, &t1);
			/* No file of 20 kB takes seconds, under sanitizers either. */
			assert_true(t1.tv_sec - t0.tv_sec < 10);
		}
	}
	assert_true(opened > rounds / 4);
}

static void tables_beyond_the_budget_are_not_read(void **state)
{
	const char *path = compile("budget", "c", source, "-O2 -fno-omit-frame-pointer");
	struct module *m = open_module(path);
	__u64 budget = 1000, start, vaddr;
	struct cfi_rule rule;

	for (vaddr = 0; !module_symbol(m, vaddr, &start); vaddr++)
		assert_true(vaddr < 0x10000);
	module_free(m);

	m = open_module(path);
	assert_int_equal(module_load_within(m, NULL, &budget), -E2BIG);
	assert_true(module_is_loaded(m));
	assert_false(module_has_file(m));
	assert_int_equal(budget, 1000);
	assert_null(module_symbol(m, vaddr, &start));
	assert_int_equal(cfi_rule_at(m, vaddr, &rule), 0);
	assert_int_equal(rule.state, CFI_UNKNOWN);
	module_free(m);

	m = open_module(path);
	budget = 1 << 20;
	assert_int_equal(module_load_within(m, NULL, &budget), 0);
	assert_non_null(module_symbol(m, vaddr, &start));
	assert_true(budget < (1 << 20) - 1000);
	/* Once. */
	assert_int_equal(module_load_within(m, NULL, &(__u64){ 0 }), 0);
	assert_non_null(module_symbol(m, vaddr, &start));
	module_free(m);
}

/*
 * A debug build's: many symbols, in no order, and names. Made of a real one, whose sections are its
 * last. Return: bytes of both tables.
 */
static __u64 make_large(const char *path, __u32 n)
{
	const char *small = compile("small", "c", source, "-O1");
	enum { NAME = 24 };
	const __u64 at = 1 << 24;
	Elf64_Shdr sh[64];
	Elf64_Ehdr eh;
	FILE *f;
	int fd, k = 0;

	shell("cp '%s' '%s'", small, path);
	f = fopen(path, "r+");
	fd = fileno(f);
	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	assert_true(eh.e_shnum < 64);
	assert_true(pread(fd, sh, sizeof(sh[0]) * eh.e_shnum, (off_t)eh.e_shoff) > 0);
	while (sh[k].sh_type != SHT_SYMTAB)
		k++;
	sh[k].sh_offset = at;
	sh[k].sh_size = n * sizeof(Elf64_Sym);
	sh[sh[k].sh_link].sh_offset = at + sh[k].sh_size;
	sh[sh[k].sh_link].sh_size = (__u64)n * NAME;
	assert_true(pwrite(fd, sh, sizeof(sh[0]) * eh.e_shnum, (off_t)eh.e_shoff) > 0);
	fseek(f, (long)at, SEEK_SET);
	for (__u32 i = 0; i < n; i++) {
		Elf64_Sym sym = { .st_name = i * NAME,
				  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				  .st_shndx = 1,
				  .st_value = 0x100000 + 16ULL * (i * 2654435761u % n),
				  .st_size = 16 };

		fwrite(&sym, sizeof(sym), 1, f);
	}
	for (__u32 i = 0; i < n; i++)
		fprintf(f, "function_%014x%c", i, '\0');
	fclose(f);
	/* The rest of a gigabyte. */
	assert_int_equal(truncate(path, 1 << 30), 0);
	return n * (sizeof(Elf64_Sym) + NAME);
}

static long resident_kb(const char *what)
{
	char line[256];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, what, strlen(what)))
			kb = atol(line + strlen(what));
	}
	fclose(f);
	return kb;
}

/* In a process of its own: the peak counts from there, and not the sanitizer's of other tests. */
static void large_file_costs_no_more_than_twice_its_tables(void **state)
{
	const char *path = compile_path("large");
	const __u32 n = getenv("RPROF_FULL") ? 4000000 : 400000;
	const __u64 tables = make_large(path, n);
	struct module *m = open_module(path);
	int status = -1;
	pid_t pid;

	assert_true(module_table_size(m) >= tables);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		long before = resident_kb("VmRSS:"), peak;
		struct module_report r;
		__u64 start;

		shell("echo 5 >/proc/%d/clear_refs", getpid());
		if (module_load(m))
			_exit(1);
		peak = resident_kb("VmHWM:");
		module_report(m, &r);
		print_message("%u symbols: tables %llu KiB, peak %ld KiB, kept %llu KiB, %llu ms\n",
			      n, tables >> 10, peak - before, r.bytes >> 10, r.load_ns / 1000000);
		if (r.n_symbols != n || !module_symbol(m, 0x100000 + 16 * 777 + 3, &start) ||
		    start != 0x100000 + 16 * 777)
			_exit(2);
		_exit((__u64)(peak - before) << 10 <= 2 * tables ? 0 : 3);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	module_free(m);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions_are_those_of_nm_for_each_kind_of_file),
		cmocka_unit_test(dynsym_serves_a_stripped_library),
		cmocka_unit_test(functions_of_libc_are_those_of_dladdr),
		cmocka_unit_test(offsets_become_addresses_by_segment),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(file_may_be_closed_until_it_is_loaded),
		cmocka_unit_test(tables_beyond_the_budget_are_not_read),
		cmocka_unit_test(announced_sections_are_counted_first),
		cmocka_unit_test(large_file_costs_no_more_than_twice_its_tables),
		cmocka_unit_test(damaged_files_never_break_it),
	};

	return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}
