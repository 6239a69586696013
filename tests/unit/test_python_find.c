// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch.h"
#include "compile.h"
#include "elf_dynamic.h"
#include "elf_file.h"
#include "python_find.h"

/* A runtime, in its section, and the type of code objects. */
#define RUNTIME                                                                                    \
	"long _PyRuntime[64] __attribute__((section(\".PyRuntime\"))) = { 1 };\n"                  \
	"long PyCode_Type = 1;\n"
#define OTHERS "int PyIter_Send, Py_GenericAliasType, PyEval_EvalFrameEx;\n"
#define VERSION(hex) "const unsigned long Py_Version = " #hex ";\n"

static const char *library(const char *source, const char *flags)
{
	static unsigned int count;
	char name[32], all[512];

	snprintf(name, sizeof(name), "lib%u.so", count++);
	snprintf(all, sizeof(all), "-shared -fPIC -s -Wl,--hash-style=gnu %s", flags);
	return compile(name, "c", source, all);
}

static struct python_file find_in(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct python_file found;
	struct elf_file f;
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(elf_file_open(&f, fd, (__u64)st.st_size), 0);
	python_find_file(&f, &found);
	elf_file_fini(&f);
	close(fd);
	return found;
}

static struct python_file find(const char *source)
{
	return find_in(library(source, ""));
}

static __u64 bias_of(void *handle)
{
	struct link_map *map;

	assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
	return map->l_addr;
}

static void a_runtime_is_found_where_the_linker_put_it(void **state)
{
	const char *path = library(RUNTIME OTHERS VERSION(0x030d01f0), "");
	struct python_file found = find_in(path);
	void *handle = dlopen(path, RTLD_NOW);

	assert_non_null(handle);
	assert_int_equal(found.kind, PYTHON_CPYTHON);
	assert_int_equal(found.build.version, 0x030d01f0);
	assert_true(found.runtime + bias_of(handle) == (__u64)(size_t)dlsym(handle, "_PyRuntime"));
	assert_true(found.code_type + bias_of(handle) ==
		    (__u64)(size_t)dlsym(handle, "PyCode_Type"));
	assert_false(found.build.debug || found.build.free_threaded || found.build.trace_refs ||
		     found.has_jit || found.asyncio);
	dlclose(handle);
}

static void it_is_found_in_memory_too(void **state)
{
	const char *path = library(RUNTIME OTHERS VERSION(0x030b02f0), "");
	struct python_file file = find_in(path), found;
	void *handle = dlopen(path, RTLD_NOW);
	const struct python_memory m = python_memory_of((__u32)getpid());
	__u64 bias = 0;

	assert_non_null(handle);
	assert_int_equal(python_find_memory(&m, bias_of(handle), &found, &bias), 0);
	assert_true(bias == bias_of(handle));
	assert_true(found.runtime == file.runtime && found.code_type == file.code_type);
	assert_int_equal(found.build.version, 0x030b02f0);
	assert_int_equal(python_find_memory(&m, bias + 8, &found, &bias), -EINVAL);
	assert_int_equal(python_find_memory(&m, 4096, &found, &bias), -EINVAL);
	dlclose(handle);
}

static void exports_tell_versions_that_do_not_say(void **state)
{
	assert_int_equal(find(RUNTIME "int PyIter_Send, Py_GenericAliasType;").build.version,
			 0x030a0000);
	assert_int_equal(find(RUNTIME "int Py_GenericAliasType;").build.version, 0x03090000);
	assert_int_equal(find(RUNTIME "int Py_GenericAliasType;").kind, PYTHON_CPYTHON);
	assert_int_equal(find(RUNTIME).kind, PYTHON_OLD);
	assert_int_equal(find("int PyEval_EvalFrameEx;").kind, PYTHON_OLD);
	assert_int_equal(find("int PyEval_EvalFrameEx, PyString_Type;").kind, PYTHON_2);
	/* More than 32 bits are no version. */
	assert_int_equal(find(RUNTIME VERSION(0x1030d01f0)).build.version, 0);
}

