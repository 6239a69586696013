# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Python below C below Python: qsort() of the C library with a comparison in Python, by ctypes."""
from workload import repeat, skip

try:
    import ctypes
except ImportError:
    skip("no ctypes")

N = 300
LIBC = ctypes.CDLL(None)
INT = ctypes.POINTER(ctypes.c_int)


def compare_deep(a, b):
    x = 0
    for i in range(50):
        x = (x * 3 + i) & 0xffff
    return a - b


@ctypes.CFUNCTYPE(ctypes.c_int, INT, INT)
def compare(a, b):
    return compare_deep(a[0], b[0])


def sort():
    values = (ctypes.c_int * N)(*[i * 7919 % N for i in range(N)])
    LIBC.qsort(values, N, ctypes.sizeof(ctypes.c_int), compare)


@ctypes.CFUNCTYPE(ctypes.c_int, INT, INT)
def compare_and_sort(a, b):
    """A second C call within the callback of the first."""
    few = (ctypes.c_int * 5)(5, 4, 3, 2, 1)
    LIBC.qsort(few, 5, ctypes.sizeof(ctypes.c_int), compare)
    return a[0] - b[0]


def nested():
    values = (ctypes.c_int * 30)(*range(30, 0, -1))
    LIBC.qsort(values, 30, ctypes.sizeof(ctypes.c_int), compare_and_sort)


def main():
    sort()
    nested()


repeat(main)
