// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The same with the native frames of s390x; under qemu-user in its byte order, too. */
#include "test_python_hint_x86.c"
