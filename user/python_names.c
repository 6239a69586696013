// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *python_name(struct strset *strings, const struct python_style *style,
			const struct python_place *place)
{
	const char *file = style->full_filenames ? place->file : short_file(place->file);
	const char *name;
	char line[16] = "";
	char *text;

	if (place->line > 0 && !style->no_lines)
		snprintf(line, sizeof(line), ":%s%d", place->coarse ? "~" : "", place->line);
	if (asprintf(&text, "%s (%s%s)", place->function, file, line) < 0)
		return NULL;
	name = strset_add(strings, text);
	free(text);
	return name;
}

bool python_is_cleanup(const struct python_place *place)
{
	return !place->line && !strcmp(place->function, "__init__") &&
	       !strcmp(place->file, "__init__");
}
