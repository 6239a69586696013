/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What compilers append to the name of a function when they split, copy or move it. */
#ifndef RPROF_SYMBOL_NAME_H
#define RPROF_SYMBOL_NAME_H

#include <stddef.h>

/*
 * symbol_base_length() - how much of a symbol is the name of the function in the source.
 * @name: @len bytes, any
 *
 * GCC's .cold, .part.N, .constprop.N, .isra.N and .lto_priv.N, LLVM's .cold.N and .llvm.N, alone and
 * one after the other, mangled names or not. Never 0 unless @len is.
 */
size_t symbol_base_length(const char *name, size_t len);

#endif
