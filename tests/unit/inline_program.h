/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Programs with inlined calls, for the tests of their names. All abort on failure. */
#ifndef RPROF_TESTS_INLINE_PROGRAM_H
#define RPROF_TESTS_INLINE_PROGRAM_H

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "compile.h"

/* Every function named by a mangled name, as the oracle wants it (see test_inline_dwarf.c). */
static const char inline_source_cxx[] =
	"#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
	"namespace space { struct item { int v; std::string s;\n"
	"	bool operator<(const item &o) const { return v < o.v || (v == o.v && s < o.s); } };\n"
	"	int sum(const std::map<std::string, item> &m) { int n = 0;\n"
	"		for (auto &p : m) n += p.second.v; return n; } }\n"
	"inline void fill(std::vector<space::item> &v, int n) {\n"
	"	for (int i = 0; i < n; i++) v.push_back({ i * 7919 % 101, std::to_string(i) }); }\n"
	"int main(int argc, char **) { std::vector<space::item> v;\n"
	"	std::map<std::string, space::item> m; fill(v, argc * 100);\n"
	"	std::sort(v.begin(), v.end()); std::reverse(v.begin(), v.end());\n"
	"	for (auto &i : v) m[i.s] = i; return space::sum(m); }\n";

static const char inline_source_c[] =
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) void leaf(int x) { sink += x * 3; sink ^= x; }\n"
	"static inline __attribute__((always_inline)) void middle(int x)\n"
	"{ if (sink > x) leaf(x); else leaf(x + sink); }\n"
	"static inline __attribute__((always_inline)) void outer(int x) { middle(x); middle(sink); }\n"
	"__attribute__((noinline)) void real(int x) { for (int i = 0; i < x; i++) outer(i); }\n"
	"static __attribute__((noinline)) int plain(int x) { sink = x; return sink * x; }\n"
	"int main(int argc, char **argv) { real(argc); leaf(argc); return plain(argc); }\n";

/* A file in memory, as the reader has it. */
struct inline_image {
	void *bytes;
	size_t size;
};

static __attribute__((unused)) struct inline_image map_image(const char *path)
{
	struct inline_image image;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		abort();
	image.size = (size_t)st.st_size;
	image.bytes = mmap(NULL, image.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (image.bytes == MAP_FAILED)
		abort();
	close(fd);
	return image;
}

/* Header of a section, and where the header lies in the file. */
static __attribute__((unused)) GElf_Shdr find_section(const char *path, const char *name)
{
	struct inline_image image = map_image(path);
	GElf_Shdr header, found = { 0 };
	Elf_Scn *scn = NULL;
	size_t names;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory(image.bytes, image.size);
	if (!elf || elf_getshdrstrndx(elf, &names))
		abort();
	while ((scn = elf_nextscn(elf, scn))) {
		if (gelf_getshdr(scn, &header) &&
		    !strcmp(elf_strptr(elf, names, header.sh_name), name))
			found = header;
	}
	elf_end(elf);
	munmap(image.bytes, image.size);
	if (!found.sh_size)
		abort();
	return found;
}

static __attribute__((unused)) void overwrite(const char *path, long at, const void *bytes,
					      size_t size)
{
	FILE *f = fopen(path, "r+e");

	if (!f || fseek(f, at, SEEK_SET) || fwrite(bytes, 1, size, f) != size || fclose(f))
		abort();
}

#endif
