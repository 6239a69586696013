#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What a process does to its image and its numbers lends no names and no samples."""
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (FRAMES, Profiler, Skip, build, check_accounting, end, expect, main, note,
                       record, scratch, spawn, test, total, workload)


def variant(source, name, *flags):
    """A workload built with -DNAME=name, under that name."""
    return shutil.move(build(source, (f"-DNAME={name}", *FRAMES, *flags)),
                       scratch(f"{name}.bin"))


def count(result, *frames):
    """Samples whose stack has all these frames."""
    return sum(s.count for s in result.stacks() if all(f in s.frames for f in frames))


@test(60)
def a_library_in_the_place_of_another_is_named():
    libraries = [variant("swaplib.c", name, "-shared", "-fPIC") for name in ("alpha", "bravo")]
    process = workload(build("swap.c"), libraries[0], 4, libraries[1], 4)
    result = record("-p", process.pid, "-F", 999, "-U", "--stats").ok()
    check_accounting(result)
    where = process.stdout.read().strip()
    alpha, bravo = count(result, "alpha"), count(result, "bravo")
    note(f"{where}: alpha {alpha}, bravo {bravo} of {total(result.stacks())}")
    # Both ran for 4 s; names may be a second late, which is when mappings are looked at again.
    expect(alpha > 0 and bravo > 0, f"{result}")
    expect(bravo >= 0.5 * alpha, f"alpha {alpha} samples, bravo {bravo}\n{result}")


@test(60)
def an_image_is_named_by_its_own_file():
    programs = {name: variant("execchain.c", name, "-no-pie", "-static")
                for name in ("fn_a", "fn_b")}
    result = record("-F", 4999, "-U", "--stats", "--", programs["fn_a"], "60",
                    programs["fn_b"]).ok()
    check_accounting(result)
    wrong = sum(s.count for s in result.stacks() for name in programs
                if name in s.frames and s.comm != os.path.basename(programs[name]))
    right = count(result, "fn_a") + count(result, "fn_b")
    note(f"{right} named samples of {total(result.stacks())}, {wrong} by the other image")
    expect(right > 50, f"premise\n{result}")
    expect(wrong == 0, f"{wrong} of {right} samples are named by another image\n{result}")


@test(60)
def a_number_that_is_used_again_is_another_process():
    spin, other = build("spin.c"), build("threads.c")
    keeper, target = workload(spin), workload(spin)
    number = target.pid
    profiler = Profiler("-p", f"{keeper.pid},{number}", "-F", 999, "-d", 8, "-U", "--stats")
    time.sleep(2)
    end(target)
    stranger = None
    for _ in range(50):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w", encoding="ascii") as last:
                last.write(str(number - 1))
        except OSError as error:
            raise Skip(f"ns_last_pid cannot be written: {error}") from error
        stranger = spawn([other, "1"], stdout=subprocess.DEVNULL)
        if stranger.pid == number:
            break
        end(stranger)
    expect(stranger.pid == number, "premise: the number was not given out again")
    result = profiler.finish(60).ok()
    check_accounting(result)
    foreign = sum(s.count for s in result.stacks() if s.comm == os.path.basename(other))
    expect(foreign == 0, f"{foreign} samples of a stranger\n{result}")


@test(60)
def kernel_workers_of_a_process_have_no_user_stack():
    process = spawn([build("iouring.c")], stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline().startswith("ready"):
        raise Skip("no io_uring here")
    result = record("-p", process.pid, "-F", 999, "-d", 3, "--annotate", "--stats").ok()
    check_accounting(result)
    workers = [s for s in result.stacks() if s.comm.startswith("iou-wrk")]
    samples = total(workers)
    if samples < 20:
        raise Skip(f"only {samples} samples of workers")
    with_user = sum(s.count for s in workers if s.user())
    expect(with_user == 0, f"{with_user} of {samples} worker samples have user frames\n{result}")


@test(60)
def a_set_user_id_command_is_accounted_for():
    program = shutil.copy(build("shortlived.c"), scratch("setuid"))
    os.chmod(os.path.dirname(program), 0o755)
    os.chmod(program, 0o4755)
    env = dict(os.environ, SUDO_UID="65534", SUDO_GID="65534")
    result = record("-F", 999, "--stats", "-o", scratch("out"), "--", program, "4000", env=env)
    stats = result.stats()
    note(f"expected {stats['expected']}, matched {stats['matched']}")
    expect(stats["matched"] > 100, f"premise\n{result}")
    off = abs(stats["expected"] - stats["matched"])
    expect(off <= 0.1 * stats["matched"] + 5, f"expected is off by {off}\n{result}")


if __name__ == "__main__":
    sys.exit(main())