static void other_implementations_are_told_apart(void **state)
{
	assert_int_equal(find(RUNTIME OTHERS "const char *PyPy_Version;").kind, PYTHON_PYPY);
	assert_int_equal(find("int pypy_main_startup;").kind, PYTHON_PYPY);
	assert_int_equal(find(OTHERS "int initialize_graal_capi;").kind, PYTHON_GRAALPY);
	assert_int_equal(find("int PyInit_module;").kind, PYTHON_NONE);
	/* An extension module refers to all of it. */
	assert_int_equal(find("extern int _PyRuntime, PyEval_EvalFrameEx;\n"
			      "int f(void) { return _PyRuntime + PyEval_EvalFrameEx; }")
				 .kind,
			 PYTHON_NONE);
}

static void kinds_of_build_are_told(void **state)
{
	struct python_file found = find(RUNTIME VERSION(
		0x030d00f0) "int _Py_MergeZeroLocalRefcount, _Py_NegativeRefcount,\n"
			    "_Py_ForgetReference;");

	assert_true(found.build.free_threaded && found.build.debug);
	assert_false(found.build.trace_refs);
	found = find(RUNTIME VERSION(0x030c00f0) "int _Py_ForgetReference;");
	assert_true(found.build.trace_refs && !found.build.debug);
	assert_true(find(RUNTIME VERSION(0x030f00f0) "int _PyJIT_Entry;").has_jit);
}

static void sections_are_enough_where_nothing_is_exported(void **state)
{
	const char *path = library(RUNTIME, "-fvisibility=hidden");
	struct python_file found = find_in(path);

	assert_int_equal(found.kind, PYTHON_CPYTHON);
	assert_true(found.runtime && !found.code_type && !found.build.version && !found.exports);
	/* Also where others are exported. */
	found = find("static " RUNTIME VERSION(0x030f00f0) OTHERS
		     "long *f(void) { return _PyRuntime; }");
	assert_int_equal(found.kind, PYTHON_CPYTHON);
	assert_true(found.runtime && found.code_type && found.exports);
	assert_int_equal(found.build.version, 0x030f00f0);
	assert_true(find("int x __attribute__((section(\".AsyncioDebug\"))) = 1;").asyncio);
}

/* Some packers take the section headers away. */
static void section_headers_are_not_needed(void **state)
{
	const char *path = library(RUNTIME VERSION(0x030e00f0), "");
	struct python_file before = find_in(path), after;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	Elf64_Ehdr eh;

	assert_int_equal(pread(fd, &eh, sizeof(eh), 0), sizeof(eh));
	eh.e_shoff = 0;
	eh.e_shnum = 0;
	assert_int_equal(pwrite(fd, &eh, sizeof(eh), 0), sizeof(eh));
	close(fd);
	after = find_in(path);
	assert_memory_equal(&before, &after, sizeof(after));
}

/* Every name of a library with many is found, and no other. */
static void all_of_a_thousand_symbols_are_found(void **state)
{
	char *source = NULL, name[32];
	struct elf_image image;
	struct elf_dynamic d;
	struct elf_file f;
	struct stat st;
	size_t size;
	FILE *text = open_memstream(&source, &size);
	Elf64_Sym sym;
	int fd;

	for (int i = 0; i < 1000; i++)
		fprintf(text, "int symbol_%d = %d;\n", i, i + 1);
	fclose(text);
	fd = open(library(source, ""), O_RDONLY | O_CLOEXEC);
	free(source);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(elf_file_open(&f, fd, (__u64)st.st_size), 0);
	elf_image_init(&image, &f, NULL, 0);
	for (int i = 0; i < 1000; i++) {
		int value = 0;

		/* One is not for so many. */
		assert_int_equal(elf_dynamic_open(&d, &image), 0);
		snprintf(name, sizeof(name), "symbol_%d", i);
		assert_true(elf_dynamic_find(&d, name, &sym));
		assert_true(elf_image_read(&image, sym.st_value, &value, sizeof(value)));
		assert_int_equal(value, i + 1);
		snprintf(name, sizeof(name), "symbol_%d_", i);
		assert_false(elf_dynamic_find(&d, name, &sym));
	}
	elf_file_fini(&f);
	close(fd);
}

