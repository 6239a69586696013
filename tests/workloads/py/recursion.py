# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A function that calls itself, ARGUMENT (1,000) frames deep, and burns at the bottom."""
import sys
from workload import number, repeat

DEPTH = number(1000)
sys.setrecursionlimit(DEPTH + 500)


def bottom():
    total = 0
    for i in range(20000):
        total += i
    return total


def descend(left):
    if left == 0:
        return bottom()
    return descend(left - 1) + 1


def main():
    descend(DEPTH - 1)


repeat(main)
