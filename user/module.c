/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One mapped ELF file. Everything in it is the target's word: headers are read by pread and checked
 * here before libelf sees the file, because libelf allocates what the headers ask for.
 */
#include "module.h"

#include <errno.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch.h"
#include "cfi.h"
#include "eh_frame.h"
#include "elf_symbols.h"

#define MAX_FILE (16ULL << 30)		/* bytes */
#define MAX_PHDRS 1170			/* the kernel maps no more: 64 KiB, load_elf_phdrs() */
#define MAX_SECTIONS 16384		/* linked files have some dozens */

struct segment {
	__u64 offset;		/* in the file, rounded down to a page as the kernel maps it */
	__u64 end;
	__u64 vaddr;		/* of offset */
	bool executable;
};

struct module {
	int fd;			/* -1: closed */
	bool loaded;
	__u64 file_size;
	struct segment *segments;	/* PT_LOADs with file contents */
	size_t n_segments;
	struct elf_symbols *symbols;	/* NULL: none */
	struct cfi *cfi;		/* NULL: none */
};

/* Return: 0, or -EIO when the file is shorter than that. */
static int read_exactly(int fd, void *buf, size_t size, __u64 offset)
{
	ssize_t n = pread(fd, buf, size, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == size ? 0 : -EIO;
}

static bool is_ours(const Elf64_Ehdr *eh)
{
	return !memcmp(eh->e_ident, ELFMAG, SELFMAG) && eh->e_ident[EI_CLASS] == ELFCLASS64 &&
	       eh->e_ident[EI_DATA] == ARCH_ELF_DATA && eh->e_machine == ARCH_ELF_MACHINE &&
	       (eh->e_type == ET_EXEC || eh->e_type == ET_DYN);
}

static void add_segment(struct module *m, const Elf64_Phdr *ph)
{
	__u64 head = ph->p_offset & (ARCH_PAGE_SIZE - 1);
	__u64 end;

	if (ph->p_type != PT_LOAD || !ph->p_filesz || ph->p_vaddr < head ||
	    __builtin_add_overflow(ph->p_offset, ph->p_filesz, &end))
		return;
	m->segments[m->n_segments++] = (struct segment){
		.offset = ph->p_offset - head,
		.end = end,
		.vaddr = ph->p_vaddr - head,
		.executable = ph->p_flags & PF_X,
	};
}

static int read_segments(struct module *m, const Elf64_Ehdr *eh)
{
	size_t n = eh->e_phnum;
	Elf64_Phdr *phdrs;
	int err;

	if (!n || n > MAX_PHDRS || eh->e_phentsize != sizeof(*phdrs) || eh->e_phoff > MAX_FILE)
		return -EINVAL;
	phdrs = calloc(n, sizeof(*phdrs));
	m->segments = calloc(n, sizeof(*m->segments));
	err = phdrs && m->segments ? 0 : -ENOMEM;
	if (!err)
		err = read_exactly(m->fd, phdrs, n * sizeof(*phdrs), eh->e_phoff);
	for (size_t i = 0; i < n && !err; i++)
		add_segment(m, &phdrs[i]);
	free(phdrs);
	return err == -EIO ? -EINVAL : err;
}

int module_open(int fd, struct module **out)
{
	struct module *m = calloc(1, sizeof(*m));
	Elf64_Ehdr eh;
	struct stat st;
	int err;

	if (!m) {
		close(fd);
		return -ENOMEM;
	}
	m->fd = fd;
	err = fstat(fd, &st) ? -errno : 0;
	if (!err && (!S_ISREG(st.st_mode) || (__u64)st.st_size > MAX_FILE))
		err = -EINVAL;
	if (!err)
		err = read_exactly(fd, &eh, sizeof(eh), 0);
	if (!err && !is_ours(&eh))
		err = -EINVAL;
	if (!err)
		err = read_segments(m, &eh);
	if (err) {
		module_free(m);
		return err == -EIO ? -EINVAL : err;
	}
	m->file_size = (__u64)st.st_size;
	*out = m;
	return 0;
}

void module_free(struct module *m)
{
	if (!m)
		return;
	module_close_file(m);
	cfi_free(m->cfi);
	elf_symbols_free(m->symbols);
	free(m->segments);
	free(m);
}

void module_close_file(struct module *m)
{
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

void module_reopen_file(struct module *m, int fd)
{
	module_close_file(m);
	m->fd = fd;
}

bool module_has_file(const struct module *m)
{
	return m->fd >= 0;
}

bool module_is_loaded(const struct module *m)
{
	return m->loaded;
}

/* elf_begin() allocates and touches 200 bytes for each section that the headers announce. */
static bool sections_are_sane(const struct module *m)
{
	Elf64_Ehdr eh;
	Elf64_Shdr first;

	if (read_exactly(m->fd, &eh, sizeof(eh), 0) || !is_ours(&eh))
		return false;
	if (!eh.e_shoff)
		return eh.e_shnum == 0;
	if (eh.e_shnum)
		return eh.e_shnum <= MAX_SECTIONS;
	return !read_exactly(m->fd, &first, sizeof(first), eh.e_shoff) &&
	       first.sh_size <= MAX_SECTIONS;
}

/* Bytes of the sections that are read, or more. */
static __u64 table_size(const struct module *m, Elf *elf)
{
	bool has_rules = false;
	Elf_Scn *scn = NULL;
	__u64 size = 0;
	size_t names;

	if (elf_getshdrstrndx(elf, &names))
		names = 0;
	while ((scn = elf_nextscn(elf, scn))) {
		const char *name;
		GElf_Shdr sh;

		if (!gelf_getshdr(scn, &sh) || sh.sh_size > m->file_size)
			continue;
		name = names ? elf_strptr(elf, names, sh.sh_name) : NULL;
		if (name && !strcmp(name, ".eh_frame"))
			has_rules = true;
		else if (sh.sh_type != SHT_SYMTAB && sh.sh_type != SHT_DYNSYM &&
			 sh.sh_type != SHT_STRTAB)
			continue;
		size += sh.sh_size;
	}
	/* Found by segment, whose size it may have. */
	if (!has_rules)
		size += m->file_size < EH_FRAME_MAX ? m->file_size : EH_FRAME_MAX;
	return size;
}

static int load_tables(struct module *m, Elf *elf, __u64 *budget)
{
	__u64 size = table_size(m, elf), kept;

	if (size > *budget)
		return -E2BIG;
	/* A file without the one or the other is no error: there is nothing to say then. */
	elf_symbols_load(elf, m->fd, m->file_size, &m->symbols);
	cfi_load(elf, m->fd, m->file_size, &m->cfi);
	kept = m->symbols ? elf_symbols_size(m->symbols) : 0;
	if (kept > size)
		size = kept;
	*budget -= size < *budget ? size : *budget;
	return 0;
}

int module_load_within(struct module *m, __u64 *budget)
{
	Elf *elf = NULL;
	int err = 0;

	if (m->loaded)
		return 0;
	if (m->fd < 0)
		return -EBADF;
	m->loaded = true;
	elf_version(EV_CURRENT);
	if (sections_are_sane(m))
		elf = elf_begin(m->fd, ELF_C_READ, NULL);
	if (elf) {
		err = load_tables(m, elf, budget);
		elf_end(elf);
	}
	module_close_file(m);
	return err;
}

int module_load(struct module *m)
{
	__u64 unlimited = ~0ULL;

	return module_load_within(m, &unlimited);
}

int module_vaddr(const struct module *m, __u64 file_offset, __u64 *vaddr)
{
	const struct segment *found = NULL;

	for (size_t i = 0; i < m->n_segments; i++) {
		const struct segment *s = &m->segments[i];

		if (file_offset < s->offset || file_offset >= s->end)
			continue;
		if (!found || (s->executable && !found->executable))
			found = s;
	}
	if (!found)
		return -ENOENT;
	*vaddr = found->vaddr + (file_offset - found->offset);
	return 0;
}

const char *module_symbol(struct module *m, __u64 vaddr, __u64 *start)
{
	if (module_load(m) || !m->symbols)
		return NULL;
	return elf_symbols_find(m->symbols, vaddr, start);
}

int cfi_rule_at(struct module *m, __u64 vaddr, struct cfi_rule *out)
{
	int err = module_load(m);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	if (m->cfi)
		cfi_find(m->cfi, vaddr, out);
	return 0;
}
