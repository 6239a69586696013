/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which table it is that a process has, and its words. */
#include "python_table.h"

#include <errno.h>
#include <string.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define FINAL 0xf0u		/* level of PY_VERSION_HEX */

static const char cookie[8] = { 'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y' };

static const struct python_version versions[] = {
	{ 9, PYTHON_IN_BUILTIN, RPROF_PYTHON_FRAME_OBJECTS | RPROF_PYTHON_LASTI_BYTES, 0, 0 },
	{ 10, PYTHON_IN_BUILTIN, RPROF_PYTHON_FRAME_OBJECTS, 0, 0 },
	{ 11, PYTHON_IN_BUILTIN, RPROF_PYTHON_CFRAME | RPROF_PYTHON_IS_ENTRY, 0, 0 },
	{ 12, PYTHON_IN_BUILTIN,
	  RPROF_PYTHON_CFRAME | RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION, 0, 0 },
	{ 13, PYTHON_IN_3_13, RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION, 0, 0 },
	{ 14, PYTHON_IN_3_14,
	  RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION | RPROF_PYTHON_GENERATION, 232, 272 },
	{ 15, PYTHON_IN_3_15,
	  RPROF_PYTHON_STATUS | RPROF_PYTHON_CODE_VERSION | RPROF_PYTHON_GENERATION |
		  RPROF_PYTHON_BASE_FRAME | RPROF_PYTHON_GC_FRAME,
	  256, 304 },
};

const struct python_version *python_version_of(__u32 hex)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		if (hex >> 16 == (3u << 8 | versions[i].minor))
			return &versions[i];
	}
	return NULL;
}

static const char *level_of(__u32 hex)
{
	switch (hex & 0xf0) {
	case 0xa0:
		return "a";
	case 0xb0:
		return "b";
	case 0xc0:
		return "rc";
	default:
		return "?";
	}
}

int python_version_check(__u32 hex, char why[PYTHON_WHY])
{
	const unsigned int major = hex >> 24, minor = hex >> 16 & 0xff, micro = hex >> 8 & 0xff;

	if (!python_version_of(hex)) {
		snprintf(why, PYTHON_WHY, "Python %u.%u is not supported (3.9 to 3.15 are)", major,
			 minor);
		return -ENOTSUP;
	}
	/* Of 3.9 and 3.10 there may be no more known than that. */
	if ((hex & 0xf0) == FINAL || (minor <= 10 && !(hex & 0xffff)))
		return 0;
	snprintf(why, PYTHON_WHY, "Python %u.%u.%u%s%u is a pre-release that is not known", major,
		 minor, micro, level_of(hex), hex & 0xf);
	return -ENOTSUP;
}

static __u64 head_word(const void *bytes, size_t at)
{
	__u64 word;

	memcpy(&word, (const char *)bytes + at, sizeof(word));
	return word;
}

/* Cookie, version, free_threaded: which table it is. */
static int read_head(const void *bytes, size_t size, __u32 *version, bool *free_threaded,
		     char why[PYTHON_WHY])
{
	__u64 word;
	int err;

	if (size < sizeof(cookie) || memcmp(bytes, cookie, sizeof(cookie))) {
		snprintf(why, PYTHON_WHY, "debug offsets: no cookie");
		return -ENOENT;
	}
	if (size < PYTHON_TABLE_HEAD) {
		snprintf(why, PYTHON_WHY, "debug offsets: cut off after %zu bytes", size);
		return -EINVAL;
	}
	word = head_word(bytes, 8);
	if (word >> 32) {
		snprintf(why, PYTHON_WHY, "debug offsets: version %#llx is none",
			 (unsigned long long)word);
		return -EINVAL;
	}
	err = python_version_check((__u32)word, why);
	if (err)
		return err;
	*version = (__u32)word;
	word = head_word(bytes, 16);
	if (word > 1) {
		snprintf(why, PYTHON_WHY, "debug offsets: free_threaded %llu is neither 0 nor 1",
			 (unsigned long long)word);
		return -EINVAL;
	}
	*free_threaded = word;
	return 0;
}

int python_table_read(const void *bytes, size_t size, struct python_words *w, __u32 *version,
		      char why[PYTHON_WHY])
{
	const struct python_version *v;
	bool free_threaded;
	int err;

	err = read_head(bytes, size, version, &free_threaded, why);
	if (err)
		return err;
	v = python_version_of(*version);
	if (v->in == PYTHON_IN_BUILTIN ||
	    size < python_fields_size(python_fields, n_python_fields, v->in, PYTHON_TABLE_HEAD)) {
		snprintf(why, PYTHON_WHY, "debug offsets: %zu bytes are no table of Python 3.%u",
			 size, v->minor);
		return -EINVAL;
	}
	w->source = "debug offsets";
	w->flags = v->flags | (free_threaded ? RPROF_PYTHON_FREE_THREADED : 0);
	python_fields_read(python_fields, n_python_fields, v->in, PYTHON_TABLE_HEAD, bytes, w);
	return python_fields_check(python_fields, n_python_fields, w, why);
}
