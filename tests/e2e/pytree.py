#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Truth of Python stacks: generated programs whose every call and line is known (issue 4, acceptance
3 to 5). No stack may hold an edge or a line that the program does not have; a walk by cache and
windows must equal one without; a thread that loops in Python has Python frames in every sample.

RPROF_SAMPLES=N: matched ticks of each run, if not 20,000 (FULL: a million, 100,000 for others).
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import FULL, check_accounting, expect, main, marked, note, record
import pythons
import pytree

FREQUENCY = 20000
MANY = ("debian-3.11", "debian-3.13", "debian-3.14", "debian-3.15", "ft-3.13", "ft-3.14",
        "ft-3.15")
SEED = int(os.environ.get("RPROF_SEED", "7"))


def wanted(name):
    if "RPROF_SAMPLES" in os.environ:
        return int(os.environ["RPROF_SAMPLES"])
    if not FULL:
        return 20000
    return 1000000 if name in MANY else 100000


def sampled(interpreter, *options, samples):
    """Profile the tree until it has so many samples; the verdict, and the statistics."""
    tree = pytree.Tree(SEED, interpreter.version)
    lines = tree.lines(interpreter)
    verdict, sums = pytree.Verdict(), {}
    process = pythons.start(interpreter, tree.text, name=pytree.FILE)
    while verdict.samples < samples:
        # Bounded: what a run prints is held in memory here.
        seconds = min(15, max(1, (samples - verdict.samples) / FREQUENCY * 1.3))
        result = record("-p", process.pid, "-F", FREQUENCY, "-d", f"{seconds * 1000:.0f}ms", "-U",
                        "--stats", *options).ok()
        stats = check_accounting(result)
        for name, n in stats.items():
            sums[name] = sums.get(name, 0) + n
        once = tree.judge(result.stacks(), lines)
        verdict.samples += once.samples
        verdict.python += once.python
        verdict.whole += once.whole
        verdict.impossible += once.impossible
        verdict.strange += once.strange
    process.kill()
    return verdict, sums


def judge(interpreter, verdict, stats):
    # What the ring or the time at the end lost is told by the account (accounting.py, pyharmless.py);
    # here nearly every stack is a new one.
    matched = stats["received"]
    note(f"{interpreter}: {verdict}; {stats['missed']} missed, {marked(stats)} marked, "
         f"{stats.get('unknown Python frames', 0)} frames unknown")
    expect(not verdict.impossible, f"impossible edges: {verdict.impossible.most_common(10)}")
    expect(not verdict.strange, f"lines that the program lacks: {verdict.strange.most_common(10)}")
    expect(not marked(stats, "marked: merge mismatch"), "native and Python frames do not fit")
    # Every loss is in the denominator. A frame of 3.11 or 3.12 may not be linked yet.
    expect(verdict.python >= 0.999 * matched,
           f"Python frames in {verdict.python} of {matched} matched ticks")
    unlinked = stats.get("stopped: frame not linked yet", 0)
    expect(unlinked < 0.01 * matched, f"{unlinked} frames were not linked yet")
    expect(verdict.whole >= 0.999 * matched - unlinked,
           f"from <module> on in {verdict.whole} of {matched} matched ticks")


@pythons.each(timeout=1500 if FULL else 120)
def no_edge_is_impossible(interpreter):
    verdict, stats = sampled(interpreter, "--verify", samples=wanted(interpreter.name))
    judge(interpreter, verdict, stats)
    expect(stats["Python walks verified"] >= 0.99 * stats["matched"], "not every walk was verified")
    expect(stats["verify mismatches"] == 0, f"{stats['verify mismatches']} walks differ")
    expect(stats["thread state hits"] > 0.99 * stats["matched"], "thread states are not remembered")


@pythons.each(timeout=1500 if FULL else 120,
              only=lambda name: FULL or name in ("debian-3.11", "debian-3.15"))
def nor_without_the_cache(interpreter):
    verdict, stats = sampled(interpreter, "--no-cache", samples=wanted(interpreter.name))
    judge(interpreter, verdict, stats)
    expect(not stats.get("thread state hits"), "--no-cache used what was remembered")


if __name__ == "__main__":
    sys.exit(main())
