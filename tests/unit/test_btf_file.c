// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Against libbpf's reader, over this kernel's own BTF; and what is cut or made up. */
#include <bpf/btf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "btf_file.h"

#define VMLINUX "/sys/kernel/btf/vmlinux"

/* Every named member of every struct that has one name in the kernel. */
static void members_are_where_libbpf_has_them(void **state)
{
	static const char *const structs[] = { "task_struct", "signal_struct", "pid",
					       "upid",	      "mm_struct",     "file",
					       "inode",	      "sk_buff",       "page" };
	struct btf *btf = btf__load_vmlinux_btf();
	struct btf_file f;
	size_t n = 0;

	if (!btf || btf_file_open(&f, VMLINUX)) {
		print_message("no BTF of the kernel here\n");
		skip();
	}
	assert_int_equal(f.n_types, btf__type_cnt(btf));
	for (size_t i = 0; i < sizeof(structs) / sizeof(structs[0]); i++) {
		int id = btf__find_by_name_kind(btf, structs[i], BTF_KIND_STRUCT);
		const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (__u32)id) : NULL;

		for (int k = 0; t && k < btf_vlen(t); k++) {
			const struct btf_member *m = btf_members(t) + k;
			const char *name = btf__name_by_offset(btf, m->name_off);
			__u32 size = 0;

			if (!*name)
				continue;
			assert_int_equal(btf_file_member(&f, structs[i], name, &size),
					 btf_member_bit_offset(t, (__u32)k) / 8);
			assert_int_equal(size, t->size);
			n++;
		}
	}
	assert_true(n > 100);
	assert_int_equal(btf_file_member(&f, "task_struct", "no_such_member", NULL), -ENOENT);
	assert_int_equal(btf_file_member(&f, "no_such_struct", "pid", NULL), -ENOENT);
	btf_file_close(&f);
	btf__free(btf);
}

static void members_of_anonymous_members_are_found(void **state)
{
	struct btf *btf = btf__new_empty();
	int number, inner, outer;
	struct btf_file f;
	__u32 len, size;
	const void *raw;

	number = btf__add_int(btf, "int", 4, 0);
	inner = btf__add_struct(btf, NULL, 8);
	btf__add_field(btf, "low", number, 0, 0);
	btf__add_field(btf, "high", number, 32, 0);
	outer = btf__add_struct(btf, "outer", 24);
	btf__add_field(btf, "first", number, 0, 0);
	btf__add_field(btf, NULL, inner, 64, 0);
	btf__add_field(btf, "bits", number, 128 + 8, 3);
	assert_true(outer > 0);
	raw = btf__raw_data(btf, &len);
	assert_int_equal(btf_file_parse(&f, raw, len), 0);
	assert_int_equal(btf_file_member(&f, "outer", "first", &size), 0);
	assert_int_equal(size, 24);
	assert_int_equal(btf_file_member(&f, "outer", "high", NULL), 12);
	assert_int_equal(btf_file_member(&f, "outer", "bits", NULL), 17);
	free(f.types);
	/* Cut anywhere. */
	for (__u32 i = 0; i < len; i++) {
		void *copy = malloc(i + 1);

		memcpy(copy, raw, i);
		if (!btf_file_parse(&f, copy, i))
			btf_file_member(&f, "outer", "high", NULL);
		free(f.types);
		free(copy);
	}
	btf__free(btf);
}

static void what_is_no_btf_is_refused(void **state)
{
	struct btf_file f;

	assert_int_equal(btf_file_open(&f, "/proc/self/no-such-file"), -ENOENT);
	assert_int_equal(btf_file_open(&f, "/proc/self/exe"), -EINVAL);
	btf_file_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_where_libbpf_has_them),
		cmocka_unit_test(members_of_anonymous_members_are_found),
		cmocka_unit_test(what_is_no_btf_is_refused),
	};

	return cmocka_run_group_tests_name("btf_file", tests, NULL, NULL);
}
