// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Over the test's own process and children of it: what spaces say must be what the kernel maps. */
#include <errno.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "compile.h"
#include "log.h"
#include "maps.h"
#include "module.h"
#include "modules.h"
#include "monotonic.h"
#include "spaces.h"
#include "spaces_of_a_test.h"

static struct module *module_of(const struct rprof_mapping *m)
{
	struct module *module;

	assert_int_equal(modules_get(m_all, m->module, &module), 0);
	return module;
}

static int vaddr_of(const struct space *sp, const struct rprof_mapping *m, const void *addr,
		    __u64 *vaddr)
{
	return modules_vaddr(m_all, m->module, space_file_offset(sp, m, (size_t)addr), vaddr);
}

static void assert_sorted(const struct space *sp)
{
	for (size_t i = 0; i < sp->n_mappings; i++) {
		assert_true(sp->mappings[i].start < sp->mappings[i].end);
		assert_true(sp->mappings[i].flags & (RPROF_MAPPING_EXEC | RPROF_MAPPING_STACK));
		if (i)
			assert_true(sp->mappings[i - 1].end <= sp->mappings[i].start);
	}
}

static int a_global = 1;

static void mappings_are_those_a_walker_asks_about(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp = read_self(s);
	const struct rprof_mapping *m;
	int local = 1;

	assert_sorted(sp);
	assert_int_equal(sp->tgid, getpid());
	assert_int_equal(sp->number, 1);
	m = mapping_at(sp, (void *)mappings_are_those_a_walker_asks_about);
	assert_int_equal(m->flags, RPROF_MAPPING_EXEC);
	assert_string_equal(modules_name(m_all, m->module), "test_spaces");
	m = mapping_at(sp, &a_global);
	assert_int_equal(m->flags, RPROF_MAPPING_STACK);
	m = mapping_at(sp, __builtin_frame_address(0));
	assert_int_equal(m->flags, RPROF_MAPPING_STACK | RPROF_MAPPING_GROWSDOWN);
	assert_true(local);
	/* Read-only data is neither. */
	assert_null(mapping_at(sp, "text"));
	assert_null(space_mapping(sp, 0));
	assert_null(space_mapping(sp, ~0ULL - 4096));
	free_spaces(s);
}

static void bias_turns_addresses_into_the_files_own(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp = read_self(s);
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	void *addr = dlsym(libc, "qsort");
	const struct rprof_mapping *m = mapping_at(sp, addr);
	struct link_map *map = NULL;
	__u64 vaddr, start;

	assert_int_equal(dlinfo(libc, RTLD_DI_LINKMAP, &map), 0);
	assert_int_equal(m->bias, map->l_addr);
	assert_int_equal(vaddr_of(sp, m, (char *)addr + 5, &vaddr), 0);
	assert_int_equal(vaddr, (size_t)addr + 5 - map->l_addr);
	assert_string_equal(module_symbol(module_of(m), vaddr, &start), "qsort");
	free_spaces(s);
}

static void vdso_is_a_module_of_its_own(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp = read_self(s);
	bool found = false;

	for (size_t i = 0; i < sp->n_mappings; i++) {
		const struct rprof_mapping *m = &sp->mappings[i];
		struct cfi_rule rule;
		__u64 vaddr, start;
		const char *name = NULL;

		if (strcmp(modules_name(m_all, m->module), "[vdso]") != 0)
			continue;
		assert_int_equal(m->flags, RPROF_MAPPING_EXEC | RPROF_MAPPING_VDSO);
		for (__u64 at = m->start; at < m->end && !name; at += 16) {
			assert_int_equal(vaddr_of(sp, m, (void *)(size_t)at, &vaddr), 0);
			name = module_symbol(module_of(m), vaddr, &start);
		}
		assert_non_null(name);
		assert_non_null(strstr(name, "vdso"));
		assert_int_equal(cfi_rule_at(module_of(m), vaddr, &rule), 0);
		assert_int_not_equal(rule.state, CFI_UNKNOWN);
		found = true;
	}
	if (!found)
		print_message("no vDSO here\n");
	free_spaces(s);
}