/* A file in which every name's chain holds symbols of the same hash, and each is another name. */
#define CHAIN 1024

struct hostile {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Dyn dynamic[5];
	__u32 head[4], buckets[1], chain[CHAIN];
	Elf64_Sym symbols[CHAIN + 1];
	char strings[128];
};

#define HOSTILE_AT 0x10000u

struct reads {
	const struct hostile *of;
	unsigned int n;
};

static size_t read_hostile(void *ctx, const struct python_range *ranges, size_t n)
{
	struct reads *r = ctx;

	r->n++;
	for (size_t i = 0; i < n; i++) {
		const __u64 at = ranges[i].addr - HOSTILE_AT;

		if (at >= sizeof(*r->of) || ranges[i].len > sizeof(*r->of) - at)
			return i;
		memcpy(ranges[i].to, (const char *)r->of + at, ranges[i].len);
	}
	return n;
}

static __u32 gnu_hash(const char *name)
{
	__u32 h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static struct hostile *make_hostile(const char *name)
{
	struct hostile *h = calloc(1, sizeof(*h));
	const size_t size = sizeof(*h);

	assert_non_null(h);
	memcpy(h->eh.e_ident, ELFMAG, SELFMAG);
	h->eh.e_ident[EI_CLASS] = ELFCLASS64;
	h->eh.e_ident[EI_DATA] = ARCH_ELF_DATA;
	h->eh.e_ident[EI_VERSION] = h->eh.e_version = EV_CURRENT;
	h->eh.e_type = ET_DYN;
	h->eh.e_machine = ARCH_ELF_MACHINE;
	h->eh.e_phoff = offsetof(struct hostile, ph);
	h->eh.e_ehsize = sizeof(h->eh);
	h->eh.e_phentsize = sizeof(h->ph[0]);
	h->eh.e_phnum = 2;
	h->ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_filesz = size, .p_memsz = size };
	h->ph[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
				 .p_vaddr = offsetof(struct hostile, dynamic),
				 .p_memsz = sizeof(h->dynamic) };
	h->dynamic[0] = (Elf64_Dyn){ DT_GNU_HASH, { offsetof(struct hostile, head) } };
	h->dynamic[1] = (Elf64_Dyn){ DT_SYMTAB, { offsetof(struct hostile, symbols) } };
	h->dynamic[2] = (Elf64_Dyn){ DT_STRTAB, { offsetof(struct hostile, strings) } };
	h->dynamic[3] = (Elf64_Dyn){ DT_STRSZ, { sizeof(h->strings) } };
	h->head[0] = h->head[1] = h->buckets[0] = 1;
	for (size_t i = 0; i < CHAIN; i++) {
		h->chain[i] = gnu_hash(name) & ~1u;
		h->symbols[i + 1] = (Elf64_Sym){ .st_name = 1, .st_shndx = 1, .st_value = 4096 };
	}
	snprintf(h->strings + 64, sizeof(h->strings) - 64, "%s", name);
	return h;
}

static void what_makes_us_read_too_much_has_no_names(void **state)
{
	struct hostile *h = make_hostile("_PyRuntime");
	struct reads reads = { .of = h };
	const struct python_memory m = { &reads, read_hostile };
	struct python_file found;
	__u64 bias;

	/* Where linkers would put it, it is found, */
	h->symbols[3].st_name = 64;
	assert_int_equal(python_find_memory(&m, HOSTILE_AT, &found, &bias), 0);
	assert_int_equal(found.kind, PYTHON_OLD);
	assert_true(found.runtime == 4096);
	/* and where none does it is not. */
	h->symbols[3].st_name = 1;
	h->symbols[CHAIN].st_name = 64;
	reads.n = 0;
	assert_int_equal(python_find_memory(&m, HOSTILE_AT, &found, &bias), 0);
	assert_int_equal(found.kind, PYTHON_NONE);
	assert_true(reads.n < CHAIN);
	free(h);
}

