/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One mapped ELF file. Everything in it is the target's word. */
#include "module.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch.h"
#include "cfi.h"
#include "debug_file.h"
#include "eh_frame.h"
#include "elf_file.h"
#include "elf_note.h"
#include "monotonic.h"
#include "symbol_sources.h"

#define MAX_FILE (16ULL << 30)		/* bytes */

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
	struct build_id build_id;
	struct segment *segments;	/* PT_LOADs with file contents */
	size_t n_segments;
	struct symbol_sources names;	/* symbols NULL: none */
	struct cfi *cfi;		/* NULL: none */
	__u64 load_ns;
};

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

static int read_segments(struct module *m, const struct elf_file *f)
{
	if (!f->n_phdrs)
		return -EINVAL;
	m->segments = calloc(f->n_phdrs, sizeof(*m->segments));
	if (!m->segments)
		return -ENOMEM;
	for (size_t i = 0; i < f->n_phdrs; i++)
		add_segment(m, &f->phdrs[i]);
	return 0;
}

static int read_headers(struct module *m)
{
	struct elf_file f;
	struct stat st;
	int err;

	if (fstat(m->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (__u64)st.st_size > MAX_FILE)
		return -EINVAL;
	m->file_size = (__u64)st.st_size;
	err = elf_file_open(&f, m->fd, m->file_size);
	if (err)
		return err;
	err = read_segments(m, &f);
	if (!err)
		elf_file_build_id(&f, &m->build_id);
	elf_file_fini(&f);
	return err;
}

int module_open(int fd, struct module **out)
{
	struct module *m = calloc(1, sizeof(*m));
	int err;

	if (!m) {
		close(fd);
		return -ENOMEM;
	}
	m->fd = fd;
	m->names.dwarf_fd = -1;
	err = read_headers(m);
	if (err) {
		module_free(m);
		return err;
	}
	*out = m;
	return 0;
}

void module_free(struct module *m)
{
	if (!m)
		return;
	module_close_file(m);
	cfi_free(m->cfi);
	symbol_sources_fini(&m->names);
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

/* Bytes of the sections that are read, or more. */
static __u64 table_size(const struct elf_file *f)
{
	const Elf64_Shdr *rules = elf_file_named(f, ".eh_frame");
	/* Found by segment, whose size it may have. */
	__u64 rules_size = f->size < EH_FRAME_MAX ? f->size : EH_FRAME_MAX;
	__u64 size = symbol_sources_table_size(f);

	if (rules)
		rules_size = rules->sh_size;
	return __builtin_add_overflow(size, rules_size, &size) ? ~0ULL : size;
}

__u64 module_table_size(struct module *m)
{
	return module_table_size_within(m, NULL);
}

__u64 module_table_size_within(struct module *m, const struct module_search *where)
{
	struct elf_file f;
	__u64 size;

	if (m->loaded || m->fd < 0 || elf_file_open(&f, m->fd, m->file_size))
		return 0;
	elf_file_read_sections(&f);
	size = table_size(&f);
	if (where && !elf_file_typed(&f, SHT_SYMTAB) &&
	    __builtin_add_overflow(size, debug_file_cost(&f, &m->build_id, where), &size))
		size = ~0ULL;
	elf_file_fini(&f);
	return size;
}

static void take(__u64 *budget, __u64 bytes)
{
	*budget -= bytes < *budget ? bytes : *budget;
}

static int load_tables(struct module *m, const struct elf_file *f,
		       const struct module_search *where, __u64 *budget)
{
	__u64 size = table_size(f), kept;

	if (size > *budget) {
		m->names.why_none = "its tables are larger than what is left for all files";
		return -E2BIG;
	}
	take(budget, size);
	/* A file without the one or the other is no error: there is nothing to say then. */
	symbol_sources_load(f, &m->build_id, where, budget, &m->names);
	cfi_load(f, &m->cfi);
	kept = m->names.stubs ? elf_symbols_size(m->names.stubs) : 0;
	take(budget, kept > size ? kept - size : 0);
	/* How much that is, is known only now: 24 MiB at most. */
	take(budget, cfi_chain_size(m->cfi));
	return 0;
}

int module_load_within(struct module *m, const struct module_search *where, __u64 *budget)
{
	const __u64 start_ns = monotonic_ns();
	struct elf_file f;
	int err = 0;

	if (m->loaded)
		return 0;
	if (m->fd < 0)
		return -EBADF;
	m->loaded = true;
	m->names.why_none = "its file cannot be read any more";
	if (!elf_file_open(&f, m->fd, m->file_size)) {
		/* Without sections there are rules still, found by segment. */
		elf_file_read_sections(&f);
		err = load_tables(m, &f, where, budget);
		elf_file_fini(&f);
	}
	module_close_file(m);
	m->load_ns = monotonic_ns() - start_ns;
	return err;
}

int module_load(struct module *m)
{
	__u64 unlimited = ~0ULL;

	return module_load_within(m, NULL, &unlimited);
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
	const char *name = NULL;

	if (module_load(m))
		return NULL;
	if (m->names.symbols)
		name = elf_symbols_find(m->names.symbols, vaddr, start);
	if (!name && m->names.stubs)
		name = elf_symbols_find(m->names.stubs, vaddr, start);
	return name;
}

int module_build_id(const struct module *m, unsigned char id[20])
{
	unsigned int len = m->build_id.len < 20 ? m->build_id.len : 20;

	memcpy(id, m->build_id.bytes, len);
	return (int)len;
}

const char *symbol_source_name(enum symbol_source source)
{
	static const char *const names[] = {
		[SYMBOLS_NONE] = "none",
		[SYMBOLS_SYMTAB] = ".symtab",
		[SYMBOLS_DYNSYM] = ".dynsym",
		[SYMBOLS_DEBUGDATA] = ".gnu_debugdata",
		[SYMBOLS_BUILD_ID_FILE] = ".build-id",
		[SYMBOLS_DEBUGLINK_FILE] = ".gnu_debuglink",
		[SYMBOLS_DEBUGINFOD] = "debuginfod",
	};

	return names[source];
}

void module_report(const struct module *m, struct module_report *out)
{
	struct cfi_rule rule;

	memset(out, 0, sizeof(*out));
	out->loaded = m->loaded;
	out->load_ns = m->load_ns;
	out->why_none = m->names.why_none;
	out->build_id_len = (unsigned int)module_build_id(m, out->build_id);
	out->n_sources = m->names.n_used;
	memcpy(out->sources, m->names.used, sizeof(out->sources));
	if (m->names.symbols) {
		out->n_symbols = elf_symbols_count(m->names.symbols);
		out->bytes = elf_symbols_size(m->names.symbols);
	}
	if (m->names.stubs)
		out->bytes += elf_symbols_size(m->names.stubs);
	if (m->cfi) {
		cfi_find(m->cfi, 0, &rule);
		out->keeps_fp_known = true;
		out->keeps_fp = rule.keeps_fp;
	}
}

int module_take_dwarf(struct module *m)
{
	int fd = m->names.dwarf_fd;

	m->names.dwarf_fd = -1;
	return fd;
}

int cfi_rule_at(struct module *m, __u64 vaddr, struct cfi_rule *out)
{
	__u64 start;
	int err = module_load(m);

	if (err)
		return err;
	memset(out, 0, sizeof(*out));
	if (m->cfi)
		cfi_find(m->cfi, vaddr, out);
	/* The code of a stub was read, and has no frame (plt.h). */
	if (ARCH_PLT_HAS_NO_FRAME && out->state == CFI_UNKNOWN && !out->signal_frame &&
	    m->names.stubs && elf_symbols_find(m->names.stubs, vaddr, &start)) {
		out->state = CFI_FP_UNTOUCHED;
		out->ra = CFI_RA_REGISTER;
		out->cfa_is_sp = true;
		out->cfa_offset = ARCH_UP_CFA;
	}
	return 0;
}
