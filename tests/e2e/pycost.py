#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A bench: BPF time per sample of a Python stack, with what is remembered of a thread's last sample and
without (--no-cache), by depth and version. In turns on the same process; the least of each counts, as
others on the machine only add to it. Only that remembering does not cost more is judged."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import check_accounting, end, expect, main, note, record
import pythons

DEPTHS = (20, 100, 300)
TURNS = 3
SHOWN = ("debian-3.11", "debian-3.13", "debian-3.15")

PROGRAM = """
import sys
sys.setrecursionlimit(10000)

def work():
    x = 0
    for i in range(1000):
        x = (x * 3 + i) & 0xffff

def descend(left):
    if left:
        descend(left - 1)
    while not left:
        work()

print("ready", flush=True)
descend(int(sys.argv[1]))
"""


def cost(process, *options):
    """In us per sample."""
    result = record("--stats", "-U", "-p", process.pid, "-F", 1999, "-d", "1s", *options).ok()
    expect(check_accounting(result)["samples"] > 100, f"{result}")
    return float(re.search(r"cost +([\d.]+) ", result.err)[1])


def costs(interpreter, depth):
    """With, without."""
    process = pythons.start(interpreter, PROGRAM, depth)
    turns = [(cost(process), cost(process, "--no-cache")) for _ in range(TURNS)]
    end(process)
    return [min(each) for each in zip(*turns)]


@pythons.each(timeout=200, only=lambda name: name in SHOWN)
def what_is_remembered_saves_time(interpreter):
    for depth in DEPTHS:
        cached, plain = costs(interpreter, depth)
        note(f"{interpreter}, {depth} frames: {cached:.2f} us per sample; without what is remembered "
             f"{plain:.2f} us, {plain / cached:.2f} times as much")
        if interpreter.version[:2] == (3, 15) and depth == 100:
            expect(cached <= 1.1 * plain, "remembering costs more than it saves")


if __name__ == "__main__":
    sys.exit(main())