/* However many names are asked for. */
static void the_reads_of_one_file_have_an_end(void **state)
{
	struct hostile *h = make_hostile("_PyRuntime");
	struct reads reads = { .of = h };
	const struct python_memory m = { &reads, read_hostile };
	struct elf_image image;
	struct elf_dynamic d;
	struct elf_file f;
	Elf64_Sym sym;

	assert_int_equal(elf_file_open_bytes(&f, h, sizeof(*h)), 0);
	elf_image_init(&image, &f, &m, HOSTILE_AT);
	assert_int_equal(elf_dynamic_open(&d, &image), 0);
	for (int i = 0; i < 1000; i++)
		assert_false(elf_dynamic_find(&d, "_PyRuntime", &sym));
	assert_true(reads.n > 64 && reads.n < 4096);
	/* It counts for what is there, too. */
	h->symbols[1].st_name = 64;
	assert_false(elf_dynamic_find(&d, "_PyRuntime", &sym));
	assert_int_equal(elf_dynamic_open(&d, &image), 0);
	assert_true(elf_dynamic_find(&d, "_PyRuntime", &sym));
	elf_file_fini(&f);
	free(h);
}

static void a_cookie_is_found_where_runtimes_lie(void **state)
{
	const struct python_memory m = python_memory_of((__u32)getpid());
	const size_t size = 1 << 20;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const __u64 start = (__u64)(size_t)at;
	__u64 left = 3 * size + 4096;

	assert_true(at != MAP_FAILED);
	/* A string, not a runtime. */
	memcpy(at + 72, "xdebugpy", 8);
	assert_true(!python_find_cookie(&m, start, start + size, &left));
	assert_true(left == 2 * size + 4096);
	memcpy(at + 700000 / 32 * 32, "xdebugpy", 8);
	assert_true(python_find_cookie(&m, start, start + size, &left) == start + 700000 / 32 * 32);
	/* What is not mapped is passed over. */
	assert_int_equal(munmap(at, 65536), 0);
	assert_true(python_find_cookie(&m, start, start + size, &left) == start + 700000 / 32 * 32);
	/* Nor more than may be. */
	assert_true(left == 4096);
	assert_true(!python_find_cookie(&m, start, start + size, &left) && !left);
	munmap(at + 65536, size - 65536);
}

static void versions_read_as_people_write_them(void **state)
{
	char text[64];

	python_version_text(PYTHON_CPYTHON, 0x030f02f0, text, sizeof(text));
	assert_string_equal(text, "Python 3.15.2");
	python_version_text(PYTHON_CPYTHON, 0x030d00c2, text, sizeof(text));
	assert_string_equal(text, "Python 3.13.0rc2");
	python_version_text(PYTHON_CPYTHON, 0x030a0000, text, sizeof(text));
	assert_string_equal(text, "Python 3.10");
	python_version_text(PYTHON_CPYTHON, 0x030d00f0, text, sizeof(text));
	assert_string_equal(text, "Python 3.13.0");
	python_version_text(PYTHON_PYPY, 0, text, sizeof(text));
	assert_string_equal(text, "PyPy");
	python_version_text(PYTHON_CPYTHON, 0x030d00f0, text, 9);
	assert_int_equal(strlen(text), 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_runtime_is_found_where_the_linker_put_it),
		cmocka_unit_test(it_is_found_in_memory_too),
		cmocka_unit_test(exports_tell_versions_that_do_not_say),
		cmocka_unit_test(other_implementations_are_told_apart),
		cmocka_unit_test(kinds_of_build_are_told),
		cmocka_unit_test(sections_are_enough_where_nothing_is_exported),
		cmocka_unit_test(section_headers_are_not_needed),
		cmocka_unit_test(all_of_a_thousand_symbols_are_found),
		cmocka_unit_test(what_makes_us_read_too_much_has_no_names),
		cmocka_unit_test(the_reads_of_one_file_have_an_end),
		cmocka_unit_test(a_cookie_is_found_where_runtimes_lie),
		cmocka_unit_test(versions_read_as_people_write_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
