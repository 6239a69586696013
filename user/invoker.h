/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Who called sudo: to whom output files belong and as whom commands run. */
#ifndef RPROF_INVOKER_H
#define RPROF_INVOKER_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * invoker_ids() - SUDO_UID and SUDO_GID, if we are root and they name somebody else.
 *
 * Return: false: we are not root, or not by sudo, or by root's own sudo; nothing is to be given
 * away then. The variables are believed, as sudo's own plugins do: whoever can set them for a root
 * process is root.
 */
bool invoker_ids(uid_t *uid, gid_t *gid);

/* May a file of this owner be replaced? As root: root's and the invoker's; else the kernel knows. */
bool invoker_may_replace(uid_t owner);

#endif
