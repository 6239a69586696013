// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The files that a process executes: where their names come from, whether stacks go through them,
 * and which runtimes they are. All bounded: a process may map tens of thousands of hostile files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "check_parts.h"
#include "check_report.h"
#include "escape.h"
#include "idmap.h"
#include "module.h"
#include "module_file.h"
#include "monotonic.h"
#include "proc_maps.h"
#include "runtimes.h"
#include "target_file.h"

#define MAX_FILES 1024		/* looked at, of one process */
#define MAX_NS 20000000000ULL	/* time for them */
#define JITDUMP_MAGIC 0x4a695444 /* tools/perf/Documentation/jitdump-specification.txt */
#define MAX_TABLES (1ULL << 30)	/* bytes of symbols and rules, of all files */

struct survey {
	struct check_report *report;
	int proc_dir, root_fd;
	struct idmap places;	/* of devices, for module_file_find() */
	struct idmap seen;	/* (inode, device) */
	__u64 budget;
	__u64 deadline_ns;
	size_t n_files, n_skipped;
	struct runtimes runtimes;	/* in any of them */
};

static bool has_all_names(const struct module_report *m)
{
	return m->n_sources > 1 || (m->n_sources == 1 && m->sources[0] != SYMBOLS_DYNSYM);
}

static bool is_debuginfod_set(void)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	return urls && *urls;
}

/* "names: .dynsym, .gnu_debugdata" */
static void put_names(FILE *f, const struct module_report *m)
{
	if (!m->n_sources)
		fprintf(f, "no names: %s", m->why_none ? m->why_none : "no symbol table");
	for (unsigned int i = 0; i < m->n_sources; i++)
		fprintf(f, "%s%s", i ? ", " : "names: ", symbol_source_name(m->sources[i]));
	if (m->n_sources == 1 && m->sources[0] == SYMBOLS_DYNSYM)
		fputs(" (exported functions only)", f);
	/* It may take minutes, and gigabytes. */
	if (!has_all_names(m) && is_debuginfod_set())
		fputs(" (a run asks debuginfod, too)", f);
}

static void put_chain(FILE *f, const struct module_report *m)
{
	if (!m->keeps_fp_known)
		fputs("; no unwind data: stacks end in it", f);
	else if (!m->keeps_fp)
		fputs("; no " ARCH_LINK "s: most stacks end in it", f);
	else
		fputs("; " ARCH_LINK "s", f);
}

static void put_build_id(FILE *f, const struct module_report *m)
{
	if (!m->build_id_len)
		return;
	fputs("; build id ", f);
	for (unsigned int i = 0; i < m->build_id_len; i++)
		fprintf(f, "%02x", m->build_id[i]);
}

static const char *advice_for(const struct module_report *m)
{
	const bool names = has_all_names(m);
	const bool chain = m->keeps_fp_known && m->keeps_fp;

	if (names && chain)
		return NULL;
	if (names)
		return "build it with " ARCH_LINK_FLAG;
	if (chain)
		return "install its debug symbols (-dbgsym, -debuginfo)";
	return "build it with " ARCH_LINK_FLAG ", install its debug symbols";
}

static void report_module(struct survey *s, const char *subject, const struct module_report *m,
			  const char *note)
{
	const char *advice = advice_for(m);
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	put_names(f, m);
	put_chain(f, m);
	fputs(note, f);
	put_build_id(f, m);
	if (!fclose(f))
		check_add(s->report, advice ? CHECK_DEGRADED : CHECK_FINE, subject, advice, "%s",
			  text);
	free(text);
}

/* Takes @fd. */
static void look_at_module(struct survey *s, const char *subject, const char *path, int fd,
			   const char *note)
{
	const struct module_search where = {
		.root_fd = s->root_fd,
		.path = path,
	};
	struct module_report report;
	struct runtimes found;
	__u32 magic = 0;
	struct module *m;

	if (pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) && magic == JITDUMP_MAGIC) {
		check_add(s->report, CHECK_FINE, subject, NULL,
			  "a jitdump: names of run-time code");
		close(fd);
		return;
	}
	runtimes_read(fd, &found);
	s->runtimes.go |= found.go;
	s->runtimes.ocaml |= found.ocaml;
	s->runtimes.node |= found.node;
	if (module_open(fd, &m)) {
		check_add(s->report, CHECK_DEGRADED, subject, "nothing to do",
			  "not a 64-bit ELF file of this machine: no names, stacks end in it");
		return;
	}
	if (module_load_within(m, &where, &s->budget) == -E2BIG) {
		s->n_skipped++;
	} else {
		module_report(m, &report);
		report_module(s, subject, &report, note);
	}
	module_free(m);
}