static void equal_reading_changes_nothing(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *first, *sp;
	const struct rprof_mapping *mappings;

	read_self(s); /* what the first reading allocates is itself a mapping */
	first = read_self(s);
	mappings = first->mappings;
	for (int i = 0; i < 100; i++) {
		sp = read_self(s);
		assert_ptr_equal(sp, first);
		assert_int_equal(sp->number, 1);
		assert_ptr_equal(sp->mappings, mappings);
	}
	assert_ptr_equal(spaces_newest(s, (__u32)getpid()), first);
	assert_ptr_equal(spaces_at(s, (__u32)getpid(), 0), first);
	assert_null(spaces_newest(s, 1));
	assert_null(spaces_at(s, 1, ~0ULL));
	free_spaces(s);
}

static const char source[] = "int alpha(int x) { return x + 1; }\n";
static const char other[] = "int omega(int x) { return x - 1; }\n";

/* Name of the function that space @sp has at @addr; NULL also beyond the segment, in its page. */
static const char *name_at(struct spaces *s, const struct space *sp, const void *addr)
{
	const struct rprof_mapping *m = mapping_at(sp, addr);
	__u64 vaddr, start;

	assert_non_null(m);
	if (vaddr_of(sp, m, addr, &vaddr))
		return NULL;
	return module_symbol(module_of(m), vaddr, &start);
}

static void added_library_extends_the_space_and_a_removed_one_ends_it(void **state)
{
	const char *path = compile("plugin.so", "c", source, "-shared -fPIC");
	struct spaces *s = new_spaces();
	const struct space *before = read_self(s), *with, *after;
	void *plugin = dlopen(path, RTLD_NOW), *alpha = dlsym(plugin, "alpha");
	__u64 now;

	assert_null(mapping_at(before, alpha));
	with = read_self(s);
	assert_ptr_equal(with, before);
	assert_int_equal(with->number, 1);
	assert_string_equal(name_at(s, with, alpha), "alpha");
	assert_int_equal(dlclose(plugin), 0);
	now = monotonic_ns();
	after = read_self(s);
	assert_int_equal(after->number, 2);
	assert_null(mapping_at(after, alpha));
	/* Samples taken before are of the old one. */
	assert_ptr_equal(spaces_at(s, (__u32)getpid(), now), with);
	assert_string_equal(name_at(s, with, alpha), "alpha");
	assert_ptr_equal(spaces_at(s, (__u32)getpid(), monotonic_ns()), after);
	free_spaces(s);
}

/* Rebuilt in place: same path, perhaps the same inode, same address. Its names are its own. */
static void rebuilt_library_at_the_same_address_does_not_lend_names(void **state)
{
	struct spaces *s = new_spaces();
	size_t size = 1 << 16;
	const char *path = compile("reload.so", "c", source, "-shared -fPIC");
	char *at = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct space *sp;
	char *text = at + 4096; /* where the linker puts it: second page, PT_LOAD with X */
	int fd = open(path, O_RDONLY);

	assert_true(mmap(text, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 4096) ==
		    text);
	close(fd);
	sp = read_self(s);
	assert_int_equal(sp->number, 1);
	for (int i = 0; i < 4; i++) {
		const char *want = i & 1 ? "alpha" : "omega";
		bool found = false;
		const char *name;

		assert_int_equal(munmap(text, 4096), 0);
		assert_int_equal(unlink(path), 0);
		path = compile("reload.so", "c", i & 1 ? source : other, "-shared -fPIC");
		fd = open(path, O_RDONLY);
		assert_true(mmap(text, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
				 4096) == text);
		close(fd);
		sp = read_self(s);
		assert_int_equal(sp->number, i + 2);
		for (int offset = 0; offset < 4096; offset++) {
			name = name_at(s, sp, text + offset);
			found |= name && !strcmp(name, want);
			assert_false(name && !strcmp(name, i & 1 ? "omega" : "alpha"));
		}
		assert_true(found);
	}
	munmap(at, size);
	free_spaces(s);
}

static void deleted_and_renamed_files_keep_space_and_name(void **state)
{
	const char *path = compile("gone.so", "c", source, "-shared -fPIC");
	struct spaces *s = new_spaces();
	void *plugin = dlopen(path, RTLD_NOW), *alpha = dlsym(plugin, "alpha");
	const struct space *sp = read_self(s);
	const char *moved = compile_path("moved.so");

	assert_int_equal(rename(path, moved), 0);
	sp = read_self(s);
	assert_int_equal(sp->number, 1);
	assert_int_equal(unlink(moved), 0);
	sp = read_self(s);
	assert_int_equal(sp->number, 1);
	assert_string_equal(modules_name(m_all, mapping_at(sp, alpha)->module), "gone.so");
	assert_string_equal(name_at(s, sp, alpha), "alpha");
	dlclose(plugin);
	free_spaces(s);
}

