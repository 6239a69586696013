# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ARGUMENT (200) threads, each in a function of its own depth; all run for ever."""
import threading
from workload import clock, number, ready

more = clock()


def burn():
    x = 0
    for i in range(2000):
        x = (x * 3 + i) & 0xffff
    return x


def descend(left):
    if left:
        descend(left - 1)
    else:
        burn()


def thread(n):
    START.wait()
    while more():
        descend(n % 20)


START = threading.Event()
THREADS = [threading.Thread(target=thread, args=(n,), name=f"t{n}", daemon=True)
           for n in range(number(200))]
for t in THREADS:
    t.start()
ready()
START.set()
for t in THREADS:
    t.join()
