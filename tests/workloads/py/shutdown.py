# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ends after SECONDS (1): then an atexit function, __del__ of a cycle that nothing has collected, and
daemon threads that go on until they are stopped; about a second in all. (Their frames keep what the
program's own module holds.)"""
import atexit
import threading
import time
from workload import SECONDS, ready


def burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff


def burn_for(seconds, clock=time.process_time, work=burn):
    """What it needs is its own: globals are gone when the last of them run."""
    end = clock() + seconds
    while clock() < end:
        work()


def at_exit():
    burn_for(0.3)


class Dying:
    def __del__(self, work=burn_for):
        work(0.2)


def daemon():
    while True:
        burn()


atexit.register(at_exit)
CYCLE = [Dying()]
CYCLE.append(CYCLE)
del CYCLE
for _ in range(3):
    threading.Thread(target=daemon, daemon=True).start()
ready()
burn_for(SECONDS or 1)
