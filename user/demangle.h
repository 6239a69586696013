/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Readable names of mangled symbols: C++, Rust and D, by libiberty. */
#ifndef RPROF_DEMANGLE_H
#define RPROF_DEMANGLE_H

/*
 * demangle() - the name as a programmer wrote it.
 * @symbol: as in the symbol table; "@plt" and the like behind it stay behind the readable name
 *
 * C++ (Itanium ABI) and Rust (legacy and v0, without hashes) as `addr2line -C` prints them, D as
 * `c++filt -s dlang` does. The symbol may be made by an enemy: the name has at most 64 KiB and
 * takes at most 0.1 s to make.
 * Return: allocated name, the caller's; NULL if @symbol is not mangled, or is too much.
 */
char *demangle(const char *symbol);

#endif
