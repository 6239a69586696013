// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "python_lines_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_lines(data, size, 0x030a);
	return 0;
}
