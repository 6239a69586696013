#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Side by side with perf and bpftrace on the same process (issue 2, acceptance 7).

The process is a generated call tree, so there is also the truth. In turns, not at the same time:
the kernel runs one tracing program at a time on a CPU, so two profilers would take each other's
samples. Self shares must agree; where the callers differ, the difference must be what we mark or
recover and the peers miss.
"""
import collections
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FRAMES, FULL, HERE, Skip, build, expect, five_sigma, is_mark, main, note,
                       record, scratch, test, total, workload)
import gentree

# No frames in leaves: what the peers cannot see. With the back chain they have none anyway.
NO_LEAVES = {"x86": ["-fno-omit-frame-pointer", "-momit-leaf-frame-pointer"],
             "s390": FRAMES}[HERE]
FREQUENCY = 999
SECONDS = 20 if FULL else 6
# Few functions, so that each has some percent of the time and chance differences are small.
FUNCTIONS, DEPTH, TOP = 24, 8, 12


class Profile:
    """Stacks of one profiler as {(frames of the tree, root first; marks included): samples}."""

    def __init__(self, name):
        self.name = name
        self.stacks = collections.Counter()

    def add(self, frames, count, tree):
        frames = [f for f in frames if is_mark(f) or f in tree["functions"] or f in tree["roots"]]
        root = next((i for i, f in enumerate(frames) if f in tree["roots"]), 0)
        if any(not is_mark(f) for f in frames):
            self.stacks[tuple(frames[root:])] += count

    def samples(self):
        return sum(self.stacks.values())

    def self_share(self, function):
        hits = sum(n for s, n in self.stacks.items() if s[-1] == function)
        return hits / self.samples()

    def inclusive_share(self, function):
        return sum(n for s, n in self.stacks.items() if function in s) / self.samples()

    def impossible(self, tree):
        """Share of the samples with an edge, not marked, that is not in the tree."""
        def wrong(stack):
            for above, name in zip(stack, stack[1:]):
                if name in tree["functions"] and not is_mark(above):
                    parent = tree["functions"][name]["parent"]
                    if above != parent and not (parent is None and above in tree["roots"]):
                        return True
            return False
        return sum(n for s, n in self.stacks.items() if wrong(s)) / self.samples()

    def marked(self):
        return sum(n for s, n in self.stacks.items() if any(map(is_mark, s))) / self.samples()


def by_rprof(pid, tree):
    profile = Profile("rprof-bpf")
    result = record("-p", pid, "-F", FREQUENCY, "-d", SECONDS, "--annotate").ok()
    for stack in result.stacks():
        profile.add(stack.user(), stack.count, tree)
    return profile


def by_perf(pid, tree):
    profile, data = Profile("perf"), scratch("perf.data")
    subprocess.run(["perf", "record", "-q", "-F", str(FREQUENCY), "-g", "-e", "cpu-clock", "-p",
                    str(pid), "-o", data, "--", "sleep", str(SECONDS)], check=True,
                   stderr=subprocess.DEVNULL)
    script = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], check=True,
                            capture_output=True, text=True).stdout
    for block in script.split("\n\n"):
        frames = [line.split()[1] for line in block.splitlines() if len(line.split()) > 1]
        profile.add(frames[::-1], 1, tree)
    return profile


def by_bpftrace(pid, tree):
    profile = Profile("bpftrace")
    program = (f"profile:hz:{FREQUENCY} /pid == {pid}/ {{ @[ustack(127)] = count(); }} "
               f"interval:s:{SECONDS} {{ exit(); }}")
    out = subprocess.run(["bpftrace", "-e", program], check=True, capture_output=True,
                         text=True).stdout
    for stack, count in re.findall(r"@\[\n(.*?)\n\]: (\d+)", out, re.DOTALL):
        frames = [line.strip().partition("+")[0] for line in stack.splitlines()]
        profile.add(frames[::-1], int(count), tree)
    return profile


def distance(one, other, functions):
    """Share of the samples that would have to move to make the self shares equal."""
    return sum(abs(one.self_share(f) - other.self_share(f)) for f in functions) / 2


def inclusive_truth(tree):
    truth = collections.Counter()
    for function in tree["functions"]:
        ancestor = function
        while ancestor:
            truth[ancestor] += tree["functions"][function]["share"]
            ancestor = tree["functions"][ancestor]["parent"]
    return truth


@test(timeout=60 + 5 * SECONDS)
def shares_agree_with_perf_and_bpftrace():
    for tool in ("perf", "bpftrace"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed")
    tree = gentree.generate(scratch("tree.c"), seed=7, count=FUNCTIONS, depth=DEPTH,
                            tail_share=0)
    process = workload(build(scratch("tree.c"), NO_LEAVES))
    profiles = [tool(process.pid, tree) for tool in (by_rprof, by_perf, by_bpftrace)]
    ours, peers = profiles[0], profiles[1:]
    functions = tree["functions"]
    top = sorted(functions, key=lambda f: -functions[f]["share"])[:TOP]
    truth = inclusive_truth(tree)

    note(f"{'':24}" + "".join(f"{p.name:>12}" for p in profiles) + f"{'truth':>12}")
    note(f"{'samples':24}" + "".join(f"{p.samples():>12}" for p in profiles))
    note(f"{'impossible edges':24}" + "".join(f"{p.impossible(tree):>12.2%}" for p in profiles)
         + f"{0:>12.2%}")
    note(f"{'marked':24}" + "".join(f"{p.marked():>12.2%}" for p in profiles))
    for name in top:
        note(f"{'self ' + name:24}" + "".join(f"{p.self_share(name):>12.2%}" for p in profiles)
             + f"{functions[name]['share']:>12.2%}")
    # Callers of leaves: here the missing caller shows.
    parents = sorted({functions[f]["parent"] for f in functions if f not in
                      {d["parent"] for d in functions.values()}} - {None},
                     key=lambda f: -truth[f])
    callers = [f for f in parents if truth[f]][:TOP]
    for name in callers:
        note(f"{'inclusive ' + name:24}" + "".join(f"{p.inclusive_share(name):>12.2%}"
                                                    for p in profiles) + f"{truth[name]:>12.2%}")

    for peer in peers:
        expect(peer.samples() > FREQUENCY * SECONDS / 2, f"{peer.name}: {peer.samples()} samples")
        apart = distance(ours, peer, functions)
        note(f"self shares are {apart:.2%} apart from {peer.name}'s")
        # By chance alone two profiles of 24 functions with 6,000 samples are 2.5 % apart.
        expect(apart < 0.06, f"self shares are {apart:.1%} apart from {peer.name}'s")
        for name in top:
            n = min(ours.samples(), peer.samples())
            margin = five_sigma(functions[name]["share"], n) * 1.5     # both have an error
            off = abs(ours.self_share(name) - peer.self_share(name))
            expect(off <= margin, f"{name}: {ours.self_share(name):.2%} against {peer.name}'s "
                   f"{peer.self_share(name):.2%}, margin {margin:.2%}")
    expect(ours.impossible(tree) == 0, "an impossible edge of ours")
    # What the peers print wrong must be what we recover or mark; the tiny leaves' time varies.
    for peer in peers:
        for name in callers:
            gap = ours.inclusive_share(name) - peer.inclusive_share(name)
            margin = five_sigma(max(truth[name], 0.01), peer.samples()) * 1.5
            expect(gap >= -margin - ours.marked(), f"{name}: {peer.name} has "
                   f"{peer.inclusive_share(name):.2%}, we {ours.inclusive_share(name):.2%}")
        expect(peer.impossible(tree) >= ours.marked() - 0.05,
               f"we mark {ours.marked():.1%}, but {peer.name} is wrong in "
               f"{peer.impossible(tree):.1%} only: marks without need")


if __name__ == "__main__":
    sys.exit(main())
