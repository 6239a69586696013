/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Debug files from a server, by elfutils' client library, which is loaded only when it is used. */
#ifndef RPROF_DEBUGINFOD_H
#define RPROF_DEBUGINFOD_H

#include <stdbool.h>

#include "elf_note.h"

/* Did the user ask for it (DEBUGINFOD_URLS in the environment is set and not empty)? */
bool debuginfod_is_wanted(void);

/*
 * debuginfod_fetch() - the debug file of a build id, from the client's cache or a server.
 * @stop: may be NULL; set by another thread: give up
 *
 * Blocks, at most DEBUGINFOD_SECONDS. Writes to the client's cache ($HOME/.cache/debuginfod_client).
 * Return: descriptor or -errno (-ENOENT: not wanted, no such library, or not there).
 */
#define DEBUGINFOD_SECONDS 60
int debuginfod_fetch(const struct build_id *id, const bool *stop);

#endif
