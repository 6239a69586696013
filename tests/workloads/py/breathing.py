# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recursion that grows and shrinks all the time: the frames of the data stack change places, and
its chunks come and go."""
import sys
from workload import repeat

sys.setrecursionlimit(5000)


def leaf(x):
    return x + 1


def breathe(left, low):
    a, b, c, d = left, low, 0, 1
    leaf(left)
    if left > low:
        c = breathe(left - 1, low)
    for _ in range(3):
        d = leaf(d)
    return a + b + c + d


def wide(left):
    v0 = v1 = v2 = v3 = v4 = v5 = v6 = v7 = v8 = v9 = left
    if left:
        v0 = wide(left - 1)
    return v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 + v8 + v9


def main():
    for depth in (5, 900, 20, 1500, 1, 300, 60):
        breathe(depth, 0)
        wide(depth)


repeat(main)
