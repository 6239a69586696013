#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The two commands of the README on s390x itself (issue 5, acceptance 6): `make demo` where nothing
is installed yet, and `make test VM=0`. The machine is emulated: scripts/s390x-machine.sh.

    tests/e2e/native_s390x.py [SUITE|SET]...      only these, as tests/run knows them
"""
import collections
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import ROOT, Skip, expect, expect_equal, main, note, test

TIMEOUT = 5 * 3600
PARTS = {"parse": 15, "tokenize": 25, "smooth": 30, "sort_rows": 10, "compare": 20}
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def machine(*argv):
    """Run a command on it, telling what it says as it comes. Returns its status and output."""
    start, lines = time.monotonic(), []
    with subprocess.Popen(
            [os.path.join(ROOT, "scripts", "s390x-machine.sh"), "--timeout", str(TIMEOUT - 600),
             *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, errors="replace") as process:
        for line in process.stdout:
            lines.append(line.rstrip())
            note(f"s390x: {lines[-1]}")
    note(f"s390x machine: {' '.join(argv)}: {time.monotonic() - start:.0f} s")
    if process.returncode == 77:
        raise Skip(lines[-1] if lines else "the machine cannot be had")
    return process.returncode, "\n".join(lines)


def note_suites(text):
    """How many results of each suite were good; the counts of all do not tell them apart."""
    good, of, label = collections.Counter(), collections.Counter(), ""
    for line in text.split("\n"):
        if line.startswith("# == "):
            label = line.split()[2].rstrip(":")
        elif re.match(r"(not )?ok\b", line):
            of[label] += 1
            good[label] += line.startswith("ok")
    for label, n in of.items():
        note(f"s390x machine: {label}: {good[label]} of {n} ok")


@test(TIMEOUT)
def the_demo_works_where_nothing_is_installed():
    status, text = machine("--bare", "make", "demo", "DURATION=3")
    expect_equal(status, 0, "status of make demo")
    said = re.findall(r"^ +([\d.]+) % +(\d+) % +main > .*?(\w+)(?: \(C\))?$", text, re.M)
    expect_equal({name: int(part) for _, part, name in said}, PARTS, "report")
    for share, part, name in said:
        # Emulated processors miss samples, and more where a tick costs more.
        expect(abs(float(share) - float(part)) < 20, f"{name} has {share} %, burns {part} %")


@test(TIMEOUT)
def all_tests_pass_there():
    command = ["make", "test", "VM=0"]
    if SUITES:
        command = ["sh", "-c", 'make -j2 tests && exec tests/run "$@"', "sh", *SUITES]
    status, text = machine(*command)
    note_suites(text)
    counts = COUNTS.findall(text)
    expect(counts, f"status {status}, no counts")
    passed, failed, skipped = map(int, counts[-1])
    note(f"s390x machine: {passed} passed, {failed} failed, {skipped} skipped")
    failures = text.rpartition("\nFAILED:\n")[2].partition("\n\n")[0]
    expect(not failed and passed and not status, f"status {status}, {failed} failed:\n{failures}")


if __name__ == "__main__":
    SUITES = sys.argv[1:]
    sys.argv[1:] = ["all_tests_pass_there"] if SUITES else []
    sys.exit(main(needs_profiler=False))
