// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rprof/stop.h"
#include "rprof/record.h"

#include "python_codes.h"
#include "strset.h"

/* "/usr/lib/python3.15/json/decoder.py" -> "json/decoder.py"; "<string>" is no path. */
static const char *short_file(const char *file)
{
	const char *at = file + strlen(file);
	int slashes = 0;

	if (*file == '<')
		return file;
	while (at > file) {
		if (at[-1] == '/' && ++slashes == 2)
			return at;
		at--;
	}
	return file;
}

/*
 * How much of a text is shown: a program may make any number of long ones. A continuation byte of
 * UTF-8 is not where it may be cut.
 */
#define SHOWN 512

static bool is_inside(char c)
{
	return (c & 0xc0) == 0x80;
}

/* The start of a name; *@dots: there is more. */
static int shown_start(const char *text, const char **dots)
{
	size_t len = strnlen(text, SHOWN + 1);

	*dots = len > SHOWN ? "..." : "";
	if (len <= SHOWN)
		return (int)len;
	for (len = SHOWN; len && is_inside(text[len]); len--)
		;
	return (int)len;
}

/* The end of a path. */
static const char *shown_end(const char *text, const char **dots)
{
	size_t len = strlen(text);

	*dots = len > SHOWN ? "..." : "";
	if (len <= SHOWN)
		return text;
	for (text += len - SHOWN; is_inside(*text); text++)
		;
	return text;
}

const char *python_name(struct strset *strings, const struct python_style *style,
			const struct python_place *place)
{
	const char *file = style->full_filenames ? place->file : short_file(place->file);
	const char *name, *more, *before;
	char line[16] = "";
	int len = shown_start(place->function, &more);
	char *text;

	if (place->line > 0 && !style->no_lines)
		snprintf(line, sizeof(line), ":%s%d", place->coarse ? "~" : "", place->line);
	file = shown_end(file, &before);
	if (asprintf(&text, "%.*s%s (%s%s%s)", len, place->function, more, before, file, line) < 0)
		return NULL;
	name = strset_add(strings, text);
	free(text);
	return name;
}

struct python_recent_name *python_recent_at(struct python_recent *r, __u32 tgid,
					    const struct rprof_python_frame *f, const char **name)
{
	__u64 h = (f->code ^ (__u64)f->where << 32 ^ f->fingerprint) * 0x9e3779b97f4a7c15ULL;
	struct python_recent_name *at = &r->names[(h >> 40) % PYTHON_RECENT];

	*name = at->code == f->code && at->tgid == tgid && at->fingerprint == f->fingerprint &&
				at->where == f->where ?
			at->name :
			NULL;
	return at;
}

void python_recent_put(struct python_recent_name *at, __u32 tgid,
		       const struct rprof_python_frame *f, const char *name)
{
	*at = (struct python_recent_name){
		.code = f->code,
		.tgid = tgid,
		.fingerprint = f->fingerprint,
		.where = f->where,
		.name = name,
	};
}

void python_recent_begin(struct python_recent *r, __u64 changes)
{
	if (r->changes == changes)
		return;
	memset(r, 0, sizeof(*r));
	r->changes = changes;
}

bool python_is_cleanup(const struct python_place *place)
{
	return !place->line && !strcmp(place->function, "__init__") &&
	       !strcmp(place->file, "__init__");
}
