# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A parent that forks a child every 100 ms or so; both burn, under names of their own. The child of
ARGUMENT libc is made by fork() of the C library, of which the interpreter knows nothing."""
import os
import time
from workload import ARGUMENTS, repeat, skip

LIBC = ARGUMENTS[:1] == ["libc"]
if LIBC:
    try:
        import ctypes
    except ImportError:
        skip("no ctypes")
    fork = ctypes.PyDLL(None).fork      # with the GIL held: the child has it
else:
    fork = os.fork


def burn():
    x = 0
    for i in range(20000):
        x = (x * 3 + i) & 0xffff


def in_child():
    end = time.process_time() + 0.1
    while time.process_time() < end:
        burn()


def in_parent():
    for _ in range(20):
        burn()


def main():
    pid = fork()
    if pid == 0:
        in_child()
        os._exit(0)
    in_parent()
    os.waitpid(pid, 0)


repeat(main)
