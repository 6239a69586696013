#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What being profiled costs a Python of 200 threads, at 200 Hz (issue 4, acceptance 6).

Pairs of spans of time, one with the profiler and one without, in turns with null pairs, which have
none in either: ratios of what the same process did in them. The slow-down (the median) must be below
1 %, or less than what three of four null pairs differ by. Two ratios are taken: work per second of
time, and work per second of the target's CPU time, which others on the machine disturb less. Where
these differ by more than 5 %, nothing is said: a quiet machine is needed.

RPROF_PAIRS, RPROF_SPAN: pairs of each kind (9), seconds of a span (2).
"""
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import Profiler, Skip, check_accounting, expect, main, note
import pythons

PAIRS = int(os.environ.get("RPROF_PAIRS", "9"))
SPAN = float(os.environ.get("RPROF_SPAN", "2"))
FREQUENCY = 200
ALLOWED = 0.01
TOO_NOISY = 0.05

# Each thread counts its rounds in a word of its own of a file that the test maps, too.
TARGET = """
import mmap, os, sys, threading
THREADS = 200
path = sys.argv[0] + ".rounds"
with open(path, "wb+") as file:
    file.truncate(8 * THREADS)
    rounds = memoryview(mmap.mmap(file.fileno(), 8 * THREADS)).cast("Q")

def work():
    x = 0
    for i in range(200):
        x = (x * 3 + i) & 0xffff

def descend(left):
    if left:
        descend(left - 1)
    else:
        work()

def thread(n):
    start.wait()
    while True:
        descend(n % 20)
        rounds[n] += 1

start = threading.Event()
for n in range(THREADS):
    threading.Thread(target=thread, args=(n,), daemon=True).start()
print("ready", path, flush=True)
start.set()
threading.Event().wait()
"""


class Target:
    """The running process, and how much it did."""

    def __init__(self, interpreter):
        path = pythons.place(interpreter, TARGET)
        self.process = pythons.spawn([*interpreter.argv, path], stdout=-1, text=True,
                                     env=pythons.environment())
        ready = self.process.stdout.readline().split()
        expect(ready[:1] == ["ready"], f"the target says {ready}")
        self.file = (interpreter.root or "") + ready[1]
        # CPU time of that process: MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED), linux/posix-timers.h
        self.clock = (~self.process.pid << 3) | 2

    def rounds(self):
        with open(self.file, "rb") as file:
            return sum(memoryview(file.read()).cast("Q"))

    def span(self):
        """Rounds per second, and per second of CPU time."""
        rounds, cpu, now = self.rounds(), time.clock_gettime(self.clock), time.monotonic()
        time.sleep(SPAN)
        rounds = self.rounds() - rounds
        return (rounds / (time.monotonic() - now), rounds / (time.clock_gettime(self.clock) - cpu))

    def profiled_span(self):
        profiler = Profiler("--stats", "-p", self.process.pid, "-F", FREQUENCY).wait_sampling()
        time.sleep(0.5)     # names are found, code objects sent
        rates = self.span()
        stats = check_accounting(profiler.stop().ok())
        expect(stats["samples"] > 0, "no samples")
        return rates


def slow_downs(first, second):
    return [1 - b / a for a, b in zip(first, second)]


def measure(target):
    """Slow-downs of pairs and of null pairs, each a list of (by time, by CPU time)."""
    pairs, nulls = [], []
    for i in range(PAIRS):
        if i % 2:
            plain, profiled = target.span(), target.profiled_span()
        else:
            profiled, plain = target.profiled_span(), target.span()
        pairs.append(slow_downs(plain, profiled))
        nulls.append(slow_downs(target.span(), target.span()))
    return pairs, nulls


def judge(what, pairs, nulls):
    """Whether it could be judged. A few null pairs are far off on any machine: they say nothing."""
    slow_down = statistics.median(pairs)
    spread = statistics.quantiles(map(abs, nulls))[2]
    note(f"by {what}: slower by {100 * slow_down:+.2f} %; null pairs differ by "
         f"{100 * statistics.median(map(abs, nulls)):.2f} %, three of four by at most "
         f"{100 * spread:.2f} %")
    note(f"  pairs {' '.join(f'{100 * p:+.1f}' for p in pairs)}; "
         f"null pairs {' '.join(f'{100 * n:+.1f}' for n in nulls)}")
    if spread > TOO_NOISY:
        return False
    expect(slow_down < max(ALLOWED, spread), f"slower by {100 * slow_down:.2f} %")
    return True


@pythons.each(timeout=60 + int(PAIRS * (4 * SPAN + 20)))
def profiling_costs_the_target_less_than_a_percent(interpreter):
    target = Target(interpreter)
    time.sleep(1)       # code is specialized, memory is there
    pairs, nulls = measure(target)
    judged = [judge(what, [p[i] for p in pairs], [n[i] for n in nulls])
              for i, what in enumerate(("time", "CPU time"))]
    if not any(judged):
        raise Skip("this machine is too busy: of the null pairs a quarter differs by more than 5 %")


if __name__ == "__main__":
    sys.exit(main())