static void file_deleted_before_the_first_look_is_opened_all_the_same(void **state)
{
	const char *path = compile("unseen.so", "c", source, "-shared -fPIC");
	struct spaces *s = new_spaces();
	void *plugin = dlopen(path, RTLD_NOW), *alpha = dlsym(plugin, "alpha");
	const struct rprof_mapping *m;
	const struct space *sp;

	assert_int_equal(unlink(path), 0);
	sp = read_self(s);
	m = mapping_at(sp, alpha);
	assert_string_equal(modules_name(m_all, m->module), "unseen.so");
	/* Only map_files leads there, and that needs a capability. */
	if (module_of(m))
		assert_string_equal(name_at(s, sp, alpha), "alpha");
	else
		assert_int_not_equal(geteuid(), 0);
	dlclose(plugin);
	free_spaces(s);
}

static void code_without_a_file_comes_and_goes_without_a_new_number(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp;
	char *jit;
	int fd;

	sp = read_self(s);
	jit = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sp = read_self(s);
	assert_int_equal(mapping_at(sp, jit)->module, 0);
	assert_string_equal(modules_name(m_all, 0), "[anon]");
	assert_int_equal(mprotect(jit, 4096, PROT_READ | PROT_WRITE), 0);
	sp = read_self(s);
	assert_int_equal(sp->number, 1);
	assert_int_equal(mprotect(jit, 4096, PROT_READ | PROT_EXEC), 0);
	sp = read_self(s);
	assert_int_equal(sp->number, 1);
	/* But not if a file takes its place. */
	fd = open("/proc/self/exe", O_RDONLY);
	assert_true(mmap(jit, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == jit);
	close(fd);
	sp = read_self(s);
	assert_int_equal(sp->number, 2);
	munmap(jit, 65536);
	free_spaces(s);
}

static void exec_changes_the_number(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp = NULL;
	int go[2];
	pid_t pid;

	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) == 1)
			execlp("sleep", "sleep", "1000", NULL);
		_exit(1);
	}
	close(go[0]);
	assert_int_equal(read_maps(s, pid, &sp), 0);
	assert_int_equal(sp->number, 1);
	assert_int_equal(write(go[1], "x", 1), 1);
	close(go[1]);
	for (int i = 0; i < 500; i++) {
		usleep(10000);
		if (!read_maps(s, pid, &sp) && sp->number > 1)
			break;
	}
	/* Two readings may fall into the loading of its libraries, which only adds. */
	assert_int_equal(sp->number, 2);
	assert_null(mapping_at(sp, (void *)exec_changes_the_number));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(read_maps(s, pid, &sp), -ESRCH);
	/* What was known of it stays, until its end is told. */
	assert_int_equal(spaces_newest(s, (__u32)pid)->number, 2);
	spaces_end(s, (__u32)pid);
	assert_null(spaces_newest(s, (__u32)pid));
	assert_int_equal(spaces_n(s), 0);
	free_spaces(s);
}

static void processes_without_mappings_say_why(void **state)
{
	struct spaces *s = new_spaces();
	const struct space *sp = NULL;
	pid_t pid = fork();
	siginfo_t info;

	if (!pid)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_int_equal(read_maps(s, pid, &sp), -ENODATA); /* zombie */
	waitpid(pid, NULL, 0);
	assert_int_equal(read_maps(s, pid, &sp), -ESRCH);
	assert_int_equal(read_maps(s, 0x7fffffff, &sp), -ESRCH);
	assert_int_equal(read_maps(s, 0, &sp), -ESRCH);
	assert_null(sp);
	free_spaces(s);
}

