#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Stacks whose parents BPF cannot read without a page fault are completed by user space, exactly, or
stay marked (issue 5). The pages are taken from the target by itself, as reclaim would (evicted.c)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, Skip, build, check_accounting, expect, expect_equal, main, note, record,
                       spawn, test, total)

import subprocess

SECONDS = 60 if FULL else 6
STEPS = 40              # of evicted.c
CUT = "[truncated: stack page not resident]"
WHOLE = {"path_a": "under_a", "path_b": "under_b"}


def evicted(*args):
    process = spawn([build("evicted.c"), *map(str, args)], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if line.startswith("no userfaultfd"):
        raise Skip("no userfaultfd here")
    expect(line.startswith("ready"), f"evicted said {line!r}")
    return process


def expect_possible(stack):
    """A stack of the thread whose parents are taken: are all of its edges the program's?"""
    frames = [f for f in stack.frames if f in ("top", "step", "leaf", *WHOLE, *WHOLE.values())]
    for path, under in WHOLE.items():
        for other, wrong in WHOLE.items():
            expect(path == other or not (path in frames and wrong in frames),
                   f"{wrong} below {path}: {stack.frames}")
        if under not in frames or CUT in stack.frames:
            continue
        expect_equal(frames, ["top", path, *["step"] * STEPS, "leaf", under], "a whole stack")


def profile(*args):
    result = record("-p", evicted(*args).pid, "-F", 199, "-U", "-d", SECONDS, "--stats",
                    timeout=SECONDS + 60).ok()
    stats = check_accounting(result)
    for stack in result.stacks():
        expect_possible(stack)
    failed = {name: n for name, n in stats.items() if name.startswith("not completed")}
    note(f"cut by the kernel side: {stats.get('stopped: stack page not resident', 0)}, "
         f"completed: {stats['stacks completed by user space']}, {failed}")
    return result, stats


@test(timeout=60 + 2 * SECONDS)
def parents_that_were_taken_are_read_back():
    result, stats = profile(20)
    cut = stats.get("stopped: stack page not resident", 0)
    completed = stats["stacks completed by user space"]
    expect(cut > 10 * SECONDS, f"premise: the kernel side was hardly hindered: {cut}\n{result}")
    expect(completed > cut / 5, f"hardly any stack was completed\n{result}")
    # Each one that was cut is whole now, or says so.
    marked = total([s for s in result.stacks() if CUT in s.frames])
    expect_equal(marked, cut - completed, "stacks that are still cut")


@test(timeout=60 + 2 * SECONDS)
def thread_that_moves_all_the_time_gets_no_wrong_parents():
    # Away and back, on the other path, in about the time that a reading takes.
    profile(1, 600000)


if __name__ == "__main__":
    sys.exit(main())
