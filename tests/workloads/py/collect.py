# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""gc.collect() over a heap of ARGUMENT (400,000) objects in cycles: nearly all the time is the
collector's. Now and then it finds some with a finalizer."""
import gc
from workload import number, repeat


class Node:
    __slots__ = ("other", "__weakref__")


class Final:
    def __del__(self):
        finalizer()


def finalizer():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff


def ring(n):
    nodes = [Node() for _ in range(n)]
    for i, node in enumerate(nodes):
        node.other = nodes[i - 1]
    return nodes[0]


HEAP = [ring(100) for _ in range(number(400000) // 100)]


def collect():
    for _ in range(5):
        cycle = Final()
        cycle.self = cycle
        del cycle
    gc.collect()


repeat(collect)
