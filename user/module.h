/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One mapped ELF file: addresses to symbols and to unwind rules. Files are the target's and
 * hostile: opened by the caller (target_file.c) as DESIGN 10 says, read by pread, never mapped.
 */
#ifndef RPROF_MODULE_H
#define RPROF_MODULE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

struct module;

/*
 * module_open() - take an open file as a module.
 * @fd: regular file; owned by the module from here on, also on failure
 *
 * Cheap: reads the ELF and program headers. The rest is read at first use, by module_load().
 * Return: 0, or -errno (-EINVAL: not a 64-bit executable or library of this machine).
 */
int module_open(int fd, struct module **out);
void module_free(struct module *m);

/*
 * module_load() - read symbols and unwind rules, and close the file. Once; later calls do nothing.
 * Return: 0 (also when the file has neither), or -EBADF: the file was closed before.
 */
int module_load(struct module *m);

/*
 * module_load_within() - as module_load(), if its tables fit into what is left for all files.
 * @budget: bytes; what was read, or is kept if that is more, is taken off
 * Return: as module_load(), or -E2BIG: it counts as loaded, without symbols and rules.
 */
int module_load_within(struct module *m, __u64 *budget);

/* A module may be left without its file to save descriptors, until it is loaded. */
void module_close_file(struct module *m);
void module_reopen_file(struct module *m, int fd); /* the same file; takes @fd */
bool module_has_file(const struct module *m);
bool module_is_loaded(const struct module *m);

/*
 * Offset in the file -> address in the file's own address space. A page of a file may belong to
 * two segments: the executable one is meant. 0 or -ENOENT.
 */
int module_vaddr(const struct module *m, __u64 file_offset, __u64 *vaddr);

/*
 * module_symbol() - name of the function that holds @vaddr.
 *
 * .symtab, else .dynsym. Functions only (and IFUNC, and untyped labels of executable sections);
 * among aliases the global one, then the shorter name. A symbol of size 0 reaches to the next one,
 * one with a size not an inch beyond it. Versions (@@GLIBC_2.2) are cut off.
 * Return: the name, owned by @m, or NULL.
 */
const char *module_symbol(struct module *m, __u64 vaddr, __u64 *start);

/* Where the unwind rules of a function say that the caller is. */
enum cfi_state {
	CFI_UNKNOWN,		/* no rule, one we do not read, or a signal frame */
	CFI_FP_UP,		/* the frame is up: caller by the frame pointer chain */
	CFI_FP_UNTOUCHED,	/* frame not up, frame pointer still the caller's */
	CFI_FP_LOST,		/* frame pointer saved elsewhere or overwritten */
	CFI_END,		/* return address undefined: outermost frame */
};

struct cfi_rule {
	enum cfi_state state;
	bool cfa_is_sp;		/* CFA = sp + cfa_offset (else frame pointer + cfa_offset) */
	__s64 cfa_offset;	/* 0: CFA not known, or not in terms of a register */
	bool signal_frame;	/* augmentation 'S': its caller was interrupted, not calling */
	bool keeps_fp;		/* of the file: most of its functions set up a frame pointer */
};

/*
 * cfi_rule_at() - what the file's .eh_frame says about the frame at @vaddr.
 *
 * First it marks what the chain cannot prove; later it is iterated over a file to make the rows of
 * the in-kernel tables. Return: 0 (also for CFI_UNKNOWN), or -errno.
 */
int cfi_rule_at(struct module *m, __u64 vaddr, struct cfi_rule *out);

#endif
