#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""From the start of the program to the first sample, for one process and for 500.

Measured in two ways, which both are upper bounds: until it has its signal descriptor, which it makes
last before it samples, seen by looking on; and the length of a run besides its -d, which has the
end in it. RPROF_FULL=1 judges them against 150 ms and 1 s; otherwise only against each other, for
a busy machine has any times.
"""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import build_as
from rprof_e2e import (FULL, Profiler, check_accounting, expect, fd_kinds, main, note, record, spawn,
                       test, workload)

ROUNDS = 10 if FULL else 3
MANY = 500
DURATION = 0.3
PERIOD = 1 / 999


def until_sampling(*args):
    """Seconds from fork to its loop."""
    start = time.monotonic()
    profiler = Profiler(*args, "-F", 999, "-U")
    while "[signalfd]" not in fd_kinds(profiler.pid):
        expect(profiler.process.poll() is None, "it ended before it sampled")
        time.sleep(0.0005)
    took = time.monotonic() - start
    profiler.stop()
    return took + PERIOD


def whole_run(*args):
    start = time.monotonic()
    result = record(*args, "-F", 999, "-U", "-d", DURATION, "--stats")
    took = time.monotonic() - start
    # 3: in so short a time a busy machine may give the target none.
    check_accounting(result.ok(3 if result.status == 3 else 0))
    return took - DURATION


def median(times):
    return sorted(times)[len(times) // 2]


def measure(what, *args):
    """The median of both, in seconds; once before, for what is read from disk the first time."""
    until_sampling(*args)
    starts = [until_sampling(*args) for _ in range(ROUNDS)]
    runs = [whole_run(*args) for _ in range(ROUNDS)]
    note(f"start to first sample: {what}: {median(starts) * 1e3:.0f} ms "
         f"({min(starts) * 1e3:.0f} to {max(starts) * 1e3:.0f}), start and end of a run "
         f"{median(runs) * 1e3:.0f} ms")
    return median(starts)


@test(300)
def the_first_sample_comes_soon():
    busy = workload(build_as("spin", "spin.c"))
    one = measure("one process", "-p", busy.pid)
    sleeper = build_as("sleeper", "sleeper.c")
    crowd = [spawn([sleeper], stdout=-3) for _ in range(MANY - 1)]
    time.sleep(1)
    pids = ",".join(str(p.pid) for p in [busy, *crowd])
    many = measure(f"{MANY} processes by -p", "-p", pids)
    everything = measure(f"-a with {MANY} processes", "-a")
    # A process more costs a few hundred microseconds, not a start of its own.
    expect(many < one + MANY * 0.02 * max(one, 0.05), f"{many:.3f} s for {MANY}, {one:.3f} for one")
    expect(everything < 20 * one + 1, f"{everything:.3f} s for -a, {one:.3f} s for one process")
    if FULL:
        expect(one < 0.150, f"{one * 1e3:.0f} ms for one process, 150 are allowed")
        expect(many < 1, f"{many * 1e3:.0f} ms for {MANY} processes, 1000 are allowed")
        expect(everything < 1, f"{everything * 1e3:.0f} ms for -a, 1000 are allowed")


if __name__ == "__main__":
    sys.exit(main())
