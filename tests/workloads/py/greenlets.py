# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Greenlets that switch to one another: a thread's stack is that of the one that runs."""
from workload import repeat, skip

try:
    from greenlet import getcurrent, greenlet
except ImportError:
    skip("no greenlet")


def burn():
    x = 0
    for i in range(2000):
        x = (x * 3 + i) & 0xffff


def deep_a(left):
    if left:
        return deep_a(left - 1)
    burn()
    B.switch()
    return burn()


def deep_b(left):
    if left:
        return deep_b(left - 1)
    burn()
    A.switch()
    return burn()


def run_a():
    while True:
        deep_a(20)


def run_b():
    while True:
        deep_b(5)
        MAIN.switch()


MAIN = getcurrent()
A = greenlet(run_a)
B = greenlet(run_b)


def main():
    A.switch()


repeat(main)
