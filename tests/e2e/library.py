#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Time spent in a library without frame pointers: what is printed of its callers is true.

Each function of the workload has one caller, so the deepest one that is printed says who its
ancestors are. Others must not appear, and a frame of a library may stand only where the workload
calls one.
"""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, build, check_accounting, expect, is_mark, main, note, record, test,
                       workload)

SECONDS = 60 if FULL else 4


def path_to(name):
    """The true ancestors of a function of libcalls.c, itself last."""
    kind, _, what = name.partition("_")
    depth = ["main", "group", "call", "callback"].index(kind)
    return ["main", f"group_{what}", f"call_{what}", f"callback_{what}"][:depth + 1]


def is_ours(frame):
    return frame == "main" or frame.startswith(("group_", "call_", "callback_"))


def wrong(frames):
    """What is impossible in this stack, or None; frames are root first."""
    ours = [f for f in frames if is_ours(f)]
    if not ours:
        return None
    path = path_to(ours[-1])
    if any(f not in path for f in ours):
        return f"{ours} below {ours[-1]}"
    if sorted(ours, key=path.index) != ours or len(set(ours)) != len(ours):
        return f"order of {ours}"
    for above, below in zip(frames, frames[1:]):
        if is_ours(above) and is_ours(below) and path.index(below) != path.index(above) + 1:
            return f"{above} -> {below} without a mark"
    for i, frame in enumerate(frames):
        if is_ours(frame) or is_mark(frame):
            continue
        before = [f for f in frames[:i] if is_ours(f)]
        after = [f for f in frames[i:] if is_ours(f)]
        if not before:
            continue
        # A library's frame between ours: only below a call_, or where a mark says "unknown".
        if before[-1].startswith("call_"):
            continue
        if after and not after[0].startswith("callback_"):
            return f"{frame} between {before[-1]} and {after[0]}"
        marks = [f for f in frames[frames.index(before[-1]):i + 1] if is_mark(f)]
        if not marks:
            return f"{before[-1]} -> {frame} without a mark"
    return None


@test(60 + 3 * SECONDS)
def a_library_without_frame_pointers_gives_no_false_callers():
    process = workload(build("libcalls.c"))
    result = record("-p", process.pid, "-F", 10000, "-d", SECONDS, "-U", "--stats").ok()
    check_accounting(result)
    samples, bad, whole = 0, collections.Counter(), 0
    for stack in result.stacks():
        samples += stack.count
        frames = stack.frames
        complaint = wrong(frames)
        if complaint:
            bad[complaint] += stack.count
        ours = [f for f in frames if is_ours(f)]
        whole += stack.count * (ours[:1] == ["main"] and len(ours) >= 3)
    note(f"{samples} samples, impossible {sum(bad.values())}, with all of the workload's frames "
         f"{whole / samples:.1%}")
    expect(samples > 3000, f"premise: only {samples} samples")
    expect(not bad, f"{sum(bad.values())} of {samples} samples: {bad.most_common(8)}")


if __name__ == "__main__":
    sys.exit(main())
