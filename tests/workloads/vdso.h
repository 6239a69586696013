/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Functions of the vDSO by name, to be called without libc between; vdso(7). */
#ifndef VDSO_H
#define VDSO_H

#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef __s390x__
#define VDSO_CLOCK_GETTIME "__kernel_clock_gettime"
#define VDSO_GETCPU "__kernel_getcpu"
#else
#define VDSO_CLOCK_GETTIME "__vdso_clock_gettime"
#define VDSO_GETCPU "__vdso_getcpu"
#endif

/* The kernel's own file, in memory as it is linked: nothing of it is in doubt. NULL: not there. */
static inline void *vdso_symbol(const char *name)
{
	const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)base;
	const Elf64_Shdr *sections;

	if (!base)
		return NULL;
	sections = (const Elf64_Shdr *)(base + ehdr->e_shoff);
	for (int i = 0; i < ehdr->e_shnum; i++) {
		const Elf64_Sym *symbols = (const Elf64_Sym *)(base + sections[i].sh_offset);
		const char *strings;

		if (sections[i].sh_type != SHT_DYNSYM)
			continue;
		strings = base + sections[sections[i].sh_link].sh_offset;
		for (size_t n = 0; n < sections[i].sh_size / sizeof(*symbols); n++) {
			if (!strcmp(strings + symbols[n].st_name, name))
				return (void *)(base + symbols[n].st_value);
		}
	}
	return NULL;
}

#endif
