#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The workload of `make demo`: Python that calls C that calls Python. Shares are known by
construction, since each function works until it has used its part of the CPU time:

    parse 15 %, tokenize (called by parse) 25 %
    smooth (C, called by render) 30 %
    sort_rows (C, called by rank) 10 %, compare (Python, called by sort_rows) 20 %

    demo.py FOLDER      where the C part is: rprofdemo.abi3.so, made from rprofdemo.c
"""
import sys
from time import thread_time

sys.path.insert(0, sys.argv[1])
import rprofdemo  # pylint: disable=import-error,wrong-import-position

ROUND = 0.2     # seconds of CPU time
WORK = (None,) * 20000


def tokenize():
    end = thread_time() + 0.25 * ROUND
    while thread_time() < end:
        for _ in WORK: pass


def parse():
    tokenize()
    end = thread_time() + 0.15 * ROUND
    while thread_time() < end:
        for _ in WORK: pass


def render():
    rprofdemo.smooth(0.30 * ROUND)


def compare():
    end = thread_time() + 0.05 * ROUND
    while thread_time() < end:
        for _ in WORK: pass


def rank():
    rprofdemo.sort_rows(0.10 * ROUND, compare, 4)


def main():
    print("ready", flush=True)
    while True:
        parse()
        render()
        rank()


main()
