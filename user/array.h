/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The one place where arrays grow. */
#ifndef RPROF_ARRAY_H
#define RPROF_ARRAY_H

#include <stddef.h>

/*
 * array_grow() - room for @need elements of @size bytes.
 * @items: the array so far (NULL with *@cap == 0), from malloc
 * @cap: elements it has room for; updated
 *
 * At least doubles, so that appending is linear. New elements are not initialised.
 * Return: the array, perhaps moved; NULL: no memory, @items is as it was.
 */
void *array_grow(void *items, size_t *cap, size_t need, size_t size);

#endif
