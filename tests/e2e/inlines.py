#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--inlines: inlined calls between the real ones, and files that would make trouble of it."""
import os
import random
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FRAMES, Profiler, build, check_accounting, expect, expect_equal, main, note,
                       record, scratch, test, total, wait_for, workload)

MARK = f"RPROF_TEST_MARK={os.getpid()}"  # in the environment of what this suite starts
FLAGS = [*FRAMES, "-g"]
WITHOUT = [["main", "work"], ["main", "work", "leaf"]]
WITH = [["main", "work", "outer_[i]", "inner_[i]", "burn_[i]"],
        ["main", "work", "outer_[i]", "middle_[i]", "leaf", "inner_[i]", "burn_[i]"]]


def program(name, flags=(), compiler="gcc"):
    path = scratch(name)
    if not os.path.exists(path):
        os.rename(build("inlines.c", [*FLAGS, *flags], compiler), path)
    return path


def profile(process, *args):
    result = record("-p", process.pid, "-F", 999, "-d", 1, "-U", "--stats", *args).ok()
    check_accounting(result)
    return result


def expect_ends(result, ends):
    """Nearly all samples end in one of these, and each of them is seen a lot."""
    stacks = result.stacks()
    counts = [sum(s.count for s in stacks if s.frames[-len(e):] == e) for e in ends]
    expect(sum(counts) > 0.9 * total(stacks), f"{counts} of {total(stacks)} end in {ends}\n{result}")
    expect(min(counts) > 0.2 * total(stacks), f"{counts} of {total(stacks)} end in {ends}\n{result}")


def section(path, name):
    """Offset and size of a section in the file."""
    text = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True,
                          check=True).stdout
    match = re.search(rf"\s{re.escape(name)}\s+\S+\s+[0-9a-f]+\s+([0-9a-f]+)\s+([0-9a-f]+)", text)
    expect(match, f"{path} has no {name}\n{text}")
    return int(match[1], 16), int(match[2], 16)


def damage(path, name, length=None):
    """Random bytes over a section, or over its start; the same in every run."""
    offset, size = section(path, name)
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(random.Random(name).randbytes(length or size))


@test()
def inlined_calls_stand_between_caller_and_callee():
    process = workload(program("plain"))
    expect_ends(profile(process, "--inlines"), WITH)


@test()
def without_the_option_there_are_none():
    result = profile(workload(program("plain")))
    expect_ends(result, WITHOUT)
    expect("_[i]" not in result.out, f"{result}")


@test()
def other_forms_of_debug_information_are_read():
    for name, flags, compiler in (("dwarf4", ["-gdwarf-4"], "gcc"), ("packed", ["-gz"], "gcc"),
                                  ("fixed", ["-no-pie"], "gcc"), ("llvm", [], "clang")):
        expect_ends(profile(workload(program(name, flags, compiler)), "--inlines"), WITH)
        note(f"{name}: ok")


@test()
def a_file_without_debug_information_has_names():
    path = program("bare")
    subprocess.run(["strip", "-g", path], check=True)
    result = profile(workload(path), "--inlines")
    expect_ends(result, WITHOUT)
    expect_equal([line for line in result.err.split("\n") if "--inlines:" in line], [], "warnings")


@test()
def damaged_debug_information_costs_the_inlined_calls_alone():
    for name in (".debug_info", ".debug_abbrev"):
        path = program("damaged" + name)
        damage(path, name)
        result = profile(workload(path), "--inlines")
        expect_ends(result, WITHOUT)
        warnings = [line for line in result.err.split("\n") if "--inlines:" in line]
        expect_equal(len(warnings), 1, f"warnings\n{result}")
        expect(os.path.basename(path) in warnings[0], f"of which file?\n{result}")


@test(120)
def no_damage_stops_the_profiler():
    """Names, if there are any, are of the program, whatever its debug information claims."""
    for seed, name in enumerate((".debug_info", ".debug_abbrev", ".debug_str", ".debug_info")):
        path = program(f"hurt-{seed}")
        chance = random.Random(seed)
        offset, size = section(path, name)
        with open(path, "r+b") as file:
            for _ in range(20):
                file.seek(offset + chance.randrange(size))
                file.write(chance.randbytes(1))
        result = profile(workload(path), "--inlines")
        real = [[f for f in s.frames if not f.endswith("_[i]")] for s in result.stacks()]
        hits = sum(s.count for s, r in zip(result.stacks(), real)
                   if r[-2:] == ["main", "work"] or r[-3:] == ["main", "work", "leaf"])
        expect(hits > 0.9 * total(result.stacks()), f"{hits} are named\n{result}")


def readers():
    """Reader processes of profilers that this suite started."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
                comm = file.read().strip()
            with open(f"/proc/{pid}/environ", "rb") as file:
                if comm == "rprof-inlines" and MARK.encode() in file.read():
                    found.append(pid)
        except OSError:
            pass
    return found


@test()
def no_reader_outlives_the_profiler():
    process = workload(program("plain"))
    for sig in (signal.SIGINT, signal.SIGKILL):
        profiler = Profiler("-p", process.pid, "-F", 99, "--inlines")
        wait_for(readers, "a reader to be started")
        profiler.stop(sig)
        # The kernel ends it, in its own time.
        wait_for(lambda: not readers(), "the readers to end", 5)


if __name__ == "__main__":
    os.environ.update([MARK.split("=")])
    sys.exit(main())
