// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "invoker.h"

#include <stdlib.h>
#include <unistd.h>

/* (uid_t)-1 means "unchanged" to chown() and setresuid(): never an id. */
#define ID_MAX 0xfffffffeul

static bool parse_id(const char *name, unsigned long *id)
{
	const char *s = getenv(name);
	unsigned long value = 0;

	if (!s || !*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		value = value * 10 + (*s - '0');
		if (value > ID_MAX)
			return false;
	}
	*id = value;
	return true;
}

bool invoker_ids(uid_t *uid, gid_t *gid)
{
	unsigned long u, g;

	/* Both: in a set-user-ID program the variables would be the caller's choice. */
	if (getuid() != 0 || geteuid() != 0)
		return false;
	if (!parse_id("SUDO_UID", &u) || !parse_id("SUDO_GID", &g) || !u)
		return false;
	*uid = u;
	*gid = g;
	return true;
}

bool invoker_may_replace(uid_t owner)
{
	uid_t uid;
	gid_t gid;

	if (geteuid() != 0 || owner == 0)
		return true;
	return invoker_ids(&uid, &gid) && owner == uid;
}
