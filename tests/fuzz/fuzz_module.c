// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Any bytes as a mapped file: names end, addresses come from segments, nothing breaks. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "module.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct module *m;

	if (fd < 0)
		return 0;
	if (write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return 0;
	}
	if (module_open(fd, &m))
		return 0;
	for (__u64 pc = 0; pc < 0x2000; pc += 61) {
		struct cfi_rule rule;
		__u64 start, vaddr;
		const char *name = module_symbol(m, pc, &start);

		if (name && (strlen(name) > 65535 || start > pc))
			abort();
		if (cfi_rule_at(m, pc, &rule) || rule.state > CFI_END)
			abort();
		module_vaddr(m, pc, &vaddr);
	}
	module_free(m);
	return 0;
}
