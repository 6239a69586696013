#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Where nothing proves a caller or a name none is printed: code without unwind rules, kernel code that
is in no list, files on file systems that may not answer.

Each workload has a function that is never called and that a careless walk would find.
"""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (KERNEL_SUFFIX, PATIENCE, Skip, build, check_accounting, expect, main, note,
                       record, scratch, spawn, test, total, workload)
import badstack
import hangfs
import target


def profile(process, *args):
    result = record("-p", process.pid, "-F", 999, "-d", 2, "--annotate", "--stats", *args).ok()
    check_accounting(result)
    return result


def expect_no_stranger(result):
    bad = sum(s.count for s in result.stacks() if "never_called" in s.frames)
    expect(not bad, f"never_called is printed in {bad} of {total(result.stacks())}\n{result}")


@test()
def code_without_unwind_rules_ends_a_stack():
    program = build("nocfi.c")
    result = profile(workload(program), "-U")
    expect_no_stranger(result)
    want = ["[truncated: no unwind rule in nocfi]", "asm_loop"]
    hits = sum(s.count for s in result.stacks() if s.frames == want)
    note(f"{hits} of {total(result.stacks())} are {';'.join(want)}")
    expect(hits > 0.9 * total(result.stacks()), f"{result}")
    expect("marked: no unwind rule: nocfi" in result.err, f"not in the account\n{result}")


@test()
def kernel_code_that_is_in_no_list_gets_no_name():
    process = workload(build("seccomp.c"), 1500)
    result = record("-p", process.pid, "-F", 999, "-d", 5, "--annotate", "--stats").ok()
    check_accounting(result)
    unknown, filtered = 0, 0
    for stack in result.stacks():
        kernel = stack.kernel()
        if "__seccomp_filter" not in kernel:
            continue
        called = kernel[kernel.index("__seccomp_filter") + 1:]
        # A timer interrupts the filter now and then.
        if not called:
            continue
        filtered += stack.count
        unknown += stack.count * (called[0] == "[unknown]")
        expect(not called[0].startswith("bpf_prog_"), f"{called[0]} is not the filter\n{result}")
    note(f"{unknown} of {filtered} samples called by __seccomp_filter are [unknown]")
    expect(filtered > 300, f"premise: the filter was hardly sampled\n{result}")
    expect(unknown > 0.9 * filtered, f"{result}")
    expect(not re.search(rf"bpf_prog_[0-9a-f]+_rprof_\w+{re.escape(KERNEL_SUFFIX)}", result.out),
           f"a name of our own programs\n{result}")


@test()
def a_file_system_that_does_not_answer_does_not_hold_us():
    """The daemon of a FUSE file system is stopped after the program was started from it."""
    try:
        fs = hangfs.Mount(scratch("hang"), "spin", build("spin.c"))
    except OSError as error:
        raise Skip(f"no FUSE mount here: {error}") from error
    try:
        process = workload(fs.path)
        fs.hang()
        before = time.monotonic()
        result = profile(process, "-U", "-vv")
        took = time.monotonic() - before
    finally:
        fs.close()
    note(f"took {took:.1f} s")
    expect(took < 8 * PATIENCE, f"took {took:.1f} s for 2\n{result}")
    expect("spin: no symbols: file on a network or user-space file system" in result.err,
           f"not said\n{result}")
    hits = sum(s.count for s in result.stacks() if s.frames[-1].startswith("spin+0x"))
    expect(hits > 0.9 * total(result.stacks()), f"{result}")


@test()
def what_broken_stacks_lead_to_is_not_printed():
    for compiler in ("gcc", "clang"):
        program = target.build("badstack.c", scratch(f"bad_{compiler}"), target.HERE, compiler)
        process = workload(program)
        result = profile(process)
        process.kill()
        note(f"-- {compiler}")
        badstack.check(result.stacks())


if __name__ == "__main__":
    sys.exit(main())
