// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as .gnu_debugdata, or as the file in it: bounded, and names end. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "debugdata.h"
#include "elf_symbols.h"
#include "plt.h"

enum { MAX = 1 << 20 };

static void look_into(const void *bytes, size_t size)
{
	struct elf_symbols *s, *stubs;
	struct elf_file f;
	__u64 start;

	if (elf_file_open_bytes(&f, bytes, size))
		return;
	elf_file_read_sections(&f);
	s = elf_symbols_new();
	if (s) {
		elf_symbols_add(s, &f, SHT_SYMTAB, 0x1000);
		elf_symbols_add(s, &f, SHT_DYNSYM, 0);
		elf_symbols_finish(s, true);
		for (__u64 addr = 0; addr < 0x3000; addr += 61) {
			const char *name = elf_symbols_find(s, addr, &start);

			if (name && (!name[0] || strlen(name) > 65535 || start > addr))
				abort();
		}
		elf_symbols_free(s);
	}
	if (!plt_load(&f, &stubs))
		elf_symbols_free(stubs);
	elf_file_fini(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t out_size;
	void *out;

	if (size >= SELFMAG && !memcmp(data, ELFMAG, SELFMAG)) {
		look_into(data, size);
		return 0;
	}
	if (debugdata_unpack(data, size, MAX, &out, &out_size))
		return 0;
	if (out_size > MAX)
		abort();
	look_into(out, out_size);
	free(out);
	return 0;
}
