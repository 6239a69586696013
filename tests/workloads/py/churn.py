# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Threads that live some milliseconds, eight at a time: thread states and stacks are used again."""
import threading
from workload import repeat


def burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff
    return x


def short_a():
    burn()


def short_b():
    def nested():
        burn()

    nested()


def main():
    threads = [threading.Thread(target=f) for f in (short_a, short_b) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


repeat(main)
