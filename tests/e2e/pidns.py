#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Pid namespaces: the profiler in one, with or without a /proc of its own; targets in one below, seen
from wherever they have a number. Numbers are those of the profiler's own namespace, names right.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (build, check_accounting, expect, expect_equal, main, note, record,
                       spawn, test, total)

NAMESPACE = ("unshare", "--kill-child", "-pf", "--mount-proc")
OUTER_PROC = ("unshare", "--kill-child", "-pf")
CONTAINER = ("unshare", "--kill-child", "-Urpf", "--mount-proc")

# Start "$1" and run the rest with -p and its number, as the first process of a namespace does.
BESIDE = r"""
program=$1; shift
"$program" > /dev/null & p=$!
sleep 0.3
"$@" -p $p; status=$?
kill -9 $p
exit $status
"""

# The same with a program that is in a namespace below: its number is here, its parent unshare.
BELOW = r"""
program=$1; shift
unshare --kill-child -Urpf --mount-proc "$program" > /dev/null & p=$!
sleep 0.5
read -r below < /proc/$p/task/$p/children
"$@" -p "$below"; status=$?
kill -9 "$below"
exit $status
"""

RATE = ("-F", 999, "-d", 2, "-U", "--stats")


def inside(namespace, script, *arguments):
    """A prefix for the profiler."""
    return (*namespace, "sh", "-c", script, "sh", *arguments)


def expect_named(result, name="spin", share=0.95):
    """All samples are of the workload, and end in its function."""
    stacks = result.stacks()
    own = sum(s.count for s in stacks if s.frames[-1] == name)
    strangers = {s.comm for s in stacks if s.comm.partition("-")[0] != name}
    note(f"{own} of {total(stacks)} samples are in {name}()")
    expect(not strangers, f"samples of {strangers}\n{result}")
    expect(total(stacks) > 50, f"premise: hardly a sample\n{result}")
    expect(own >= share * total(stacks), f"names are missing\n{result}")


def check_inside(namespace, script=BESIDE):
    spin = build("spin.c")
    result = record(*RATE, prefix=inside(namespace, script, spin)).ok()
    check_accounting(result)
    expect_named(result)


@test()
def in_a_namespace_with_its_own_proc():
    check_inside(NAMESPACE)


@test()
def in_a_namespace_with_the_proc_of_another():
    check_inside(OUTER_PROC)


@test()
def in_a_namespace_in_a_namespace():
    check_inside((*NAMESPACE, *NAMESPACE))
    check_inside((*NAMESPACE, *OUTER_PROC))


def container(program):
    """A workload in its own pid, mount and user namespace; its number here."""
    outer = spawn([*CONTAINER, program], stdout=subprocess.PIPE, text=True)
    expect(outer.stdout.readline().startswith("ready"), "premise: no user namespaces here?")
    with open(f"/proc/{outer.pid}/task/{outer.pid}/children", encoding="ascii") as children:
        return int(children.read())


@test()
def a_target_in_a_container_is_named_from_outside():
    result = record(*RATE, "-p", container(build("spin.c"))).ok()
    check_accounting(result)
    expect_named(result)


@test()
def a_target_below_is_named_from_between():
    check_inside(NAMESPACE, BELOW)


@test()
def all_of_a_namespace():
    """What is outside has no number here: its kernel stacks alone, and that is said."""
    spin = build("spin.c")
    stranger = spawn([build("threads.c"), "1"], stdout=subprocess.PIPE, text=True)
    expect(stranger.stdout.readline().startswith("ready"), "premise")
    script = BESIDE.replace("-p $p", "-a")
    result = record("-F", 999, "-d", 2, "--annotate", "--stats",
                    prefix=inside(NAMESPACE, script, spin)).ok()
    stats = check_accounting(result)
    stacks = result.stacks()
    ours = [s for s in stacks if s.comm.startswith("spin-")]
    named = sum(s.count for s in ours if "spin" in s.frames)
    outside = [s for s in stacks if s.comm == "threads"]
    note(f"{named} of {total(ours)} samples of spin are named; {total(outside)} samples outside")
    expect(total(ours) > 50 and total(outside) > 50, f"premise\n{result}")
    expect(named >= 0.95 * total(ours), f"{result}")
    expect({s.comm for s in ours} == {"spin-2"}, f"not our number\n{result}")
    expect(stats.get("stopped: outside of this pid namespace", 0) >= total(outside),
           f"it is not said what is missing\n{result}")
    user = [f for s in outside for f in s.user() if not f.startswith("[")]
    expect(not user, f"user frames of what is outside: {user[:3]}\n{result}")


@test()
def a_command_and_its_children():
    for namespace in (NAMESPACE, OUTER_PROC):
        result = record("-s", "-F", 999, "-U", "--stats", "--", "sh", "-c",
                        f"{build('shortlived.c')} 600 >&2 & wait; exit 7", prefix=namespace)
        expect_equal(result.status, 7, f"status of the command\n{result}")
        stats = check_accounting(result)
        child = sum(s.count for s in result.stacks() if s.comm == "shortlived")
        note(f"{child} samples of the child; expected {stats['expected']}, "
             f"matched {stats['matched']}")
        expect(child > 200, f"the child is not followed\n{result}")
        off = abs(stats["expected"] - stats["matched"])
        expect(off <= 0.1 * stats["matched"] + 5, f"expected is off by {off}\n{result}")


@test()
def a_command_gets_no_descriptor_of_ours():
    result = record("--", "sh", "-c", "ls /proc/self/fd >&2; exit 3", prefix=OUTER_PROC)
    expect_equal(result.status, 3, f"status of the command\n{result}")
    fds = [line for line in result.err.split("\n") if line.isdigit()]
    expect_equal(fds, ["0", "1", "2", "3"], "descriptors of ls, which has the folder open")


@test()
def without_a_number_there_is_no_process():
    target = spawn([build("spin.c")], stdout=subprocess.DEVNULL)
    result = record("-p", target.pid, "-d", 1, prefix=NAMESPACE)
    expect_equal(result.status, 1, "exit status")
    expect(f"-p {target.pid}: no such process" in result.err, f"{result}")


if __name__ == "__main__":
    sys.exit(main())
