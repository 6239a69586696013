# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Threads that Python did not make: pthread_create() by ctypes, and PyGILState_Ensure() in them at
each callback. Two at a time; each calls Python once and ends."""
from workload import repeat, skip

try:
    import ctypes
except ImportError:
    skip("no ctypes")

LIBC = ctypes.CDLL(None)
THREAD = ctypes.c_ulong


def burn():
    x = 0
    for i in range(100000):
        x = (x * 3 + i) & 0xffff


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def foreign(_argument):
    burn()
    return None


def main():
    threads = [THREAD() for _ in range(2)]
    for thread in threads:
        if LIBC.pthread_create(ctypes.byref(thread), None, foreign, None):
            raise OSError("pthread_create")
    for thread in threads:
        LIBC.pthread_join(thread, None)


repeat(main)
