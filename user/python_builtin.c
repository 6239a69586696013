/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python_builtin.h"

#include <errno.h>

#include "python_builtin_tables.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Offsets, unlike sizes, were the same in all final releases of a minor version, and are the same on
 * x86-64 and s390x: DWARF of Debian's 3.11 for it, and of the headers of the others compiled for it
 * (scripts/python-layouts.py check).
 */
static const struct {
	unsigned int minor;
	const __u32 *words;
	size_t n;
} layouts[] = {
	{ 9, layout_3_9, ARRAY_SIZE(layout_3_9) },
	{ 10, layout_3_10, ARRAY_SIZE(layout_3_10) },
	{ 11, layout_3_11, ARRAY_SIZE(layout_3_11) },
	{ 12, layout_3_12, ARRAY_SIZE(layout_3_12) },
};

int python_builtin_words(unsigned int minor, struct python_words *w)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		if (layouts[i].minor != minor || layouts[i].n != n_python_fields)
			continue;
		for (size_t j = 0; j < layouts[i].n; j++) {
			w->has[j] = layouts[i].words[j] != PYTHON_ABSENT;
			w->value[j] = w->has[j] ? layouts[i].words[j] : 0;
		}
		return 0;
	}
	return -ENOENT;
}
