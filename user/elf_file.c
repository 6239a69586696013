/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "elf_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "arch.h"

#define MAX_PHDRS 1170			/* the kernel maps no more: 64 KiB, load_elf_phdrs() */
#define MAX_NAMES (1u << 20)		/* bytes of section names */
#define MAX_UNPACKED (4ULL << 30)	/* bytes of a compressed section, whatever the caller says */
#define MAX_DEFLATE_RATIO 1040		/* RFC 1951 cannot do better than 1032:1 */

static bool in_file(const struct elf_file *f, __u64 offset, __u64 size)
{
	return offset <= f->size && size <= f->size - offset;
}

int elf_file_read(const struct elf_file *f, void *buf, size_t size, __u64 offset)
{
	char *at = buf;

	if (!in_file(f, offset, size))
		return -EIO;
	if (f->fd < 0) {
		memcpy(buf, f->bytes + offset, size);
		return 0;
	}
	while (size) {
		ssize_t n = pread(f->fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		at += n;
		offset += (__u64)n;
		size -= (size_t)n;
	}
	return 0;
}

static bool is_ours(const Elf64_Ehdr *eh)
{
	return !memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ARCH_ELF_DATA && eh->e_machine == ARCH_ELF_MACHINE &&
	       (eh->e_type == ET_EXEC || eh->e_type == ET_DYN);
}

/* @n headers of @size bytes each, from malloc. */
static int read_table(const struct elf_file *f, __u64 offset, size_t n, size_t size, void **out)
{
	void *table;
	int err;

	if (!in_file(f, offset, (__u64)n * size))
		return -EINVAL;
	table = malloc(n * size);
	if (!table)
		return -ENOMEM;
	err = elf_file_read(f, table, n * size, offset);
	if (err) {
		free(table);
		return err;
	}
	*out = table;
	return 0;
}

static int read_headers(struct elf_file *f)
{
	Elf64_Ehdr eh;
	int err = elf_file_read(f, &eh, sizeof(eh), 0);

	if (err)
		return err == -EIO ? -EINVAL : err;
	if (!is_ours(&eh))
		return -EINVAL;
	if (!eh.e_phnum)
		return 0;
	if (eh.e_phnum > MAX_PHDRS || eh.e_phentsize != sizeof(*f->phdrs))
		return -EINVAL;
	err = read_table(f, eh.e_phoff, eh.e_phnum, sizeof(*f->phdrs), (void **)&f->phdrs);
	if (!err)
		f->n_phdrs = eh.e_phnum;
	return err;
}

int elf_file_open(struct elf_file *f, int fd, __u64 size)
{
	*f = (struct elf_file){ .fd = fd, .size = size };
	return fd < 0 ? -EBADF : read_headers(f);
}

int elf_file_open_bytes(struct elf_file *f, const void *bytes, size_t size)
{
	*f = (struct elf_file){ .fd = -1, .bytes = bytes, .size = size };
	return read_headers(f);
}

void elf_file_fini(struct elf_file *f)
{
	free(f->phdrs);
	free(f->sections);
	free(f->names);
	*f = (struct elf_file){ .fd = -1 };
}

/* Without names, sections are still found by type. */
static int read_names(struct elf_file *f, size_t index)
{
	void *names;
	size_t size;
	int err;

	if (!index || index >= f->n_sections)
		return 0;
	err = elf_file_load(f, &f->sections[index], MAX_NAMES, &names, &size);
	if (err)
		return err == -ENOMEM ? err : 0;
	f->names = names;
	f->names_size = size;
	return 0;
}

int elf_file_read_sections(struct elf_file *f)
{
	Elf64_Ehdr eh;
	Elf64_Shdr first;
	size_t n, names;
	int err = elf_file_read(f, &eh, sizeof(eh), 0);

	if (err || !eh.e_shoff || f->sections)
		return err;
	n = eh.e_shnum;
	names = eh.e_shstrndx;
	/* More than fit into 16 bits: System V ABI, ELF header. */
	if (!n || names == SHN_XINDEX) {
		err = elf_file_read(f, &first, sizeof(first), eh.e_shoff);
		if (err)
			return err;
		n = n ? n : first.sh_size;
		names = names == SHN_XINDEX ? first.sh_link : names;
	}
	if (eh.e_shentsize != sizeof(first) || n > ELF_FILE_MAX_SECTIONS)
		return -EINVAL;
	err = n ? read_table(f, eh.e_shoff, n, sizeof(first), (void **)&f->sections) : 0;
	if (err)
		return err;
	f->n_sections = n;
	return read_names(f, names);
}

const char *elf_file_section_name(const struct elf_file *f, const Elf64_Shdr *sh)
{
	return sh->sh_name < f->names_size ? f->names + sh->sh_name : "";
}

static bool has_contents(const struct elf_file *f, const Elf64_Shdr *sh)
{
	return sh->sh_type != SHT_NULL && sh->sh_type != SHT_NOBITS && sh->sh_size &&
	       in_file(f, sh->sh_offset, sh->sh_size);
}

const Elf64_Shdr *elf_file_named(const struct elf_file *f, const char *name)
{
	for (size_t i = 0; i < f->n_sections; i++) {
		if (has_contents(f, &f->sections[i]) &&
		    !strcmp(elf_file_section_name(f, &f->sections[i]), name))
			return &f->sections[i];
	}
	return NULL;
}

const Elf64_Shdr *elf_file_typed(const struct elf_file *f, Elf64_Word type)
{
	for (size_t i = 0; i < f->n_sections; i++) {
		if (f->sections[i].sh_type == type && has_contents(f, &f->sections[i]))
			return &f->sections[i];
	}
	return NULL;
}

static int compression(const struct elf_file *f, const Elf64_Shdr *sh, Elf64_Chdr *ch)
{
	if (sh->sh_size < sizeof(*ch))
		return -EINVAL;
	return elf_file_read(f, ch, sizeof(*ch), sh->sh_offset);
}

__u64 elf_file_section_size(const struct elf_file *f, const Elf64_Shdr *sh)
{
	Elf64_Chdr ch;

	if (!has_contents(f, sh))
		return ~0ULL;
	if (!(sh->sh_flags & SHF_COMPRESSED))
		return sh->sh_size;
	return compression(f, sh, &ch) ? ~0ULL : ch.ch_size;
}

static int inflate_all(const void *in, size_t in_size, void *out, size_t out_size)
{
	uLongf n = out_size;

	if (uncompress(out, &n, in, in_size) != Z_OK || n != out_size)
		return -EINVAL;
	return 0;
}

static int unzstd_all(const void *in, size_t in_size, void *out, size_t out_size)
{
	return ZSTD_decompress(out, out_size, in, in_size) == out_size ? 0 : -EINVAL;
}

static int load_compressed(const struct elf_file *f, const Elf64_Shdr *sh, __u64 max, char **data,
			   size_t *size)
{
	void *in = NULL;
	char *out = NULL;
	size_t in_size;
	Elf64_Chdr ch;
	int err = compression(f, sh, &ch);

	if (err)
		return err;
	in_size = sh->sh_size - sizeof(ch);
	if (ch.ch_type != ELFCOMPRESS_ZLIB && ch.ch_type != ELFCOMPRESS_ZSTD)
		return -ENOTSUP;
	if (ch.ch_size > max || ch.ch_size > MAX_UNPACKED || in_size > max)
		return -E2BIG;
	if (ch.ch_type == ELFCOMPRESS_ZLIB && ch.ch_size / MAX_DEFLATE_RATIO > in_size)
		return -EINVAL;
	err = read_table(f, sh->sh_offset + sizeof(ch), in_size, 1, &in);
	out = err ? NULL : malloc(ch.ch_size + 1);
	if (!err && !out)
		err = -ENOMEM;
	if (!err)
		err = ch.ch_type == ELFCOMPRESS_ZLIB ? inflate_all(in, in_size, out, ch.ch_size) :
						       unzstd_all(in, in_size, out, ch.ch_size);
	free(in);
	if (err) {
		free(out);
		return err;
	}
	*data = out;
	*size = ch.ch_size;
	return 0;
}

int elf_file_load(const struct elf_file *f, const Elf64_Shdr *sh, __u64 max, void **data,
		  size_t *size)
{
	char *bytes = NULL;
	size_t n = sh->sh_size;
	int err;

	if (!has_contents(f, sh))
		return -EINVAL;
	if (sh->sh_flags & SHF_COMPRESSED) {
		err = load_compressed(f, sh, max, &bytes, &n);
		if (err)
			return err;
	} else {
		if (n > max)
			return -E2BIG;
		bytes = malloc(n + 1);
		if (!bytes)
			return -ENOMEM;
		err = elf_file_read(f, bytes, n, sh->sh_offset);
		if (err) {
			free(bytes);
			return err;
		}
	}
	bytes[n] = '\0';
	*data = bytes;
	*size = n;
	return 0;
}

static const Elf64_Phdr *next_load(const struct elf_file *f, size_t *i)
{
	while (*i < f->n_phdrs) {
		const Elf64_Phdr *ph = &f->phdrs[(*i)++];

		if (ph->p_type == PT_LOAD)
			return ph;
	}
	return NULL;
}

/* All segments moved by the same, or none to compare. */
static bool segments_agree(const struct elf_file *own, const struct elf_file *debug, __u64 *bias)
{
	size_t i = 0, j = 0;
	bool first = true;

	for (;;) {
		const Elf64_Phdr *a = next_load(own, &i), *b = next_load(debug, &j);

		if (!a || !b)
			return !a && !b && !first;
		if (first)
			*bias = a->p_vaddr - b->p_vaddr;
		if (a->p_vaddr - b->p_vaddr != *bias || a->p_memsz != b->p_memsz)
			return false;
		first = false;
	}
}

static const Elf64_Shdr *find_code(const struct elf_file *f)
{
	for (size_t i = 0; i < f->n_sections; i++) {
		if ((f->sections[i].sh_flags & SHF_EXECINSTR) &&
		    !strcmp(elf_file_section_name(f, &f->sections[i]), ".text"))
			return &f->sections[i];
	}
	return NULL;
}

static bool sections_agree(const struct elf_file *own, const struct elf_file *debug, __u64 *bias)
{
	const Elf64_Shdr *a = find_code(own), *b = find_code(debug);

	if (!a || !b || a->sh_size != b->sh_size)
		return false;
	*bias = a->sh_addr - b->sh_addr;
	return true;
}

bool elf_file_bias(const struct elf_file *own, const struct elf_file *debug, __u64 *bias)
{
	/* Segments may have been added since, or never been in the debug file: then .text says. */
	return segments_agree(own, debug, bias) || sections_agree(own, debug, bias);
}
