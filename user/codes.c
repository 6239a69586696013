// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * No name without proof: an address beyond the end of every known function is "module+0xADDRESS"
 * (as addr2line -e takes it), code without a file "[anon]", and an address in no mapping "[unknown]".
 */
#include "codes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "demangle.h"
#include "idmap.h"
#include "inlines.h"
#include "ksyms.h"
#include "located.h"
#include "modules.h"
#include "monotonic.h"
#include "strset.h"
#include "symbol_name.h"

/* Then all are forgotten and looked up again; files that are gone leave theirs behind. */
#define MAX_CODES (1u << 20)

/* A code, with the place of its inlined names instead of a pointer. */
struct known {
	struct code code;
	size_t first_inlined;
};

struct codes {
	struct codes_config config;
	struct idmap by_address; /* (address, module; 0: kernel) to an index of items */
	struct known *items;
	size_t n, cap;
	const char **inlined;
	size_t n_inlined, cap_inlined;
	struct idmap dwarf_given;	/* modules whose debug information the inliner has */
	struct inlines *inliner;
	struct codes_stats stats;
};

struct codes *codes_new(const struct codes_config *config)
{
	struct codes *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->config = *config;
	idmap_init(&c->by_address);
	idmap_init(&c->dwarf_given);
	if (config->inlines) {
		c->inliner = inlines_new();
		if (!c->inliner) {
			free(c);
			return NULL;
		}
	}
	return c;
}

void codes_free(struct codes *c)
{
	if (!c)
		return;
	inlines_free(c->inliner);
	idmap_fini(&c->by_address);
	idmap_fini(&c->dwarf_given);
	free(c->items);
	free(c->inlined);
	free(c);
}

void codes_inlines(const struct codes *c, struct inlines_report *out)
{
	memset(out, 0, sizeof(*out));
	if (c->inliner)
		inlines_report(c->inliner, out);
}

const struct codes_stats *codes_stats(const struct codes *c)
{
	return &c->stats;
}

static void forget_all(struct codes *c)
{
	idmap_fini(&c->by_address);
	c->n = 0;
	c->n_inlined = 0;
}

