// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "arch.h"
#include "compile.h"
#include "plt.h"

static const char source[] =
	"#include <math.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
	"void *table[] = { (void *)puts, (void *)atoi, (void *)free };\n"
	"int (*volatile kept)(const char *) = puts;\n"
	"int main(int c, char **v) { char b[99]; kept(v[0]); printf(\"%s%d\", v[0], atoi(v[0]));\n"
	"	free(malloc(c)); strcpy(b, v[c]); return puts(b) + (int)cos(c) + (puts == kept); }\n";

/* Opened, with its sections. */
static struct elf_symbols *load(const char *path)
{
	struct elf_symbols *s = NULL;
	struct elf_file f;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(elf_file_open(&f, fd, (__u64)st.st_size), 0);
	assert_int_equal(elf_file_read_sections(&f), 0);
	assert_int_equal(plt_load(&f, &s), 0);
	elf_file_fini(&f);
	close(fd);
	return s;
}

/* "ADDRESS <name@plt>:" is a stub; with "-0x10" behind it, what lies before one. */
static size_t compare_with_objdump(const char *path)
{
	struct elf_symbols *s = load(path);
	char command[1024], line[4096], name[4096];
	unsigned long long addr;
	size_t n = 0;
	__u64 start;
	FILE *f;

	snprintf(command, sizeof(command),
		 "LC_ALL=C objdump -d -j .plt -j .plt.sec -j .plt.got '%s' 2>/dev/null", path);
	f = popen(command, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const char *found;
		size_t len;

		if (sscanf(line, "%llx <%4095[^>]>:", &addr, name) != 2)
			continue;
		len = strlen(name);
		found = elf_symbols_find(s, addr, &start);
		if (len < 4 || strcmp(name + len - 4, "@plt") != 0) {
			assert_null(found);
			continue;
		}
		n++;
		assert_non_null(found);
		assert_string_equal(found, name);
		assert_int_equal(start, addr);
		assert_ptr_equal(elf_symbols_find(s, addr + 7, &start), found);
	}
	pclose(f);
	assert_int_equal(elf_symbols_count(s), n);
	elf_symbols_free(s);
	return n;
}

static void stubs_are_those_of_objdump(void **state)
{
	static const char *const builds[] = {
		"-O1 -pie -fPIE -lm",
		"-O1 -pie -fPIE -lm -s",
		"-O1 -no-pie -lm -Wl,-z,lazy",
		"-O1 -no-pie -lm -Wl,-z,now",
		"-O1 -shared -fPIC",
		"-O1 -pie -fPIE -lm -Wl,-z,noseparate-code",
#if defined(__x86_64__)
		"-O1 -pie -fPIE -lm -fcf-protection -Wl,-z,ibtplt",
		"-O1 -no-pie -lm -fcf-protection -Wl,-z,ibtplt -Wl,-z,now",
#endif
	};
	struct link_map *map = NULL;

	for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++)
		assert_true(compare_with_objdump(compile("built", "c", source, builds[i])) >= 4);
	assert_int_equal(dlinfo(dlopen("libc.so.6", RTLD_NOW), RTLD_DI_LINKMAP, &map), 0);
	assert_true(compare_with_objdump(tools_path(map->l_name)) > 3);
	if (!access(tools_path("/usr/bin/python3"), R_OK))
		compare_with_objdump(tools_path("/usr/bin/python3"));
}

/* A static program calls what is chosen at start through stubs, which have no symbol. */
static void static_programs_have_stubs_by_resolver(void **state)
{
	struct elf_symbols *s = load(compile("built", "c", source, "-O1 -static -lm"));

	for (__u64 vaddr = 0x400000; elf_symbols_count(s) && vaddr < 0x500000; vaddr += 8) {
		__u64 start;
		const char *name = elf_symbols_find(s, vaddr, &start);

		if (name)
			assert_int_equal(strncmp(name, "*ABS*+0x", 8), 0);
	}
	elf_symbols_free(s);
}

static void other_instructions_are_no_stub(void **state)
{
	unsigned char code[32] = { 0 };
	__u64 slot;

	for (size_t size = 0; size <= sizeof(code); size++)
		assert_false(arch_plt_slot(code, size, 0x1000, &slot));
#if defined(__x86_64__)
	memcpy(code, "\xf3\x0f\x1e\xfa\xf2\xff\x25\xfc\xff\xff\xff", 11);
	assert_true(arch_plt_slot(code, 11, 0x1000, &slot));
	assert_int_equal(slot, 0x1007);
	/* Cut short, at any byte. */
	for (size_t size = 0; size < 11; size++)
		assert_false(arch_plt_slot(code, size, 0x1000, &slot));
	memcpy(code, "\xff\x35\x10\x00\x00\x00", 6);
	assert_false(arch_plt_slot(code, 16, 0x1000, &slot));
#endif
}

/* A relocation names the stub, nothing else does: without it there is no name. */
static void stub_without_relocation_has_no_name(void **state)
{
	const char *path = compile("built", "c", source, "-O1 -shared -fPIC");
	const char *cut = compile_path("cut");
	struct elf_symbols *s;

	shell("objcopy --remove-section .rela.plt --remove-section .rela.dyn '%s' '%s' 2>/dev/null",
	      path, cut);
	s = load(cut);
	assert_int_equal(elf_symbols_count(s), 0);
	elf_symbols_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs_are_those_of_objdump),
		cmocka_unit_test(static_programs_have_stubs_by_resolver),
		cmocka_unit_test(other_instructions_are_no_stub),
		cmocka_unit_test(stub_without_relocation_has_no_name),
	};

	return cmocka_run_group_tests_name("plt", tests, NULL, NULL);
}
