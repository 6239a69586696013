// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_reasons.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "modules.h"

#define MAX_SAID 4096	/* (file, reason) */

void python_reasons_init(struct python_reasons *r)
{
	*r = (struct python_reasons){ 0 };
	idmap_init(&r->said);
}

void python_reasons_fini(struct python_reasons *r)
{
	idmap_fini(&r->said);
}

/* An address is another one in each process of a program. */
static __u64 hash_without_addresses(const char *text)
{
	__u64 h = 14695981039346656037ULL;

	while (*text) {
		const bool is_address = !strncmp(text, "0x", 2);

		h = (h ^ (unsigned char)*text++) * 1099511628211ULL;
		if (is_address)
			for (text++; isxdigit((unsigned char)*text);)
				text++;
	}
	return h;
}

bool python_reasons_say(struct python_reasons *r, enum log_level level,
			const struct modules *modules, __u32 tgid,
			const struct python_reason *reason)
{
	const char *name = modules_name(modules, reason->of.module);
	const __u64 hash = hash_without_addresses(reason->why);
	char version[64], *escaped;
	__u32 before;

	if (r->is_full || idmap_find(&r->said, reason->of.module, hash, &before))
		return false;
	r->is_full = r->said.n_used >= MAX_SAID || idmap_put(&r->said, reason->of.module, hash, 1);
	if (r->is_full) {
		log_msg(level, "more interpreters cannot be read than are named here: "
			       "further ones are only counted (--stats)");
		return false;
	}
	python_version_text(reason->of.file.kind, reason->version, version, sizeof(version));
	escaped = escape_string(name, strlen(name));
	log_msg(level, "process %u: %s in %s: %s; only native frames", tgid, version,
		escaped ? escaped : "?", reason->why);
	free(escaped);
	return true;
}
