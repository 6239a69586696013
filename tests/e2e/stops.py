#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stops at random moments leave nothing behind (issue 2, acceptance 6).

    stops.py [--count N]    N stops by signal, N / 10 by kill -9; 60, or 1000 if RPROF_FULL=1
"""
import collections
import os
import random
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Profiler, bpf_objects, build, expect, expect_equal,
                       expect_nothing_left, main, note, parse_folded, state, test, workload)

COUNT = 1000 if FULL else 60
if "--count" in sys.argv:
    COUNT = int(sys.argv.pop(sys.argv.index("--count") + 1))
    sys.argv.remove("--count")
class StateWatch:
    """Reads the state letters of the target's threads all the time: T or t would be a stop."""

    def __init__(self, pid):
        self.tids = os.listdir(f"/proc/{pid}/task")
        self.seen = collections.Counter()
        self.over = False
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over:
            for tid in self.tids:
                self.seen[state(tid)] += 1
            time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()


def target_code(pid):
    """What the target's executable mappings hold, to see that nobody wrote into them."""
    chunks = []
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            span, mode = line.split()[:2]
            start, end = (int(x, 16) for x in span.split("-"))
            if "x" in mode and "[vsyscall]" not in line:
                mem.seek(start)
                chunks.append((line.split()[-1], hash(mem.read(end - start))))
    return chunks


def stop_many(count, signals, check):
    """Start and stop the profiler @count times on one target, and compare before with after."""
    rng = random.Random(os.environ.get("RPROF_SEED", "1"))
    process = workload(build("threads.c"), 1)
    before, text = bpf_objects(), target_code(process.pid)
    fds = len(os.listdir(f"/proc/{process.pid}/fd"))
    ends = collections.Counter()
    with StateWatch(process.pid) as watch:
        for i in range(count):
            profiler = Profiler("-p", process.pid, "-F", rng.choice([99, 999, 20000]))
            # Half of the moments are while it starts, half while it samples.
            if rng.random() < 0.5:
                profiler.wait_sampling()
            time.sleep(rng.uniform(0, 0.3))
            sig = rng.choice(signals)
            result = profiler.stop(sig)
            ends[f"{sig.name} -> {result.status}"] += 1
            check(sig, result)
            if i % 50 == 49:
                expect_nothing_left(before)
    note(", ".join(f"{end}: {n}" for end, n in sorted(ends.items())))
    note(f"states of the target: {dict(watch.seen)}")
    expect_nothing_left(before)
    expect_equal(target_code(process.pid), text, "code of the target")
    expect_equal(len(os.listdir(f"/proc/{process.pid}/fd")), fds, "descriptors of the target")
    expect(watch.seen["R"] > count, "premise: the target's states were hardly read")
    expect(not {"T", "t"} & set(watch.seen), f"the target was stopped: {dict(watch.seen)}")
    expect(state(process.pid) in ("S", "R"), "the target is not alive")


@test(timeout=60 + 3 * COUNT)
def stops_by_signal_leave_nothing():
    def check(sig, result):
        # The signal's own end if it came before the handlers; 3 if before the first sample.
        expect(result.status in (0, 3, -sig), f"after {sig.name}:\n{result}")
        parse_folded(result.out)
        expect(result.status != 0 or result.out, f"status 0 without samples\n{result}")
    stop_many(COUNT, [signal.SIGINT, signal.SIGTERM], check)


@test(timeout=60 + COUNT)
def kills_leave_nothing():
    def check(_sig, result):
        expect_equal(result.status, -signal.SIGKILL, "status")
    stop_many(max(1, COUNT // 10), [signal.SIGKILL], check)


@test()
def a_second_signal_while_it_ends_is_harmless():
    process = workload(build("threads.c"), 1)
    before = bpf_objects()
    for _ in range(5):
        profiler = Profiler("-p", process.pid, "-F", 20000).wait_sampling()
        time.sleep(0.3)
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            profiler.process.send_signal(sig)
        result = profiler.finish()
        expect(result.status in (0, -signal.SIGINT, -signal.SIGTERM), f"{result}")
        parse_folded(result.out)
    expect_nothing_left(before)


if __name__ == "__main__":
    sys.exit(main())