static void more_mappings_than_fit_keep_code_and_stacks_first(void **state)
{
	enum { N = 2 * RPROF_MAX_MAPPINGS + 4000 };
	struct spaces *s;
	const struct space *sp;
	const struct rprof_mapping *m;
	size_t n_exec = 0;
	/* Pages of alternating rights are mappings of their own. */
	char *area = mmap(NULL, (size_t)N * 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(area != MAP_FAILED);
	for (size_t i = 0; i < N; i += 2) {
		if (mprotect(area + i * 4096, 4096, i % 64 ? PROT_READ : PROT_READ | PROT_EXEC))
			break;
	}
	s = new_spaces();
	sp = read_self(s);
	assert_int_equal(sp->n_mappings, RPROF_MAX_MAPPINGS);
	assert_sorted(sp);
	for (size_t i = 0; i < sp->n_mappings; i++)
		n_exec += !!(sp->mappings[i].flags & RPROF_MAPPING_EXEC);
	assert_true(n_exec > N / 64 - 2);
	m = mapping_at(sp, (void *)more_mappings_than_fit_keep_code_and_stacks_first);
	assert_true(m->flags & RPROF_MAPPING_EXEC);
	assert_non_null(mapping_at(sp, __builtin_frame_address(0)));
	munmap(area, (size_t)N * 4096);
	free_spaces(s);
}

static size_t n_open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Many files: descriptors are bounded, every file still gets its names, the time stays linear. */
static void thousand_files_are_read_with_few_descriptors(void **state)
{
	enum { N = 1000 };
	const char *path = compile("many.so", "c", source, "-shared -fPIC");
	struct rlimit limit, few;
	static char *text[N];
	struct spaces *s;
	const struct space *sp;
	size_t before = n_open_files();

	for (int i = 0; i < N; i++) {
		char copy[600];
		int fd;

		snprintf(copy, sizeof(copy), "%s.%d", path, i);
		if (!i)
			shell("cd '%s' && for i in $(seq 0 %d); do cp many.so many.so.$i; done",
			      compile_dir, N - 1);
		fd = open(copy, O_RDONLY);
		assert_true(fd >= 0);
		text[i] = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 4096);
		assert_true(text[i] != MAP_FAILED);
		close(fd);
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = 128;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	s = new_spaces();
	sp = read_self(s);
	assert_true(n_open_files() <= before + 64 + 1);
	for (int i = 0; i < N; i++) {
		bool found = false;

		for (int offset = 0; offset < 4096 && !found; offset += 4) {
			const char *name = name_at(s, sp, text[i] + offset);

			found = name && !strcmp(name, "alpha");
		}
		assert_true(found);
	}
	assert_true(n_open_files() <= before + 64 + 1);
	free_spaces(s);
	assert_int_equal(n_open_files(), before);
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int i = 0; i < N; i++)
		munmap(text[i], 4096);
}

static void special_files_are_not_opened_for_reading(void **state)
{
	struct spaces *s = new_spaces();
	int fd = open("/dev/zero", O_RDWR);
	char *zero = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	const struct rprof_mapping *m;
	const struct space *sp;

	close(fd);
	if (zero == MAP_FAILED) {
		print_message("/dev is mounted noexec here\n");
		free_spaces(s);
		skip();
	}
	sp = read_self(s);
	m = mapping_at(sp, zero);
	assert_non_null(m);
	assert_null(module_of(m));
	munmap(zero, 4096);
	free_spaces(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_are_those_a_walker_asks_about),
		cmocka_unit_test(bias_turns_addresses_into_the_files_own),
		cmocka_unit_test(vdso_is_a_module_of_its_own),
		cmocka_unit_test(equal_reading_changes_nothing),
		cmocka_unit_test(added_library_extends_the_space_and_a_removed_one_ends_it),
		cmocka_unit_test(rebuilt_library_at_the_same_address_does_not_lend_names),
		cmocka_unit_test(deleted_and_renamed_files_keep_space_and_name),
		cmocka_unit_test(file_deleted_before_the_first_look_is_opened_all_the_same),
		cmocka_unit_test(code_without_a_file_comes_and_goes_without_a_new_number),
		cmocka_unit_test(exec_changes_the_number),
		cmocka_unit_test(processes_without_mappings_say_why),
		cmocka_unit_test(more_mappings_than_fit_keep_code_and_stacks_first),
		cmocka_unit_test(thousand_files_are_read_with_few_descriptors),
		cmocka_unit_test(special_files_are_not_opened_for_reading),
	};

	log_set_level(LOG_WARN);
	return cmocka_run_group_tests_name("spaces", tests, NULL, NULL);
}
