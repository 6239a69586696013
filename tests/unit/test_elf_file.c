// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include <cmocka.h>

#include "arch.h"
#include "elf_file.h"

/* Section 1 .packed, compressed or not, 2 .shstrtab. */
struct image {
	Elf64_Ehdr eh;
	Elf64_Shdr sh[3];
	char names[32];
	Elf64_Chdr ch;
	unsigned char data[1024];
};

static struct image im;

static void begin_image(void)
{
	memset(&im, 0, sizeof(im));
	memcpy(im.eh.e_ident, ELFMAG, SELFMAG);
	im.eh.e_ident[EI_CLASS] = ELFCLASS64;
	im.eh.e_ident[EI_DATA] = ARCH_ELF_DATA;
	im.eh.e_type = ET_DYN;
	im.eh.e_machine = ARCH_ELF_MACHINE;
	im.eh.e_shoff = offsetof(struct image, sh);
	im.eh.e_shentsize = sizeof(im.sh[0]);
	im.eh.e_shnum = 3;
	im.eh.e_shstrndx = 2;
	memcpy(im.names, "\0.packed\0.shstrtab", 19);
	im.sh[1] = (Elf64_Shdr){ .sh_name = 1,
				 .sh_type = SHT_PROGBITS,
				 .sh_offset = offsetof(struct image, ch) };
	im.sh[2] = (Elf64_Shdr){ .sh_name = 9,
				 .sh_type = SHT_STRTAB,
				 .sh_offset = offsetof(struct image, names),
				 .sh_size = 19 };
}

static void compress_image(__u32 type, const void *text, size_t size)
{
	uLongf n = sizeof(im.data);

	begin_image();
	if (type == ELFCOMPRESS_ZLIB)
		assert_int_equal(compress(im.data, &n, text, size), Z_OK);
	else
		n = ZSTD_compress(im.data, sizeof(im.data), text, size, 3);
	assert_true(n < sizeof(im.data));
	im.ch = (Elf64_Chdr){ .ch_type = type, .ch_size = size, .ch_addralign = 1 };
	im.sh[1].sh_flags = SHF_COMPRESSED;
	im.sh[1].sh_size = sizeof(im.ch) + n;
}

static int load(__u64 max, void **data, size_t *size)
{
	const Elf64_Shdr *sh;
	struct elf_file f;
	int err = elf_file_open_bytes(&f, &im, sizeof(im));

	*data = NULL;
	assert_int_equal(err, 0);
	assert_int_equal(elf_file_read_sections(&f), 0);
	sh = elf_file_named(&f, ".packed");
	err = sh ? elf_file_load(&f, sh, max, data, size) : -ENOENT;
	elf_file_fini(&f);
	return err;
}

static void compressed_sections_are_read_as_if_they_were_not(void **state)
{
	static const __u32 types[] = { ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD };
	static char text[100000];

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 2; i++) {
		void *data;
		size_t size;

		compress_image(types[i], text, sizeof(text));
		assert_int_equal(load(sizeof(text), &data, &size), 0);
		assert_int_equal(size, sizeof(text));
		assert_memory_equal(data, text, size);
		assert_int_equal(((char *)data)[size], 0);
		free(data);
		assert_int_equal(load(sizeof(text) - 1, &data, &size), -E2BIG);
		/* Announced is more, or less, than there is. */
		im.ch.ch_size = sizeof(text) + 1;
		assert_int_equal(load(1 << 20, &data, &size), -EINVAL);
		im.ch.ch_size = sizeof(text) - 1;
		assert_int_equal(load(1 << 20, &data, &size), -EINVAL);
		im.ch.ch_size = ~0ULL;
		assert_int_equal(load(1 << 20, &data, &size), -E2BIG);
		assert_int_equal(load(~0ULL, &data, &size), -E2BIG);
		/* No compressor is that good. */
		im.ch.ch_size = 1 << 30;
		if (types[i] == ELFCOMPRESS_ZLIB)
			assert_int_equal(load(~0ULL, &data, &size), -EINVAL);
		im.ch.ch_size = sizeof(text);
		im.sh[1].sh_size -= 5;
		assert_int_equal(load(1 << 20, &data, &size), -EINVAL);
		im.sh[1].sh_size = sizeof(im.ch) - 1;
		assert_int_equal(load(1 << 20, &data, &size), -EINVAL);
		im.ch.ch_type = 77;
		im.sh[1].sh_size = 100;
		assert_int_equal(load(1 << 20, &data, &size), -ENOTSUP);
	}
}

