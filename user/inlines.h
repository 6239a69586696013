/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Inlined calls, for --inlines: from the debug information of files that a target controls. Each
 * file is read by a process of its own that has no rights (inline_worker.c), so that a file which
 * breaks its reader ends that reader, and lends no names to another file. This side only asks, and
 * waits a bounded time.
 */
#ifndef RPROF_INLINES_H
#define RPROF_INLINES_H

#include <linux/types.h>
#include <stddef.h>

struct inlines;

/* Starts nothing. NULL: no memory. */
struct inlines *inlines_new(void);

/* Ends the readers, closes the files. */
void inlines_free(struct inlines *in);

/*
 * inlines_add() - a file that has debug information.
 * @file: the caller's number for it, new
 * @fd: of an ELF file with .debug_info, or of the separate debug file of one; regular, open for
 *      reading, not remote; taken over, also on failure
 *
 * Its reader is started at the first question about it.
 * Return: 0, -EEXIST, -EMFILE: there are as many files as we keep open, or -ENOMEM.
 */
int inlines_add(struct inlines *in, __u32 file, int fd);

/*
 * inlines_find() - the calls inlined at one address, innermost first: in the order of printed
 * frames, before the function that the symbol table has there, which is not among them.
 * @file: as given to inlines_add(); one that was not is no error
 * @vaddr: in the file's own address space, the same in a separate debug file; of a return address
 *         the byte before it
 * @names: raw linkage names (for the demangler) or, where a language has none, plain ones, as
 *         addr2line -f -i has them; not empty; valid until the next call
 *
 * Waits for at most a second, and for one file at most ten in all; then, or when its reader dies,
 * the file is given up, which is said once.
 * Return: how many; 0: none, or not known; -EAGAIN: not answered in time, as the first question may
 * be where a busy machine has a large file to read: better not remembered, but asked again.
 */
int inlines_find(struct inlines *in, __u32 file, __u64 vaddr, const char *const **names);

/* For --stats. */
struct inlines_report {
	__u64 files;		/* added */
	__u64 given_up;		/* of them */
	__u64 damaged;		/* of them, where some code's debug information cannot be read */
	__u64 queries;
	__u64 answered;		/* with one call or more */
	__u64 late;		/* not answered in time */
	__u64 started;		/* readers */
	__u64 time_ns;		/* spent waiting */
};

void inlines_report(const struct inlines *in, struct inlines_report *out);

/*
 * inlines_parse_answer() - check what a reader sent. Pure; a reader may be in the hands of its file.
 * @number: of the query
 * @names: room for INLINE_MAX_CALLS; they point into @answer
 * Return: how many names, -EAGAIN: the answer to another query, or -EINVAL.
 */
int inlines_parse_answer(const void *answer, size_t len, __u64 number, const char **names);

#endif
