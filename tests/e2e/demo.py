#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`make demo`: what it prints is true (issue 2, acceptance 1). RPROF_FULL=1: in a fresh root too."""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import FULL, ROOT, expect, is_mark, main, note, parse_folded, test

# tests/workloads/demo.c: caller and share of the work, per function.
CALLER = {"parse": "main", "tokenize": "parse", "compress": "main", "match": "compress",
          "report": "main"}
SHARE = {"tokenize": 40, "parse": 20, "match": 20, "compress": 10, "report": 10}


def judge(text):
    samples, leaves = 0, collections.Counter()
    for stack in parse_folded(text):
        samples += stack.count
        names = [f for f in stack.frames if f == "main" or f in CALLER]
        expect(names, f"nothing of the workload in {stack.frames}")
        expect(not any(is_mark(f) for f in stack.frames[stack.frames.index(names[0]):]),
               f"a mark below main in {stack.frames}")
        for above, below in zip(names, names[1:]):
            expect(CALLER[below] == above, f"impossible: {above} -> {below}")
        leaves[names[-1]] += stack.count
    expect(samples > 300, f"only {samples} samples")
    shares = {name: 100 * leaves[name] / samples for name in SHARE}
    note(f"{samples} samples: " + ", ".join(f"{n} {s:.1f} %" for n, s in shares.items()))
    for name, share in shares.items():
        expect(abs(share - SHARE[name]) <= 3, f"{name} has {share:.1f} %, burns {SHARE[name]} %")


def run(argv, timeout):
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout,
                          check=False)
    expect(done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-3000:]}")
    expect(done.stdout, f"nothing on stdout\n{done.stderr[-3000:]}")
    judge(done.stdout)


@test(120)
def the_demo_prints_the_stacks_of_its_workload():
    run(["make", "-s", "demo", "DURATION=3"], 110)


if FULL:
    @test(1500)
    def the_demo_works_in_a_fresh_root():
        run(["scripts/fresh-root.sh", "make", "demo", "DURATION=3"], 1490)


if __name__ == "__main__":
    sys.exit(main())
