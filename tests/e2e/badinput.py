#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What bad input gets (issue 2, section 4): object, reason and remedy in words, the right exit
status, nothing left behind, nothing lost of what was collected."""
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (LEAST, PATIENCE, Profiler, Result, bpf_objects, build, check_accounting, end,
                       expect, expect_equal, expect_nothing_left, main, note, others_copy,
                       parse_folded, record, scratch, spawn, test, total, wait_for, workload)
import deepstacks

NOBODY = 65534
# A remedy is in brackets or says what to do; the messages are prose, so the meshes are wide.
REMEDY = (r"\([^)]+\)|"
          r"\b(try|use|needs?|needed|must|expected|give|run|instead|raise|free|choose|only)\b")


def expect_message(result, status, *patterns):
    """One clear message on stderr: each of the patterns (object, reason), and a remedy."""
    result.ok(status)
    for pattern in patterns:
        expect(re.search(pattern, result.err, re.IGNORECASE),
               f"the message does not say /{pattern}/\n{result}")
    expect(re.search(REMEDY, result.err, re.IGNORECASE), f"no remedy is given\n{result}")
    expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.err),
           f"raw control bytes on stderr\n{result}")
    expect("libbpf:" not in result.err, f"libbpf's chatter is shown\n{result}")
    note(result.err.strip().split("\n")[0])


def refused(status, patterns, *args, **kwargs):
    """A run that must fail with a message, write nothing and leave nothing."""
    before = bpf_objects()
    result = record(*args, **kwargs)
    expect_message(result, status, *patterns)
    expect_equal(result.out, "", "standard output")
    expect_nothing_left(before)
    return result


# ---- usage --------------------------------------------------------------------------------------

@test()
def a_bad_frequency_is_a_usage_error():
    for value in ("0", "-1", "1000000000", "abc", "", "1e3x", "99999999999999999999"):
        refused(2, [re.escape(value), r"-F|frequency|rate"], "-p", os.getpid(), "-F", value)


@test()
def a_bad_option_is_a_usage_error():
    for args, patterns in ((["--nonsense"], ["nonsense"]),
                           (["-p", "abc"], ["abc"]),
                           (["-p", "-5"], ["-5"]),
                           (["-p", "0"], [r"\b0\b"]),
                           (["-p", "1,,2"], ["1,,2|empty"]),
                           (["-p", "99999999999"], ["99999999999"]),
                           (["-p", "1", "-d", "5 parsecs"], ["parsecs"]),
                           (["-p", "1", "-d", "-3"], ["-3"]),
                           (["-p", "1", "-f", "nonsense"], ["nonsense", "folded"]),
                           (["-p", "1", "--max-loss", "101"], ["101"]),
                           (["-p"], ["-p|--pid"]),
                           (["-p", "1", "-a"], ["-a|--all"]),
                           (["-p", "1", "-K", "-U"], ["-K|--kernel", "-U|--user"]),
                           (["-p", "1", "--", "true"], ["-p|--pid|command"]),
                           (["--"], ["command"]),
                           ([], ["-p|--pid"])):
        refused(2, patterns, *args)


@test()
def numbers_may_have_units():
    process = workload(build("spin.c"))
    for args in (["-F", "1khz", "-d", "500ms"], ["-r", "999", "-d", "1s"],
                 ["-F", "99Hz", "-d", "0.5"]):
        result = record("record", "-p", process.pid, *args, "--stats").ok()
        check_accounting(result)


# ---- targets ------------------------------------------------------------------------------------

@test()
def no_such_pid():
    process = spawn(["true"])
    process.wait()
    refused(1, [str(process.pid), "no such process"], "-p", process.pid)
    refused(1, [str(process.pid), "no such (thread|process)"], "--tid", process.pid)


@test()
def one_bad_pid_of_two_is_named():
    good, gone = workload(build("spin.c")), spawn(["true"])
    gone.wait()
    refused(1, [rf"\b{gone.pid}\b", "no such process"], "-p", f"{good.pid},{gone.pid}")


@test()
def a_kernel_thread():
    # kthreadd is pid 2 wherever we are not in a pid namespace of our own.
    with open("/proc/2/stat", encoding="utf-8") as stat:
        expect("(kthreadd)" in stat.read(), "premise: pid 2 is kthreadd")
    result = record("-p", 2, "-d", 1, "--stats")
    expect(result.status in (0, 3), f"{result}")
    expect(re.search(r"-p 2: is a kernel thread", result.err), f"that is not said\n{result}")
    check_accounting(result)


@test()
def a_zombie():
    process = spawn(["true"])
    wait_for(lambda: open(f"/proc/{process.pid}/stat", encoding="utf-8").read().split()[2] == "Z",
             "the child to become a zombie")
    refused(1, [str(process.pid), "zombie|exited|has ended"], "-p", process.pid)


@test()
def a_tid_that_is_no_thread_leader_as_pid():
    process = workload(build("threads.c"), 2)
    tid = max(int(t) for t in os.listdir(f"/proc/{process.pid}/task"))
    refused(1, [str(tid), r"thread", rf"--tid|-L|-p {process.pid}"], "-p", tid)


@test()
def a_process_that_exits_during_the_run_keeps_its_samples():
    ms = 1500 * PATIENCE
    process = workload(build("shortlived.c"), ms)
    start = time.monotonic()
    result = record("-p", process.pid, "-F", 999, "-d", 40 * PATIENCE, "--stats").ok()
    expect(time.monotonic() - start < 30 * PATIENCE, "it went on although its only target is gone")
    stats = check_accounting(result)
    spin = sum(s.count for s in result.stacks() if "spin" in s.frames)
    note(f"{stats['samples']} samples, {spin} in spin")
    # It had run for a while when sampling began: half of its time is a safe part.
    expect(stats["expected"] > 0.5 * ms and spin > 0.9 * stats["samples"] and
           stats["samples"] > LEAST * stats["expected"], f"samples or names are lost\n{result}")


@test()
def a_process_that_exits_at_once():
    before = bpf_objects()
    seen = collections.Counter()
    for delay in (0, 1, 2, 5, 10, 20, 50, 100, 200):
        process = spawn([build("shortlived.c"), str(delay)], stdout=subprocess.DEVNULL)
        profiler = Profiler("-p", process.pid, "-F", 999, "-d", 20, "--stats")
        process.wait()      # reaped: it goes at any moment of our start
        result = profiler.finish(30)
        seen[result.status] += 1
        expect(result.status in (0, 1, 3), f"{result}")
        if result.status == 1:
            expect_message(result, 1, str(process.pid), "no such process|zombie|exited|ended")
        else:
            check_accounting(result)
    note(f"exit statuses {dict(seen)}")
    expect_nothing_left(before)


@test()
def a_comm_with_special_characters_is_escaped():
    for comm in (b"a;b c", b"[x] (y)", b"new\nline", b"tab\tesc\x1b[31m", b"back\\slash",
                 b"n 12", b"\xff\xfebad", "h\u00e9llo".encode(), b" ", b"a\r"):
        process = start_comm(comm)
        result = record("-p", process.pid, "-F", 999, "-d", 1, "--stats", "-v").ok()
        check_accounting(result)
        want = comm.decode("utf-8", "replace")
        expect_equal({s.comm for s in result.stacks()}, {want}, "first field, unescaped")
        expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.err),
               f"raw control bytes on stderr\n{result}")
        end(process)


def start_comm(comm):
    process = spawn([build("comm.c").encode(), comm], stdout=subprocess.PIPE, text=True)
    expect(process.stdout.readline().startswith("ready"), "comm.c is not ready")
    return process


@test()
def two_hundred_threads():
    # They are nice: 200 busy threads would leave the profiler a hundredth of a CPU to start with.
    process = workload("nice", "-n", 19, build("threads.c"), 200)
    result = record("-p", process.pid, "-F", 999, "-d", 5, "-t", "--stats").ok()
    check_accounting(result)
    tids = {s.comm for s in result.stacks() if "thread_spin" in s.frames}
    note(f"{len(tids)} threads seen")
    # They share the CPUs in slices of a few milliseconds: 25 ms or more for each.
    expect(len(tids) >= 190, f"only {len(tids)} of 200 threads seen")


# ---- rights -------------------------------------------------------------------------------------

def as_user(*setpriv, args=()):
    argv = ["setpriv", *setpriv, others_copy(), *map(str, args)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False,
                          timeout=60 * PATIENCE)
    return Result(argv, done.returncode, done.stdout, done.stderr)


@test()
def not_root_names_the_missing_capability():
    process = workload(build("spin.c"))
    before = bpf_objects()
    result = as_user(f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                     args=["-p", process.pid, "-d", 1])
    expect_message(result, 1, "CAP_BPF|CAP_PERFMON|CAP_SYS_ADMIN", "root|sudo")
    expect_nothing_left(before)


@test()
def root_without_one_capability_is_told_which():
    process = workload(build("spin.c"))
    for missing in ("bpf", "perfmon"):
        drop = f"-{missing},-sys_admin"
        result = as_user(f"--bounding-set={drop}", f"--inh-caps={drop}",
                         args=["-p", process.pid, "-d", 1])
        expect_message(result, 1, f"CAP_{missing.upper()}")


@test()
def a_small_memlock_limit_is_no_obstacle():
    # From 5.11 on BPF memory is not charged to it; on older kernels the program raises it.
    process = workload(build("spin.c"))
    result = record("-p", process.pid, "-F", 999, "-d", 1, "--stats",
                    prefix=["prlimit", "--memlock=0:0"]).ok()
    check_accounting(result)


@test()
def few_descriptors_are_an_error_in_words():
    process = workload(build("spin.c"))
    before = bpf_objects()
    result = record("-p", process.pid, "-d", 1, prefix=["prlimit", "--nofile=8:8"])
    expect_message(result, 1, "too many open files|descriptors")
    expect_nothing_left(before)


# ---- output -------------------------------------------------------------------------------------

def busy_stacks():
    """A process with many distinct stacks: megabytes of output."""
    deepstacks.generate(scratch("deep.c"))
    return workload(build(scratch("deep.c")))


@test()
def a_full_disk_is_said_and_leaves_no_half_file():
    process, folder = busy_stacks(), scratch("small-disk")
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], check=True)
    try:
        before = bpf_objects()
        result = record("-p", process.pid, "-F", 4999, "-d", 2, "-o", f"{folder}/out", "--stats")
        expect_message(result, 1, re.escape(f"{folder}/out"), "no space|full")
        expect_equal(os.listdir(folder), [], "files left on the full disk")
        check_accounting(result)
        expect(result.out, f"what was collected is lost\n{result}")
        expect_nothing_left(before)
    finally:
        subprocess.run(["umount", folder], check=True)


@test()
def a_full_device_as_standard_output_is_an_error():
    process = workload(build("spin.c"))
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = record("-p", process.pid, "-F", 999, "-d", 1, stdout=full)
    expect_message(result, 1, "standard output|stdout", "no space|full")


@test()
def a_closed_standard_output_is_an_error():
    process = workload(build("spin.c"))
    before = bpf_objects()
    result = record("-p", process.pid, "-F", 999, "-d", 1,
                    prefix=["sh", "-c", 'exec "$@" >&-', "sh"])
    expect_message(result, 1, "standard output|stdout", "closed|bad file descriptor")
    expect_nothing_left(before)


@test()
def a_reader_that_goes_away_ends_it_quietly():
    process = busy_stacks()
    before = bpf_objects()
    profiler = Profiler("-p", process.pid, "-F", 4999, "-d", 2, "-q", stdout=subprocess.PIPE)
    profiler.process.stdout.close()
    profiler.process.stdout = None
    result = profiler.finish()
    expect(result.status in (0, 128 + signal.SIGPIPE, -signal.SIGPIPE), f"{result}")
    expect_equal(result.err, "", "stderr")
    expect_nothing_left(before)


@test()
def an_output_that_cannot_be_opened():
    process = workload(build("spin.c"))
    for path in ("/nonexistent/folder/out", scratch(), "/proc/self/out"):
        refused(1, [re.escape(path)], "-p", process.pid, "-d", 1, "-o", path)


@test()
def an_output_that_is_a_link_does_not_reach_its_target():
    process, victim, link = workload(build("spin.c")), scratch("victim"), scratch("link")
    with open(victim, "w", encoding="utf-8") as file:
        file.write("precious\n")
    os.symlink(victim, link)
    result = record("-p", process.pid, "-F", 999, "-d", 1, "-o", link)
    with open(victim, encoding="utf-8") as file:
        expect_equal(file.read(), "precious\n", "what the link points to")
    if result.status == 0:      # the link itself was replaced
        expect(not os.path.islink(link), "the link still stands, where is the output?")
    else:
        expect_message(result, 1, re.escape(link), "link")
    os.remove(link)


@test()
def the_output_belongs_to_the_user_that_sudo_came_from():
    process, path = workload(build("spin.c")), scratch("owned.folded")
    sudo = dict(os.environ, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
    record("-p", process.pid, "-F", 999, "-d", 1, "-o", path, env=sudo).ok()
    stat = os.stat(path)
    expect_equal((stat.st_uid, stat.st_gid), (NOBODY, NOBODY), "owner")
    expect_equal(stat.st_mode & 0o111, 0, "execute bits")
    for bad in ("nonsense", "-1", "4294967296"):
        os.remove(path)
        record("-p", process.pid, "-F", 999, "-d", 1, "-o", path,
               env=dict(sudo, SUDO_UID=bad)).ok()
        expect_equal(os.stat(path).st_uid, 0, f"owner with SUDO_UID={bad}")


@test()
def the_file_of_another_user_is_not_replaced():
    process, path = workload(build("spin.c")), scratch("theirs")
    with open(path, "w", encoding="utf-8") as file:
        file.write("precious\n")
    os.chown(path, NOBODY, NOBODY)
    refused(1, [re.escape(path), "another user"], "-p", process.pid, "-d", 1, "-o", path)
    with open(path, encoding="utf-8") as file:
        expect_equal(file.read(), "precious\n", "their file")


@test()
def an_output_file_appears_whole_or_not_at_all():
    process, folder = busy_stacks(), scratch("whole")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "out")
    with open(path, "w", encoding="utf-8") as file:
        file.write("old 1\n")
    profiler = Profiler("-p", process.pid, "-F", 4999, "-o", path).wait_sampling()
    time.sleep(1)
    with open(path, encoding="utf-8") as file:
        expect_equal(file.read(), "old 1\n", "the old file while sampling")
    profiler.stop().ok()
    with open(path, encoding="utf-8") as file:
        expect(total(parse_folded(file.read())) > 1000, "the new file is short")
    expect_equal(os.listdir(folder), ["out"], "files left")


# ---- signals and CPUs ---------------------------------------------------------------------------

@test()
def sigusr1_writes_what_there_is_and_goes_on():
    process, path = workload(build("spin.c")), scratch("usr1.folded")
    profiler = Profiler("-p", process.pid, "-F", 999, "-o", path, "--stats").wait_sampling()
    counts = []
    for _ in range(3):
        time.sleep(0.7)
        if os.path.exists(path):
            os.remove(path)
        profiler.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(path), "the dump")
        with open(path, encoding="utf-8") as file:
            counts.append(total(parse_folded(file.read())))
        expect(profiler.process.poll() is None, "it ended at SIGUSR1")
    result = profiler.stop().ok()
    stats = check_accounting(result)
    with open(path, encoding="utf-8") as file:
        counts.append(total(parse_folded(file.read())))
    note(f"samples in the dumps and at the end: {counts}")
    expect(counts[:3] == sorted(set(counts[:3])), f"the dumps do not grow: {counts}")
    expect(counts[3] >= counts[2], f"the end has less than the last dump: {counts}")
    expect_equal(counts[-1], stats["received"], "samples at the end")


@test()
def sigusr1_dumps_to_standard_output_too():
    process = workload(build("spin.c"))
    profiler = Profiler("-p", process.pid, "-F", 999, "--stats").wait_sampling()
    time.sleep(0.7)
    profiler.process.send_signal(signal.SIGUSR1)
    wait_for(profiler.output, "the dump")
    time.sleep(0.3)
    expect(profiler.process.poll() is None, "it ended at SIGUSR1")
    parse_folded(profiler.output())
    profiler.stop().ok()


if __name__ == "__main__":
    sys.exit(main())
