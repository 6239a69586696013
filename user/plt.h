/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The stubs through which a file calls functions of others (procedure linkage table). No symbol names
 * them: the name is that of the relocation of the address that the stub's instructions jump through.
 */
#ifndef RPROF_PLT_H
#define RPROF_PLT_H

#include "elf_file.h"
#include "elf_symbols.h"

/*
 * plt_load() - name the stubs of .plt, .plt.sec and .plt.got: "puts@plt", as binutils and gdb do.
 * @f: its sections were read
 * @out: finished, perhaps empty; elf_symbols_free()
 * Return: 0 or -ENOMEM.
 */
int plt_load(const struct elf_file *f, struct elf_symbols **out);

#endif
