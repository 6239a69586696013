// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf_dynamic.h"

#include <errno.h>
#include <string.h>

#include "elf_file.h"
#include "python_memory.h"

#define MAX_DYNAMIC 1024	/* entries; files have some thirty */
#define MAX_CHAIN 64		/* symbols of one bucket; linkers aim at three */
#define MAX_READS 2048		/* of one file, for all names; some hundred are normal */
#define MAX_ASKED 64		/* bytes of a name that is asked for */

void elf_image_init(struct elf_image *i, const struct elf_file *file,
		    const struct python_memory *memory, __u64 bias)
{
	i->file = file;
	i->memory = memory;
	i->bias = bias;
	i->n_segments = 0;
	for (size_t n = 0; n < file->n_phdrs && i->n_segments < ELF_IMAGE_SEGMENTS; n++) {
		const Elf64_Phdr *ph = &file->phdrs[n];

		if (ph->p_type == PT_LOAD)
			i->segments[i->n_segments++] = (struct elf_segment){
				ph->p_vaddr, memory ? ph->p_memsz : ph->p_filesz, ph->p_offset
			};
	}
}

bool elf_image_read(const struct elf_image *i, __u64 vaddr, void *to, size_t size)
{
	for (size_t n = 0; n < i->n_segments; n++) {
		const struct elf_segment *s = &i->segments[n];
		const __u64 within = vaddr - s->vaddr;

		if (within >= s->size || size > s->size - within)
			continue;
		if (i->memory)
			return python_read(i->memory, i->bias + vaddr, to, size);
		return !elf_file_read(i->file, to, size, s->offset + within);
	}
	return false;
}

static bool read_some(struct elf_dynamic *d, __u64 vaddr, void *to, size_t size)
{
	if (!d->reads)
		return false;
	d->reads--;
	return elf_image_read(d->image, vaddr, to, size);
}

/*
 * glibc turns the addresses of a dynamic section that it may write to into those of the process
 * (elf/get-dynamic-info.h), musl does not.
 */
static __u64 own_address(struct elf_dynamic *d, __u64 addr)
{
	char byte;

	if (d->image->memory && !read_some(d, addr, &byte, 1))
		return addr - d->image->bias;
	return addr;
}

static const Elf64_Phdr *find_dynamic(const struct elf_file *f)
{
	for (size_t i = 0; i < f->n_phdrs; i++) {
		if (f->phdrs[i].p_type == PT_DYNAMIC)
			return &f->phdrs[i];
	}
	return NULL;
}

/* Return: the address of the hash table, 0: none. */
static __u64 read_entries(struct elf_dynamic *d, const Elf64_Phdr *ph)
{
	__u64 hash = 0;
	Elf64_Dyn e;

	for (__u64 at = 0; at / sizeof(e) < MAX_DYNAMIC && at + sizeof(e) <= ph->p_memsz;
	     at += sizeof(e)) {
		if (!read_some(d, ph->p_vaddr + at, &e, sizeof(e)) || e.d_tag == DT_NULL)
			break;
		if (e.d_tag == DT_GNU_HASH)
			hash = own_address(d, e.d_un.d_ptr);
		else if (e.d_tag == DT_SYMTAB)
			d->symbols = own_address(d, e.d_un.d_ptr);
		else if (e.d_tag == DT_STRTAB)
			d->strings = own_address(d, e.d_un.d_ptr);
		else if (e.d_tag == DT_STRSZ)
			d->strings_size = e.d_un.d_val;
	}
	return hash;
}

/* The table: https://sourceware.org/ml/binutils/2006-10/msg00377.html, and ld.so's do_lookup_x(). */
int elf_dynamic_open(struct elf_dynamic *d, const struct elf_image *image)
{
	const Elf64_Phdr *ph = find_dynamic(image->file);
	struct {
		__u32 n_buckets, first, bloom_words, bloom_shift;
	} head;
	__u64 hash;

	*d = (struct elf_dynamic){ .image = image, .reads = MAX_READS };
	hash = ph ? read_entries(d, ph) : 0;
	if (!hash || !d->symbols || !d->strings || !read_some(d, hash, &head, sizeof(head)) ||
	    !head.n_buckets)
		return -ENOENT;
	d->n_buckets = head.n_buckets;
	d->first = head.first;
	d->buckets = hash + sizeof(head) + (__u64)head.bloom_words * sizeof(__u64);
	d->chains = d->buckets + (__u64)head.n_buckets * sizeof(__u32);
	return 0;
}

static __u32 hash_of(const char *name)
{
	__u32 h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static bool is_symbol(struct elf_dynamic *d, __u32 index, const char *name, Elf64_Sym *sym)
{
	const size_t len = strlen(name) + 1;
	char text[MAX_ASKED];

	if (len > sizeof(text) ||
	    !read_some(d, d->symbols + (__u64)index * sizeof(*sym), sym, sizeof(*sym)) ||
	    sym->st_shndx == SHN_UNDEF || sym->st_name >= d->strings_size ||
	    len > d->strings_size - sym->st_name ||
	    !read_some(d, d->strings + sym->st_name, text, len))
		return false;
	return !memcmp(text, name, len);
}

bool elf_dynamic_find(struct elf_dynamic *d, const char *name, Elf64_Sym *out)
{
	const __u32 hash = hash_of(name);
	__u32 index, chain;
	Elf64_Sym sym;

	if (!read_some(d, d->buckets + (hash % d->n_buckets) * sizeof(index), &index,
		       sizeof(index)) ||
	    index < d->first)
		return false;
	for (int i = 0; i < MAX_CHAIN; i++, index++) {
		if (!read_some(d, d->chains + (__u64)(index - d->first) * sizeof(chain), &chain,
			       sizeof(chain)))
			return false;
		/* The lowest bit says that it is the last of its bucket. */
		if ((chain | 1) == (hash | 1) && is_symbol(d, index, name, &sym)) {
			*out = sym;
			return true;
		}
		if (chain & 1)
			return false;
	}
	return false;
}