/* Is another file at its path by now? */
static const char *note_of(const struct survey *s, const struct module_file *f, const char *path)
{
	struct stat st;
	int fd;

	if (f->st.st_nlink || strncmp(path, "/memfd:", 7) == 0)
		return "";
	fd = s->root_fd < 0 ? -1 : target_file_open_below(s->root_fd, path, &st);
	if (fd < 0)
		return "; deleted from disk, read all the same";
	close(fd);
	return "; replaced on disk, the old one is read";
}

static void look_at_file(struct survey *s, const struct maps_entry *e, const char *path)
{
	char *subject = escape_string(path, strlen(path));
	/* The mark was cut off. */
	const bool deleted = e->path_len > strlen(path);
	struct module_file f;

	module_file_find(&f, s->proc_dir, e, path, &s->places);
	module_file_open(&f, e, path);
	if (subject && f.fd >= 0)
		look_at_module(s, subject, path, f.fd, f.has_stat ? note_of(s, &f, path) : "");
	else if (subject)
		check_add(s->report, CHECK_DEGRADED, subject,
			  "see the rights above; start it from a local file system",
			  "not opened: %s: no names, stacks end in it",
			  deleted ? "deleted from disk, and the mapping itself cannot be opened" :
			  f.why	  ? f.why :
				    "not known why");
	if (!subject && f.fd >= 0)
		close(f.fd);
	module_file_close(&f);
	free(subject);
}

static void look_at(struct survey *s, const struct maps_entry *e)
{
	__u64 device = (__u64)e->dev_major << 32 | e->dev_minor;
	char *path = e->executable ? module_file_path(e) : NULL;
	__u32 before;

	/* What the kernel itself maps it names itself. */
	if (!path || path[0] != '/' || idmap_find(&s->seen, e->inode, device, &before)) {
		free(path);
		return;
	}
	idmap_put(&s->seen, e->inode, device, 1);
	if (s->n_files >= MAX_FILES || monotonic_ns() > s->deadline_ns) {
		s->n_skipped++;
	} else {
		s->n_files++;
		look_at_file(s, e, path);
	}
	free(path);
}

static void report_runtimes(struct check_report *r, const struct runtimes *found)
{
	if (found->ocaml)
		check_add(r, CHECK_FINE, "OCaml", NULL,
			  "native code: its functions have the names that the linker has");
	if (found->go)
		check_add(r, CHECK_FINE, "Go", NULL, "names are of .symtab, not of .gopclntab");
	if (found->node)
		check_add(r, CHECK_FINE, "Node.js", NULL,
			  "JavaScript has names only with a perf map: see \"run-time code\"");
}

void check_files(struct check_report *r, __u32 pid, int proc_dir, const struct proc_maps *maps)
{
	struct survey s = {
		.report = r,
		.proc_dir = proc_dir,
		.root_fd = openat(proc_dir, "root", O_PATH | O_DIRECTORY | O_CLOEXEC),
		.budget = MAX_TABLES,
		.deadline_ns = monotonic_ns() + MAX_NS,
	};

	idmap_init(&s.places);
	idmap_init(&s.seen);
	check_group(r, "process %u: files", pid);
	for (size_t i = 0; i < maps->n; i++)
		look_at(&s, &maps->entries[i]);
	if (s.n_skipped)
		check_add(r, CHECK_DEGRADED, "more files",
			  "nothing to do: they are too many or too large", "%zu were not looked at",
			  s.n_skipped);
	check_group(r, "process %u: runtimes", pid);
	check_python(r, pid);
	report_runtimes(r, &s.runtimes);
	idmap_fini(&s.seen);
	idmap_fini(&s.places);
	if (s.root_fd >= 0)
		close(s.root_fd);
}
