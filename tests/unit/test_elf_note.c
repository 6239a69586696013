// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "elf_note.h"

static unsigned char notes[1024];
static size_t n_notes;

static void add(__u32 type, const char *name, __u32 name_size, const void *desc, __u32 size,
		size_t align)
{
	const __u32 head[3] = { name_size, size, type };

	memcpy(notes + n_notes, head, sizeof(head));
	n_notes += sizeof(head);
	memcpy(notes + n_notes, name, name_size);
	n_notes = (n_notes + name_size + align - 1) & ~(align - 1);
	memcpy(notes + n_notes, desc, size);
	n_notes = (n_notes + size + align - 1) & ~(align - 1);
}

static void begin(void)
{
	memset(notes, 0, sizeof(notes));
	n_notes = 0;
}

static void build_id_is_found_among_other_notes(void **state)
{
	for (size_t align = 4; align <= 8; align += 4) {
		struct build_id id = { .len = 99 };

		begin();
		add(NT_GNU_ABI_TAG, "GNU", 4, "0123456789abcdef", 16, align);
		add(NT_GNU_BUILD_ID, "GNX", 4, "xxxx", 4, align);
		add(1, "stapsdt", 8, "12345", 5, align);
		add(NT_GNU_BUILD_ID, "GNU", 4, "abcdefghijklmnopqrst", 20, align);
		add(NT_GNU_BUILD_ID, "GNU", 4, "another", 7, align);
		assert_true(elf_note_build_id(notes, n_notes, align, &id));
		assert_int_equal(id.len, 20);
		assert_memory_equal(id.bytes, "abcdefghijklmnopqrst", 20);
		/* Without the padding behind the last one. */
		begin();
		add(NT_GNU_BUILD_ID, "GNU", 4, "abcde", 5, align);
		assert_true(elf_note_build_id(notes, 16 + 5, align, &id));
		assert_int_equal(id.len, 5);
	}
}

static void malformed_notes_give_none(void **state)
{
	struct build_id id = { .len = 0 };

	begin();
	add(NT_GNU_BUILD_ID, "GNU", 4, "abcdefghijklmnopqrst", 20, 4);
	/* In a buffer of its size: a byte too far is seen by the sanitizer. */
	for (size_t size = 0; size < n_notes; size++) {
		unsigned char *copy = malloc(size + !size);

		memcpy(copy, notes, size);
		assert_false(elf_note_build_id(copy, size, 4, &id));
		free(copy);
	}
	for (int word = 0; word < 2; word++) {
		static const __u32 sizes[] = { 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff };

		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			begin();
			add(NT_GNU_BUILD_ID, "GNU", 4, "abcdefghijklmnopqrst", 20, 4);
			memcpy(notes + 4 * word, &sizes[i], 4);
			assert_false(elf_note_build_id(notes, n_notes, 4, &id));
		}
	}
	begin();
	add(NT_GNU_BUILD_ID, "GNU", 4, "a", 1, 4);
	assert_false(elf_note_build_id(notes, n_notes, 4, &id));
	begin();
	add(NT_GNU_BUILD_ID, "GNU", 4, notes + 512, BUILD_ID_MAX + 1, 4);
	assert_false(elf_note_build_id(notes, n_notes, 4, &id));
	assert_int_equal(id.len, 0);
}

static void ids_are_equal_as_a_whole(void **state)
{
	struct build_id a = { "abcd", 4 }, b = { "abcd", 4 };

	assert_true(build_id_equal(&a, &b));
	b.len = 3;
	assert_false(build_id_equal(&a, &b));
	b = (struct build_id){ "abce", 4 };
	assert_false(build_id_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(build_id_is_found_among_other_notes),
		cmocka_unit_test(malformed_notes_give_none),
		cmocka_unit_test(ids_are_equal_as_a_whole),
	};

	return cmocka_run_group_tests_name("elf_note", tests, NULL, NULL);
}
