#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""rprof-bpf ... -- COMMAND: its status, its user, its streams, its first instruction."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (Profiler, bpf_objects, build, check_accounting, expect, expect_equal,
                       expect_nothing_left, main, parse_folded, record, scratch, test, total,
                       wait_for)

NOBODY = 65534


def shell(script, *options, **kwargs):
    """Record a shell script, folded stacks to a file so that standard output is the command's."""
    return record("-o", scratch("out.folded"), "--as-root", *options, "--", "sh", "-c", script,
                  **kwargs)


@test()
def the_status_of_the_command_is_passed_on():
    for status in (0, 1, 3, 7, 255):
        expect_equal(shell(f"exit {status}").status, status, f"status of 'exit {status}'")


@test()
def a_signal_becomes_128_and_its_number():
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        result = shell(f"kill -{number.value} $$")
        expect_equal(result.status, 128 + number, f"status after {number.name}")


@test()
def a_command_that_cannot_be_run_is_126_or_127():
    plain = scratch("not-executable")
    with open(plain, "w", encoding="utf-8") as file:
        file.write("no program\n")
    for command, status in ((plain, 126), (scratch("no-such-file"), 127), ("no-such-command", 127)):
        before = bpf_objects()
        result = record("--as-root", "--", command)
        expect_equal(result.status, status, f"status of '{command}'")
        expect(os.path.basename(command) in result.err, f"the message does not name it\n{result}")
        expect_nothing_left(before)


@test()
def our_own_failure_is_125():
    result = record("--as-root", "-o", "/nonexistent/folder/out", "--", "sh", "-c", "exit 7")
    expect_equal(result.status, 125, "status when the output cannot be opened")
    expect("/nonexistent/folder" in result.err, f"the message does not name the file\n{result}")


@test()
def it_is_found_in_path_with_its_arguments():
    result = record("-o", scratch("out.folded"), "--as-root", "--", "printf", "%s-%s", "a b", ";")
    expect_equal(result.out, "a b-;", "standard output of the command")


@test()
def it_is_sampled_from_its_first_instruction():
    # 300 ms of its own CPU clock at 1 kHz; 10 %: the dynamic loader, exit, a tick at the edges.
    result = record("-F", 1000, "--stats", "--as-root", "-o", scratch("out.folded"), "--",
                    build("shortlived.c"), 300, stdout=subprocess.DEVNULL)
    expect_equal(result.status, 0, "status")
    stats = check_accounting(result)
    expect(270 <= stats["samples"] + stats["missed"] <= 345,
           f"{stats['samples']} samples of 300 ms at 1 kHz\n{result}")
    with open(scratch("out.folded"), encoding="utf-8") as file:
        stacks = parse_folded(file.read())
    expect_equal({s.comm for s in stacks}, {"shortlived"}, "first fields, none from before exec")
    spin = sum(s.count for s in stacks if "spin" in s.frames)
    expect(spin > 0.8 * total(stacks), f"spin has {spin} of {total(stacks)} samples")


@test()
def it_runs_as_the_user_that_sudo_came_from():
    sudo = dict(os.environ, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY), SUDO_USER="nobody")
    for options, uid in (([], NOBODY), (["--as-root"], 0)):
        result = record(*options, "-o", scratch(f"as-{uid}.folded"), "--", "sh", "-c",
                        "id -u; id -g; grep Groups /proc/self/status | tr -d 'Groups: \\t'; "
                        "grep CapEff /proc/self/status", env=sudo)
        lines = result.out.splitlines()
        expect_equal(lines[:2], [str(uid), str(uid)], f"user and group with {options}\n{result}")
        if uid:
            expect_equal(lines[2] in ("", str(NOBODY)), True, f"groups are {lines[2]}")
            expect_equal(int(lines[3].split()[1], 16), 0, "its effective capabilities")


@test()
def its_output_and_ours_are_not_mixed_up():
    result = shell("echo to-stdout; echo to-stderr >&2")
    expect_equal(result.out, "to-stdout\n", "standard output")
    expect("to-stderr" in result.err, "the command's own errors are lost")
    with open(scratch("out.folded"), encoding="utf-8") as file:
        parse_folded(file.read())


@test()
def it_inherits_nothing_of_ours():
    result = shell("ls -l /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status")
    expect("anon_inode" not in result.out, f"our descriptors leak into the command\n{result.out}")
    plain = subprocess.run(["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"],
                           capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    expect_equal(result.out.splitlines()[-2:], plain.stdout.splitlines(), "its signal masks")


@test()
def ctrl_c_ends_the_command_too():
    profiler = Profiler("--as-root", "-F", 99, "--", build("spin.c"), process_group=0)
    profiler.wait_sampling()
    children = f"/proc/{profiler.pid}/task/{profiler.pid}/children"

    def child():
        with open(children, encoding="utf-8") as file:
            return file.read().split()
    wait_for(child, "the command to start")
    pid = child()[0]

    # Until its exec it is a copy of us that waits for the end of our set-up.
    def is_the_command():
        with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
            return file.read() == "spin\n"
    wait_for(is_the_command, "the command to run")
    # A terminal's Ctrl-C goes to the whole process group.
    os.killpg(profiler.pid, signal.SIGINT)
    result = profiler.finish(20)
    expect_equal(result.status, 128 + signal.SIGINT, "status")
    expect(not os.path.exists(f"/proc/{pid}"), "the command still runs")


if __name__ == "__main__":
    sys.exit(main())
