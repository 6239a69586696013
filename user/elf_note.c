/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_note.h"

#include <string.h>

#include "reader.h"

#define MAX_NOTES 4096		/* bytes of a segment that are looked at; they have some 100 */
#define MAX_NOTE_PARTS 16	/* segments or sections */

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

/* To the next multiple of @align from @start on; the last note may go without its padding. */
static void skip_padding(struct reader *r, const unsigned char *start, size_t align)
{
	size_t pad = (align - (size_t)(r->at - start) % align) % align;

	reader_take(r, pad < reader_left(r) ? pad : reader_left(r));
}

bool elf_note_build_id(const void *data, size_t size, size_t align, struct build_id *out)
{
	struct reader r = { data, (const unsigned char *)data + size, false };

	if (align != 8)
		align = 4;
	while (reader_left(&r)) {
		__u32 name_size = reader_u32(&r), desc_size = reader_u32(&r), type = reader_u32(&r);
		const unsigned char *name = reader_take(&r, name_size), *desc;

		skip_padding(&r, data, align);
		desc = reader_take(&r, desc_size);
		skip_padding(&r, data, align);
		if (r.bad)
			return false;
		if (type != NT_GNU_BUILD_ID || name_size != sizeof("GNU") ||
		    memcmp(name, "GNU", sizeof("GNU")) != 0 || desc_size < BUILD_ID_MIN ||
		    desc_size > BUILD_ID_MAX)
			continue;
		memset(out, 0, sizeof(*out));
		memcpy(out->bytes, desc, desc_size);
		out->len = desc_size;
		return true;
	}
	return false;
}

static bool look_in(const struct elf_file *f, __u64 offset, __u64 size, __u64 align,
		    struct build_id *out)
{
	unsigned char notes[MAX_NOTES];
	size_t n = size < sizeof(notes) ? (size_t)size : sizeof(notes);

	return !elf_file_read(f, notes, n, offset) && elf_note_build_id(notes, n, align, out);
}

void elf_file_build_id(const struct elf_file *f, struct build_id *out)
{
	int parts = 0;

	out->len = 0;
	for (size_t i = 0; i < f->n_sections && parts < MAX_NOTE_PARTS; i++) {
		const Elf64_Shdr *sh = &f->sections[i];

		if (sh->sh_type != SHT_NOTE)
			continue;
		parts++;
		if (look_in(f, sh->sh_offset, sh->sh_size, sh->sh_addralign, out))
			return;
	}
	for (size_t i = 0; i < f->n_phdrs && parts < MAX_NOTE_PARTS; i++) {
		const Elf64_Phdr *ph = &f->phdrs[i];

		if (ph->p_type != PT_NOTE)
			continue;
		parts++;
		if (look_in(f, ph->p_offset, ph->p_filesz, ph->p_align, out))
			return;
	}
}
