// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_find.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_dynamic.h"
#include "elf_file.h"

#define PAGE 4096		/* the ELF header and the program headers are in the first */
#define SCAN_CHUNK 65536
#define RUNTIME_ALIGN 32	/* of _PyRuntime, 3.13 to 3.15 */

static bool has(struct elf_dynamic *d, const char *name)
{
	Elf64_Sym sym;

	return elf_dynamic_find(d, name, &sym);
}

static __u64 address(struct elf_dynamic *d, const char *name)
{
	Elf64_Sym sym;

	return elf_dynamic_find(d, name, &sym) ? sym.st_value : 0;
}

/*
 * Py_Version is there from 3.11 on. Before that the parts of the stable API say which version it is:
 * PyIter_Send() came with 3.10, Py_GenericAliasType with 3.9.
 */
static __u32 version_of(struct elf_dynamic *d)
{
	const __u64 at = address(d, "Py_Version");
	__u64 version;

	if (at)
		return elf_image_read(d->image, at, &version, sizeof(version)) && !(version >> 32) ?
			       (__u32)version :
			       0;
	if (has(d, "PyIter_Send"))
		return 0x030a0000;
	return has(d, "Py_GenericAliasType") ? 0x03090000 : 0x03080000;
}

/* Exported only if built so: Include/object.h, Include/cpython/object.h, pycore_jit.h, pycore_optimizer.h. */
static void read_build(struct elf_dynamic *d, struct python_file *out)
{
	struct python_build *b = &out->build;

	out->exports = true;
	out->code_type = address(d, "PyCode_Type");
	b->version = version_of(d);
	b->debug = has(d, "_Py_NegativeRefcount");
	b->free_threaded = has(d, "_Py_MergeZeroLocalRefcount");
	/* From 3.14 on every build has it, and the table of 3.13 says where things are. */
	b->trace_refs = b->version < 0x030d0000 && has(d, "_Py_ForgetReference");
	out->has_jit = has(d, "_PyJIT_Entry") || has(d, "_Py_Executor_DependsOn");
}

static void look_at_exports(struct elf_dynamic *d, struct python_file *out)
{
	/* Its compatibility layer exports some of the rest as well. */
	if (has(d, "PyPy_Version") || has(d, "pypy_main_startup")) {
		out->kind = PYTHON_PYPY;
	} else if (has(d, "initialize_graal_capi")) {
		out->kind = PYTHON_GRAALPY;
	} else if ((out->runtime = address(d, "_PyRuntime"))) {
		read_build(d, out);
		out->kind = out->build.version && out->build.version < 0x03090000 ? PYTHON_OLD :
										    PYTHON_CPYTHON;
	} else if (has(d, "PyString_Type") && has(d, "PyEval_EvalFrameEx")) {
		out->kind = PYTHON_2;
	} else if (has(d, "PyEval_EvalFrameEx")) {
		/* Up to 3.6 there is none. Else a section or the cookie may say where it is. */
		read_build(d, out);
		if (out->build.version && out->build.version < 0x03090000)
			out->kind = PYTHON_OLD;
	}
}

/* An embedder that exports nothing still has the section, also when it is stripped. */
static void look_at_sections(const struct elf_file *f, struct python_file *out)
{
	const Elf64_Shdr *runtime = elf_file_named(f, ".PyRuntime");
	const Elf64_Shdr *asyncio = elf_file_named(f, ".AsyncioDebug");

	if (asyncio)
		out->asyncio = asyncio->sh_addr;
	if (!runtime || out->kind != PYTHON_NONE)
		return;
	out->kind = PYTHON_CPYTHON;
	out->runtime = runtime->sh_addr;
}

void python_find_file(struct elf_file *f, struct python_file *out)
{
	struct elf_image image;
	struct elf_dynamic d;

	*out = (struct python_file){ 0 };
	elf_image_init(&image, f, NULL, 0);
	if (!elf_dynamic_open(&d, &image))
		look_at_exports(&d, out);
	if (!elf_file_read_sections(f))
		look_at_sections(f, out);
}

/* Where the file's first byte would be, in its own addresses. */
static bool first_address(const struct elf_file *f, __u64 *vaddr)
{
	for (size_t i = 0; i < f->n_phdrs; i++) {
		if (f->phdrs[i].p_type == PT_LOAD && f->phdrs[i].p_offset < PAGE) {
			*vaddr = f->phdrs[i].p_vaddr - f->phdrs[i].p_offset;
			return true;
		}
	}
	return false;
}

int python_find_memory(const struct python_memory *m, __u64 start, struct python_file *out,
		       __u64 *bias)
{
	unsigned char page[PAGE];
	struct elf_dynamic d;
	struct elf_file f;
	__u64 vaddr;
	int err;

	if (!python_read(m, start, page, sizeof(page)))
		return -EINVAL;
	err = elf_file_open_bytes(&f, page, sizeof(page));
	if (err)
		return err == -ENOMEM ? err : -EINVAL;
	if (first_address(&f, &vaddr)) {
		struct elf_image image;

		*out = (struct python_file){ 0 };
		*bias = start - vaddr;
		elf_image_init(&image, &f, m, *bias);
		if (!elf_dynamic_open(&d, &image))
			look_at_exports(&d, out);
	} else {
		err = -EINVAL;
	}
	elf_file_fini(&f);
	return err;
}

__u64 python_find_cookie(const struct python_memory *m, __u64 start, __u64 end, __u64 *left)
{
	const __u64 limit = end - start < *left ? end : start + *left;
	char *chunk = malloc(SCAN_CHUNK);
	__u64 found = 0;

	for (__u64 at = start; chunk && !found && at < limit; at += SCAN_CHUNK) {
		size_t size = limit - at < SCAN_CHUNK ? limit - at : SCAN_CHUNK;

		if (!python_read(m, at, chunk, size))
			continue;
		for (size_t i = 0; !found && i + 8 <= size; i += RUNTIME_ALIGN) {
			if (!memcmp(chunk + i, "xdebugpy", 8))
				found = at + i;
		}
	}
	free(chunk);
	*left -= limit - start;
	return found;
}

void python_version_text(enum python_kind kind, __u32 hex, char *buf, size_t size)
{
	static const char *const names[] = {
		[PYTHON_NONE] = "Python",
		[PYTHON_CPYTHON] = "Python",
		[PYTHON_OLD] = "Python 3.8 or older",
		[PYTHON_2] = "Python 2",
		[PYTHON_PYPY] = "PyPy",
		[PYTHON_GRAALPY] = "GraalPy",
	};
	static const char *const levels[16] = { [0xa] = "a", [0xb] = "b", [0xc] = "rc" };
	const char *level = levels[(hex >> 4) & 0xf];
	int n = snprintf(buf, size, "%s", names[kind]);

	if (kind != PYTHON_CPYTHON || !hex || n < 0 || (size_t)n >= size)
		return;
	buf += n;
	size -= (size_t)n;
	n = snprintf(buf, size, " %u.%u", hex >> 24, (hex >> 16) & 0xff);
	if (n < 0 || (size_t)n >= size)
		return;
	buf += n;
	size -= (size_t)n;
	/* Of 3.9 and 3.10 no more is known. */
	if (level)
		snprintf(buf, size, ".%u%s%u", (hex >> 8) & 0xff, level, hex & 0xf);
	else if (hex & 0xffff)
		snprintf(buf, size, ".%u", (hex >> 8) & 0xff);
}