static void sections_outside_of_the_file_are_not_there(void **state)
{
	static const __u64 sizes[] = { sizeof(im), ~0ULL, 1ULL << 63, 0 };
	void *data;
	size_t size;

	begin_image();
	im.sh[1].sh_size = 8;
	assert_int_equal(load(100, &data, &size), 0);
	free(data);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		im.sh[1].sh_size = sizes[i];
		assert_int_equal(load(~0ULL, &data, &size), -ENOENT);
	}
	im.sh[1].sh_size = 8;
	im.sh[1].sh_offset = ~0ULL - 3;
	assert_int_equal(load(100, &data, &size), -ENOENT);
	begin_image();
	im.sh[1].sh_size = 8;
	im.sh[1].sh_name = 0xffffffff;
	assert_int_equal(load(100, &data, &size), -ENOENT);
	/* The table of names is the named section, or has no end. */
	begin_image();
	im.sh[1].sh_size = 8;
	im.sh[2].sh_size = 7;
	assert_int_equal(load(100, &data, &size), -ENOENT);
}

static void tables_that_are_announced_are_within_the_file(void **state)
{
	struct elf_file f;

	begin_image();
	im.eh.e_shnum = 0;
	im.sh[0].sh_size = 1ULL << 40;
	assert_int_equal(elf_file_open_bytes(&f, &im, sizeof(im)), 0);
	assert_int_equal(elf_file_read_sections(&f), -EINVAL);
	elf_file_fini(&f);
	begin_image();
	im.eh.e_shnum = 10000;
	assert_int_equal(elf_file_open_bytes(&f, &im, sizeof(im)), 0);
	assert_int_equal(elf_file_read_sections(&f), -EINVAL);
	elf_file_fini(&f);
	begin_image();
	im.eh.e_phnum = 1000;
	im.eh.e_phentsize = sizeof(Elf64_Phdr);
	im.eh.e_phoff = 64;
	assert_int_equal(elf_file_open_bytes(&f, &im, sizeof(im)), -EINVAL);
	for (size_t size = 0; size < sizeof(im.eh); size++)
		assert_int_equal(elf_file_open_bytes(&f, &im, size), -EINVAL);
	/* More than 16 bits can say, the number where it belongs then. */
	begin_image();
	im.sh[1].sh_size = 8;
	im.eh.e_shnum = 0;
	im.eh.e_shstrndx = SHN_XINDEX;
	im.sh[0].sh_size = 3;
	im.sh[0].sh_link = 2;
	assert_int_equal(elf_file_open_bytes(&f, &im, sizeof(im)), 0);
	assert_int_equal(elf_file_read_sections(&f), 0);
	assert_non_null(elf_file_named(&f, ".packed"));
	elf_file_fini(&f);
}

static void moved_files_are_moved_by_one_constant(void **state)
{
	Elf64_Phdr a[3] = { { .p_type = PT_LOAD, .p_vaddr = 0x1000, .p_memsz = 0x100 },
			    { .p_type = PT_NOTE },
			    { .p_type = PT_LOAD, .p_vaddr = 0x3000, .p_memsz = 0x200 } };
	Elf64_Phdr b[2] = { a[0], a[2] };
	const struct elf_file own = { .fd = -1, .phdrs = a, .n_phdrs = 3 };
	struct elf_file debug = { .fd = -1, .phdrs = b, .n_phdrs = 2 };
	__u64 bias = 1;

	assert_true(elf_file_bias(&own, &debug, &bias));
	assert_int_equal(bias, 0);
	b[0].p_vaddr += 0x7000;
	assert_false(elf_file_bias(&own, &debug, &bias));
	b[1].p_vaddr += 0x7000;
	assert_true(elf_file_bias(&own, &debug, &bias));
	assert_int_equal(bias, -0x7000ULL);
	b[1].p_memsz++;
	assert_false(elf_file_bias(&own, &debug, &bias));
	debug.n_phdrs = 1;
	assert_false(elf_file_bias(&own, &debug, &bias));
	debug.n_phdrs = 0;
	assert_false(elf_file_bias(&own, &debug, &bias));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(compressed_sections_are_read_as_if_they_were_not),
		cmocka_unit_test(sections_outside_of_the_file_are_not_there),
		cmocka_unit_test(tables_that_are_announced_are_within_the_file),
		cmocka_unit_test(moved_files_are_moved_by_one_constant),
	};

	return cmocka_run_group_tests_name("elf_file", tests, NULL, NULL);
}
