#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names of functions in every kind of file, and processes that change while they are followed."""
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FRAMES, build, check_accounting, end, expect, expect_equal, main, note,
                       record, scratch, spawn, test, total, workload)


def profile(process, *args):
    result = record("-p", process.pid, "-F", 999, "-d", 1, "-U", "--stats", *args).ok()
    check_accounting(result)
    return result


def expect_tail(result, *names):
    """Nearly all samples end in these frames. 10 %: other kernel work before the user returns."""
    stacks = result.stacks()
    hits = sum(s.count for s in stacks if s.frames[-len(names):] == list(names))
    expect(hits > 0.9 * total(stacks), f"{hits} of {total(stacks)} end in {names}\n{result}")


@test()
def functions_are_named_in_every_kind_of_executable():
    for name, flags in (("pie", ["-pie", "-fPIE"]), ("non-pie", ["-no-pie"]),
                        ("static", ["-static"]), ("static-pie", ["-static-pie"]),
                        ("one-segment", ["-Wl,-z,noseparate-code"]),
                        ("many-segments", ["-Wl,-z,separate-code"]),
                        ("moved", ["-no-pie", "-Wl,-Ttext-segment=0x7000000"])):
        program = build("spin.c", [*FRAMES, *flags])
        process = workload(program)
        expect_tail(profile(process), "main", "spin")
        end(process)
        os.remove(program)
        note(f"{name}: ok")


@test()
def a_stripped_file_gives_module_and_offset():
    program = build("spin.c")
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    start = int(re.search(r"^([0-9a-f]+) t spin$", symbols, re.MULTILINE)[1], 16)
    stripped = scratch("bare")
    subprocess.run(["strip", "-s", "-o", stripped, program], check=True)
    result = profile(workload(stripped))
    within = 0
    for stack in result.stacks():
        leaf = re.fullmatch(r"bare\+0x([0-9a-f]+)", stack.frames[-1])
        expect(leaf, f"{stack.frames[-1]} is not module+0xoffset\n{result}")
        # spin() has less than 64 bytes; now and then a sample is in main().
        within += stack.count * (start <= int(leaf[1], 16) < start + 64)
    expect(within > 0.9 * total(result.stacks()), f"spin() is at {start:#x}\n{result}")


@test()
def a_file_name_with_special_characters_is_escaped():
    odd = scratch("a;b\n c\x1b")
    subprocess.run(["strip", "-s", "-o", odd, build("spin.c")], check=True)
    result = profile(workload(odd), "-v")
    for stack in result.stacks():
        expect(stack.frames[-1].startswith("a;b\n c\x1b+0x"), f"{stack.frames[-1]!r}\n{result}")
    expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.err), f"raw bytes on stderr\n{result}")


@test()
def a_deleted_file_keeps_its_names():
    program = shutil.copy(build("spin.c"), scratch("gone"))
    process = workload(program)
    os.remove(program)
    expect_tail(profile(process), "main", "spin")


@test()
def a_file_that_was_replaced_lends_no_names():
    program = shutil.copy(build("spin.c"), scratch("updated"))
    process = workload(program)
    os.remove(program)
    shutil.copy(build("threads.c"), program)
    expect_tail(profile(process), "main", "spin")


@test()
def a_program_started_by_exec_during_the_run_is_named():
    process = spawn(["sh", "-c", f"sleep 1; exec {build('spin.c')}"], stdout=subprocess.DEVNULL)
    time.sleep(0.1)
    result = record("-p", process.pid, "-F", 999, "-d", 4, "-U", "--stats").ok()
    check_accounting(result)
    spin = [s for s in result.stacks() if s.comm == "spin"]
    named = sum(s.count for s in spin if s.frames[-2:] == ["main", "spin"])
    expect(total(spin) > 100, f"hardly any sample of the new program\n{result}")
    expect(named > 0.95 * total(spin), f"{named} of {total(spin)} are named\n{result}")


@test()
def a_library_loaded_during_the_run_is_named():
    library = build("spinlib.c", [*FRAMES, "-fPIC", "-shared"])
    process = workload(build("loader.c"), library, 2000)
    result = record("-p", process.pid, "-F", 999, "-d", 5, "-U", "--stats").ok()
    check_accounting(result)
    named = sum(s.count for s in result.stacks()
                if s.frames[-3:] == ["main", "lib_spin", "lib_inner"])
    note(f"{named} of {total(result.stacks())} samples in the library have their names")
    # Until the new mapping is noticed its frames are unknown; that may take a while, not for ever.
    expect(named > 0.5 * total(result.stacks()), f"only {named} are named\n{result}")


@test()
def children_are_not_counted_with_their_parent():
    program = build("shortlived.c")
    process = spawn(["sh", "-c", f"while :; do {program} 100; done"], stdout=subprocess.DEVNULL)
    result = record("-p", process.pid, "-F", 999, "-d", 3, "--stats")
    stats = check_accounting(result)
    # The shell itself: a fork every 100 ms.
    expect(stats["expected"] < 0.2 * 3 * 999, f"the children's CPU time is counted\n{result}")
    expect_equal({s.comm for s in result.stacks()} - {"sh"}, set(), "first fields")
    end(process)
    time.sleep(0.5)     # for the child that it has now


if __name__ == "__main__":
    sys.exit(main())