static int remember(struct codes *c, __u64 addr, __u64 module, const struct code *code)
{
	struct known *grown;

	grown = array_grow(c->items, &c->cap, c->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	c->items = grown;
	grown[c->n] = (struct known){ .code = *code, .first_inlined = c->n_inlined };
	c->n_inlined += code->n_inlined;
	return idmap_put(&c->by_address, addr, module, (__u32)c->n++);
}

static bool recall(struct codes *c, __u64 addr, __u64 module, struct code *code)
{
	__u32 i;

	c->stats.lookups++;
	if (!idmap_find(&c->by_address, addr, module, &i))
		return false;
	c->stats.hits++;
	*code = c->items[i].code;
	code->inlined = c->inlined + c->items[i].first_inlined;
	return true;
}

/* Without what the compiler appended, as in files (elf_symbols.c). */
static const char *kernel_name(struct codes *c, const char *symbol)
{
	char name[512]; /* KSYM_NAME_LEN */

	snprintf(name, sizeof(name), "%.*s", (int)symbol_base_length(symbol, strlen(symbol)),
		 symbol);
	return strset_add(c->config.strings, name);
}

int codes_kernel(struct codes *c, __u64 addr, struct code *code)
{
	const char *name;

	if (recall(c, addr, 0, code))
		return 0;
	memset(code, 0, sizeof(*code));
	name = c->config.ksyms ? ksyms_look(c->config.ksyms, addr) : NULL;
	code->symbolized = name;
	code->name = name ? kernel_name(c, name) : strset_add(c->config.strings, "[unknown]");
	if (!code->name)
		return -ENOMEM;
	/* A name stays; what has none may be too new for the table, and get one yet. */
	return name ? remember(c, addr, 0, code) : 0;
}

/* As it is printed; NULL: no memory. */
static const char *readable(struct codes *c, const char *symbol)
{
	char *name = c->config.demangle ? demangle(symbol) : NULL;
	const char *interned = strset_add(c->config.strings, name ? name : symbol);

	free(name);
	return interned;
}

/* Behind those that are remembered; remember() takes them over. */
static int find_inlined(struct codes *c, const struct located_frame *f, struct code *code)
{
	const char *const *names;
	const char **grown;
	__u32 known;
	int n, fd;

	if (!idmap_find(&c->dwarf_given, f->module, 0, &known)) {
		if (idmap_put(&c->dwarf_given, f->module, 0, 1))
			return -ENOMEM;
		fd = modules_take_dwarf(c->config.modules, f->module);
		if (fd >= 0)
			inlines_add(c->inliner, f->module, fd);
	}
	n = inlines_find(c->inliner, f->module, f->vaddr, &names);
	/* -EAGAIN: the answer did not come in time, and is to be asked for again. */
	if (n <= 0)
		return n == -EAGAIN ? n : 0;
	grown = array_grow(c->inlined, &c->cap_inlined, c->n_inlined + (size_t)n, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	c->inlined = grown;
	for (int i = 0; i < n; i++) {
		const char *name = readable(c, names[i]);

		if (!name)
			return -ENOMEM;
		grown[c->n_inlined + (size_t)i] = name;
	}
	code->inlined = grown + c->n_inlined;
	code->n_inlined = (size_t)n;
	return 0;
}

/* "module+0xADDRESS" */
static const char *place_name(struct codes *c, const char *module, __u64 vaddr)
{
	char text[512];

	snprintf(text, sizeof(text), "%s+0x%llx", module, vaddr);
	return strset_add(c->config.strings, text);
}

/* -EAGAIN: as far as it is known now. */
static int file_code(struct codes *c, const struct located_frame *f, struct module *module,
		     struct code *code)
{
	const char *symbol = NULL;
	__u64 start;
	int err = 0;

	if (module && f->in_file) {
		symbol = module_symbol(module, f->vaddr, &start);
		cfi_rule_at(module, f->vaddr, &code->rule);
		/* The kernel side takes the way through a wrapper in the vDSO alone. */
		if (code->rule.wrapper && strcmp(code->module, "[vdso]") != 0)
			code->rule.state = CFI_FP_LOST;
	}
	code->symbolized = symbol;
	if (symbol && c->inliner)
		err = find_inlined(c, f, code);
	if (err && err != -EAGAIN)
		return err;
	code->name = symbol ? readable(c, symbol) : place_name(c, code->module, f->vaddr);
	return code->name ? err : -ENOMEM;
}

/* Memory without a file, or no memory: what is there later need not be what is there now. */
static int nameless_code(struct codes *c, const char *what, const char *name, struct code *code)
{
	code->module = strset_add(c->config.strings, what);
	code->name = name ? readable(c, name) : code->module;
	code->symbolized = name;
	return code->name && code->module ? 0 : -ENOMEM;
}

void codes_want(struct codes *c, const struct located_frame *f)
{
	struct module *module;

	if (f->kind == LOCATED_FILE)
		modules_get(c->config.modules, f->module, &module);
}

int codes_native(struct codes *c, const struct located_frame *f, bool force, struct code *code)
{
	/* An offset in a file is no address in it. */
	__u64 key = (__u64)f->module << 1 | f->in_file;
	struct module *module = NULL;
	bool being_read;
	__u64 begin;
	int err;

	memset(code, 0, sizeof(*code));
	if (c->n >= MAX_CODES)
		forget_all(c);
	if (f->kind == LOCATED_UNKNOWN)
		return nameless_code(c, "[unknown]", NULL, code);
	if (f->kind == LOCATED_ANON)
		return nameless_code(c, "[anon]", f->name, code);
	if (recall(c, f->vaddr, key, code))
		return 0;
	memset(code, 0, sizeof(*code));
	begin = monotonic_ns();
	err = modules_get(c->config.modules, f->module, &module);
	being_read = err == -EAGAIN;
	if (being_read && !force)
		return err;
	code->module = strset_add(c->config.strings, modules_name(c->config.modules, f->module));
	if (!code->module)
		return -ENOMEM;
	err = file_code(c, f, err ? NULL : module, code);
	/* What is not all that there is to know is not remembered. */
	if (!err && !being_read)
		err = remember(c, f->vaddr, key, code);
	c->stats.ns += monotonic_ns() - begin;
	return err == -EAGAIN && force ? 0 : err;
}
