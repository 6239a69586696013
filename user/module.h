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

/* Where else than in the file itself its symbols may be looked for. */
struct module_search {
	int root_fd;		/* O_PATH, the root directory of a process that has it mapped; -1: not known */
	const char *path;	/* of the file there; "": not known */
	bool debuginfod;	/* may servers be asked? Only if DEBUGINFOD_URLS is set; may take a minute */
	bool want_dwarf;	/* keep a descriptor of the file with .debug_info for module_take_dwarf() */
	const bool *stop;	/* may be NULL; set by another thread: do not wait for servers any longer */
};

/*
 * module_load_within() - as module_load(), if its tables fit into what is left for all files.
 * @where: NULL: only the file itself is looked at
 * @budget: bytes; what was read, or is kept if that is more, is taken off
 *
 * May run in a thread of its own: it uses *@m, *@budget and nothing else that changes.
 * Return: as module_load(), or -E2BIG: it counts as loaded, without symbols and rules.
 */
int module_load_within(struct module *m, const struct module_search *where, __u64 *budget);

/*
 * module_table_size() - bytes of its tables that module_load_within() will read, or more; ~0 if they
 * are said to be larger than the file. From its headers, and so without those of a debug file, which
 * only a file has that has no .symtab. 0: its file is closed.
 */
__u64 module_table_size(struct module *m);
/* The same with those of its debug file, if it has one there. Opens that, so it costs some 50 us. */
__u64 module_table_size_within(struct module *m, const struct module_search *where);

/*
 * module_build_id() - what the linker made of all that is in the file; read by module_open().
 * @id: its first 20 bytes
 * Return: how many they are; 0: it has none. It proves nothing: a file can carry the id of another.
 */
int module_build_id(const struct module *m, unsigned char id[20]);

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
 * From .symtab, else that of a debug file, else .dynsym and .gnu_debugdata; "puts@plt" for stubs.
 * Functions only (and IFUNC, and untyped labels of executable sections); among aliases the global
 * one, then the weak, then the shorter name, and a resolver's before that of its IFUNC. A symbol of size 0 reaches to the next one, one with a
 * size not an inch beyond it. Versions (@@GLIBC_2.2) are cut off, and so is what compilers append
 * (.cold, .part.0, .constprop.0, .isra.0, .lto_priv.0, .llvm.1).
 * @start: of the symbol, which for a cold part is not that of the function
 * Return: the name, raw bytes as in the file, owned by @m, or NULL.
 */
const char *module_symbol(struct module *m, __u64 vaddr, __u64 *start);

enum symbol_source {
	SYMBOLS_NONE,
	SYMBOLS_SYMTAB,
	SYMBOLS_DYNSYM,
	SYMBOLS_DEBUGDATA,
	SYMBOLS_BUILD_ID_FILE,
	SYMBOLS_DEBUGLINK_FILE,
	SYMBOLS_DEBUGINFOD,
};

/* What it is called in messages: ".symtab", ".gnu_debuglink". */
const char *symbol_source_name(enum symbol_source source);

struct module_report {
	bool loaded;
	enum symbol_source sources[4];
	unsigned int n_sources;
	size_t n_symbols;	/* functions; stubs of the PLT are not counted */
	__u64 bytes;		/* of memory that names take */
	__u64 load_ns;
	const char *why_none;	/* static text; NULL: there are symbols, or it was not loaded yet */
	unsigned char build_id[20];
	unsigned int build_id_len;
	bool keeps_fp_known;	/* it has rules to ask */
	bool keeps_fp;		/* most of its functions set up a frame pointer */
};

void module_report(const struct module *m, struct module_report *out);

/*
 * module_take_dwarf() - after loading with want_dwarf: a descriptor, now the caller's, of the file
 * that has .debug_info for the same addresses: the module's own or its debug file; -1: none.
 */
int module_take_dwarf(struct module *m);

/*
 * Where the unwind rules of a function say that the caller is. The frame pointer stands for what
 * links frames: where that is a back chain, stored at sp, no rule speaks of it, and back_chain.h
 * reads the code.
 */
enum cfi_state {
	CFI_UNKNOWN,		/* no rule, one we do not read, or a signal frame */
	CFI_FP_UP,		/* the frame is up: caller by the chain */
	CFI_FP_UNTOUCHED,	/* frame not up, frame pointer (sp) still the caller's */
	CFI_FP_LOST,		/* frame pointer saved elsewhere or overwritten; no back chain stored */
	CFI_FP_UNLINKED,	/* back chain alone: frame allocated, its link will be stored soon */
	CFI_END,		/* return address undefined: outermost frame */
};

enum cfi_ra {
	CFI_RA_UNKNOWN,		/* or in a place where nobody looks for it */
	CFI_RA_REGISTER,	/* of an interrupted frame; a call overwrote it */
	CFI_RA_STACK,
};

struct cfi_rule {
	enum cfi_state state;
	enum cfi_ra ra;
	bool cfa_is_sp;		/* CFA = sp + cfa_offset (else frame pointer + cfa_offset) */
	bool packed;		/* chain and return address are where -mpacked-stack has them */
	bool wrapper;		/* CFI_FP_UP, by no chain, if this is the vDSO: one of its wrappers */
	__s64 cfa_offset;	/* 0: CFA not known, or not in terms of a register */
	__s64 ra_at_sp;		/* CFI_RA_STACK and cfa_is_sp: it is at [sp + ra_at_sp] */
	bool signal_frame;	/* augmentation 'S': its caller was interrupted, not calling */
	bool keeps_fp;		/* of the file: most of its functions that need to link frames */
};

/*
 * cfi_rule_at() - what the file's .eh_frame says about the frame at @vaddr.
 *
 * First it marks what the chain cannot prove; later it is iterated over a file to make the rows of
 * the in-kernel tables. Return: 0 (also for CFI_UNKNOWN), or -errno.
 */
int cfi_rule_at(struct module *m, __u64 vaddr, struct cfi_rule *out);

#endif
