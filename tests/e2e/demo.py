#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""`make demo`: what it prints is true, and its workload's Python and C functions stand in their one
order (issue 4, acceptance 1). RPROF_FULL=1: in a fresh root and on all interpreters too."""
import collections
import glob
import os
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FULL, PATIENCE, ROOT, WORKLOADS, check_accounting, expect, expect_equal,
                       five_sigma, is_mark, main, note, parse_folded, record, test, workload)
import pythons

# tests/workloads/demo.py, rprofdemo.c: functions from main to each, and its own share of the work.
PATHS = {"main": ("main",), "render": ("main", "render"), "rank": ("main", "rank"),
         "parse": ("main", "parse"), "tokenize": ("main", "parse", "tokenize"),
         "smooth": ("main", "render", "smooth"), "sort_rows": ("main", "rank", "sort_rows"),
         "compare": ("main", "rank", "sort_rows", "compare")}
SHARES = {"parse": 0.15, "tokenize": 0.25, "smooth": 0.30, "sort_rows": 0.10, "compare": 0.20}
C = ("smooth", "sort_rows")
# Emulated processors miss samples, and more where a tick costs more.
SLACK = 0.02 if PATIENCE == 1 else 0.15
NAMES = {name for path in PATHS.values() for name in path}


def own(frame):
    """The function of the workload that a frame is, "" if none: Python's have a place, C's do not."""
    name, _, place = frame.partition(" ")
    return name if name in NAMES and ("demo.py:" in place) == (name not in C) else ""


def path_of(stack, whole):
    """Functions of the workload in a stack, which must be in order and complete. @whole: C functions
    are, too, unless the native part is cut."""
    owned = [own(f) for f in stack.frames]
    names = [n for n in owned if n]
    if not names:
        return []
    want = PATHS[names[-1]]
    missing = [n for n in want if n not in names]
    expect_equal([n for n in want if n not in missing], names, f"order of {stack.frames}")
    expect(all(n in C for n in missing), f"{missing} missing in {stack.frames}")
    cut = any(map(is_mark, stack.frames[owned.index("main"):]))
    expect(not missing or cut or not whole, f"{missing} missing, nothing says so: {stack.frames}")
    return names


def is_between_spaces(stack):
    """Where nothing can be read, and a mark says so: while s390x switches to a thread, its kernel has
    not loaded the address space yet."""
    return platform.machine() == "s390x" and any(map(is_mark, stack.frames)) and \
        any(f.startswith("finish_task_switch") for f in stack.frames)


def judge(stacks, whole):
    """Returns the shares of all functions."""
    ends, between = collections.Counter(), 0
    for stack in stacks:
        names = path_of(stack, whole) or [""]
        if names == [""] and is_between_spaces(stack):
            continue
        ends[names[-1]] += stack.count
        between += stack.count if names[-2:] == ["sort_rows", "compare"] else 0
    samples = sum(ends.values())
    expect(samples > 300, f"only {samples} samples")
    expect(ends[""] <= 1 + samples / 1000, f"{ends['']} of {samples} have nothing of the workload")
    shares = {name: ends[name] / samples for name in SHARES}
    note(f"{samples} samples: " + ", ".join(f"{n} {100 * s:.1f} %" for n, s in shares.items()) +
         f"; sort_rows stands between in {between} of {ends['compare']}")
    for name, share in shares.items():
        expect(abs(share - SHARES[name]) <= SLACK + five_sigma(SHARES[name], samples),
               f"{name} has {100 * share:.1f} %, burns {100 * SHARES[name]:.0f} %")
    expect(not whole or between > 0.8 * ends["compare"], "C functions between Python's are missing")
    return shares


def run(argv, timeout):
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout * PATIENCE,
                          check=False)
    expect(done.returncode == 0, f"exit status {done.returncode}\n{done.stderr[-3000:]}")
    expect(done.stdout, f"nothing on stdout\n{done.stderr[-3000:]}")
    shares = judge(parse_folded(done.stdout), whole=False)
    # The report says what the stacks say.
    said = re.findall(r"^ +([\d.]+) % +(\d+) % +main > .*?(\w+)(?: \(C\))?$", done.stderr, re.M)
    expect_equal([name for _, _, name in said], list(SHARES), f"report\n{done.stderr[-2000:]}")
    for share, part, name in said:
        expect(abs(float(share) - 100 * shares[name]) <= 0.051, f"{name}: report says {share} %")
        expect_equal(int(part), round(100 * SHARES[name]), f"{name}: by construction")
    expect(done.stderr.count(" %\n           <module>") >= 3, f"no stacks\n{done.stderr[-3000:]}")


@test(180)
def the_demo_prints_the_stacks_of_its_workload():
    run(["make", "-s", "demo", "DURATION=3"], 170)


# The stable interface is not there in free-threaded builds before 3.15, and another one from then.
@pythons.each(needs=("not free_threaded",), timeout=120)
def python_and_c_stand_in_one_order(interpreter):
    extension = glob.glob(os.path.join(ROOT, "build", "*", "workloads", "rprofdemo.abi3.so"))
    expect(extension, "rprofdemo.abi3.so is not built: make workloads")
    with open(os.path.join(WORKLOADS, "demo.py"), encoding="utf-8") as file:
        path = pythons.place(interpreter, file.read(), name="demo.py")
    folder = os.path.dirname(path)
    shutil.copy(extension[0], (interpreter.root or "") + folder)
    process = workload(*interpreter.argv, path, folder, env=pythons.environment())
    result = record("--stats", "-p", process.pid, "-F", 999, "-d", "4s").ok()
    check_accounting(result)
    judge(result.stacks(), whole=interpreter.frame_pointers)


if FULL:
    @test(1500)
    def the_demo_works_in_a_fresh_root():
        run(["scripts/fresh-root.sh", "make", "demo", "DURATION=3"], 1490)


if __name__ == "__main__":
    sys.exit(main())
