# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Judges stacks of tests/workloads/badstack.c: threads whose stacks are broken on purpose.

    check(parse_folded(text))       a run with --annotate, on either architecture

Of each stack only a part at the leaf end is true; it must be printed with a mark above it, and
nothing else: no frame of a decoy, of another thread, nor of what lies beyond the bad link.
"""
import collections

from rprof_e2e import expect, is_mark, note, total

LINKS = ["itself", "down", "odd", "misaligned", "kernel", "top", "nowhere", "other", "decoy",
         "code", "end"]
POINTERS = ["nowhere", "odd", "kernel", "top", "code", "null", "other", "decoy"]
WAYS = [f"link {way}" for way in LINKS] + [f"sp {way}" for way in POINTERS]
# Root first. thread_main is the caller of bend, and true wherever the walker can know it: on x86-64
# its address stands beside the bad link, on s390x where that should lead to.
TRUE = {"link": ["thread_main", "bend", "spin"], "sp": ["thread_main", "move_sp"]}


def is_true(way, frames):
    """A mark, and below it the leaf end of what is true."""
    names = [f.removesuffix("_unruled") for f in frames[1:]]
    truth = TRUE[way.split()[0]]
    return len(frames) > 1 and is_mark(frames[0]) and len(names) <= len(truth) and \
        names == truth[-len(names):]


def begins(frames):
    """The thread on its way to what it is there for, or in the kernel after it."""
    return frames[-1] not in ("spin", "bend") and not frames[-1].startswith("move_sp")


def check(stacks, least=20):
    all_marks = collections.Counter()
    for way in WAYS:
        mine = [s for s in stacks if s.comm == way]
        wrong = collections.Counter()
        for stack in mine:
            frames = stack.user()
            if not frames or begins(frames):
                continue
            all_marks[frames[0]] += stack.count
            if not is_true(way, frames):
                wrong[";".join(frames)] += stack.count
        expect(not wrong, f"{way}: {wrong.most_common(3)}")
        expect(total(mine) >= least, f"premise: {way}: {total(mine)} samples")
    note(f"{len(WAYS)} broken stacks, {sum(all_marks.values())} samples: {dict(all_marks)}")
