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
	assert_int_equal(elf_dynamic_open(&d, &(struct elf_image){ .file = &f }), 0);
	for (int i = 0; i < 1000; i++) {
		int value = 0;

		snprintf(name, sizeof(name), "symbol_%d", i);
		assert_true(elf_dynamic_find(&d, name, &sym));
		assert_true(elf_image_read(&d.image, sym.st_value, &value, sizeof(value)));
		assert_int_equal(value, i + 1);
		snprintf(name, sizeof(name), "symbol_%d_", i);
		assert_false(elf_dynamic_find(&d, name, &sym));
	}
	elf_file_fini(&f);
	close(fd);
}

static void a_cookie_is_found_where_runtimes_lie(void **state)
{
	const struct python_memory m = python_memory_of((__u32)getpid());
	const size_t size = 1 << 20;
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const __u64 start = (__u64)(size_t)at;

	assert_true(at != MAP_FAILED);
	/* A string, not a runtime. */
	memcpy(at + 72, "xdebugpy", 8);
	assert_true(!python_find_cookie(&m, start, start + size));
	memcpy(at + 700000 / 32 * 32, "xdebugpy", 8);
	assert_true(python_find_cookie(&m, start, start + size) == start + 700000 / 32 * 32);
	/* What is not mapped is passed over. */
	assert_int_equal(munmap(at, 65536), 0);
	assert_true(python_find_cookie(&m, start, start + size) == start + 700000 / 32 * 32);
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
		cmocka_unit_test(a_cookie_is_found_where_runtimes_lie),
		cmocka_unit_test(versions_read_as_people_write_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
