#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Signals: each ends the run or is left alone as it should be, nobody is left running, and what was
collected is written, whatever fails meanwhile."""
import os
import re
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (PATIENCE, Profiler, bpf_objects, build, check_accounting, cpu_seconds,
                       expect, expect_equal, expect_nothing_left, main, note, parse_folded, record,
                       scratch, spawn, state, test, total, wait_for, workload)
import deepstacks

# Signals closer together than 250 ms are one request (timeout, sudo and shells send it twice).
APART = 0.6


def busy_stacks():
    """A process with many distinct stacks: megabytes of output, new stacks all the time."""
    deepstacks.generate(scratch("deep.c"))
    return workload(build(scratch("deep.c")))


def with_fault(fault, file=None):
    """The environment in which tests/workloads/faults.c makes something fail."""
    library = build("faults.c", flags=("-shared", "-fPIC"))
    env = dict(os.environ, LD_PRELOAD=library, FAULT=fault)
    return dict(env, FAULT_FILE=file) if file else env


def started(*args, **kwargs):
    return Profiler(*args, **kwargs).wait_sampling()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def fresh(name, text=None):
    """A path in an empty folder of its own, or a file there with @text."""
    folder = scratch(name)
    os.makedirs(folder, exist_ok=True)
    for entry in os.listdir(folder):
        os.remove(os.path.join(folder, entry))
    path = os.path.join(folder, "out")
    if text is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return path


def expect_only(path):
    """No temporary file is left beside it."""
    names = os.listdir(os.path.dirname(path))
    expect(names in ([], [os.path.basename(path)]), f"files left: {names}")


# ---- the end of a run ---------------------------------------------------------------------------

@test()
def each_of_them_ends_the_run_and_the_profile_is_written():
    process = workload(build("spin.c"))
    for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        profiler = started("-p", process.pid, "-F", 999, "--stats")
        time.sleep(0.5)
        check_accounting(profiler.stop(sig).ok())


@test()
def what_was_ignored_at_the_start_stays_ignored():
    process = workload(build("spin.c"))
    # nohup; a background job of a script
    for ignored in ([signal.SIGHUP], [signal.SIGINT, signal.SIGQUIT]):
        names = ",".join(sig.name for sig in ignored)
        profiler = started("-p", process.pid, "-F", 999, "--stats",
                            prefix=["env", f"--ignore-signal={names}"])
        for sig in ignored:
            profiler.process.send_signal(sig)
        time.sleep(0.7)
        expect(profiler.process.poll() is None, f"it ended at {names}, which was ignored")
        check_accounting(profiler.stop(signal.SIGTERM).ok())


@test()
def timeout_sends_its_signal_twice_and_the_profile_is_whole():
    process, path = workload(build("spin.c")), fresh("timeout")
    for _ in range(2):
        result = record("-p", process.pid, "-F", 999, "-o", path, prefix=["timeout", "5"])
        expect_equal(result.status, 124, "status of timeout")
        expect(total(parse_folded(read(path))) > 0, "the profile is empty")
        expect_only(path)
        os.remove(path)


@test()
def a_second_signal_ends_a_write_that_hangs():
    process = busy_stacks()
    before = bpf_objects()
    for sig in (signal.SIGINT, signal.SIGTERM):
        profiler = started("-p", process.pid, "-F", 4999, stdout=subprocess.PIPE)
        time.sleep(3)       # more stacks than a pipe holds
        profiler.process.send_signal(signal.SIGINT)
        time.sleep(2)
        expect(profiler.process.poll() is None, "premise: the write does not hang")
        profiler.process.send_signal(sig)
        expect_equal(profiler.process.wait(10 * PATIENCE), 128 + sig, "status")
    expect_nothing_left(before)


@test()
def a_second_signal_ends_a_dump_that_hangs():
    process = busy_stacks()
    profiler = started("-p", process.pid, "-F", 4999, stdout=subprocess.PIPE)
    time.sleep(3)
    profiler.process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    profiler.process.send_signal(signal.SIGINT)
    time.sleep(APART)
    expect(profiler.process.poll() is None, "premise: the dump does not hang")
    profiler.process.send_signal(signal.SIGINT)
    expect_equal(profiler.process.wait(10 * PATIENCE), 128 + signal.SIGINT, "status")


@test()
def a_first_signal_in_a_dump_ends_the_run_after_it():
    process = busy_stacks()
    profiler = started("-p", process.pid, "-F", 4999, stdout=subprocess.PIPE)
    time.sleep(3)
    profiler.process.send_signal(signal.SIGUSR1)
    time.sleep(0.5)
    profiler.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    out = profiler.process.stdout.read().decode("utf-8", "surrogateescape")
    profiler.finish().ok()
    expect(total(parse_folded(out)) > 0, "there is no profile")


@test()
def a_second_signal_leaves_no_temporary_file():
    process, path = workload(build("spin.c")), fresh("hang", "old 1\n")
    profiler = started("-p", process.pid, "-F", 999, "-o", path,
                        env=with_fault("renameat"))
    time.sleep(0.5)
    expect_equal(len(os.listdir(os.path.dirname(path))), 2, "premise: files while sampling")
    profiler.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    expect(profiler.process.poll() is None, "premise: it does not hang")
    profiler.process.send_signal(signal.SIGTERM)
    expect_equal(profiler.process.wait(10 * PATIENCE), 128 + signal.SIGTERM, "status")
    expect_only(path)
    expect_equal(read(path), "old 1\n", "the old file")


# ---- with a command -----------------------------------------------------------------------------

class Command:
    """rprof-bpf -- sh -c "@traps; echo ready; @script", once it is ready."""

    def __init__(self, traps, *options, script="while :; do :; done"):
        self.path = fresh("command")
        self.profiler = Profiler("--as-root", "-o", self.path, "-F", 999, *options, "--", "sh",
                                 "-c", f"{traps}; echo ready $$; {script}")
        wait_for(lambda: self.profiler.output().startswith("ready"), "the command")
        self.pid = int(self.profiler.output().split()[1])

    def wait_written(self):
        """Sampling is over, and we wait for the command."""
        wait_for(lambda: os.path.exists(self.path), "the profile")
        time.sleep(APART)
        return self

    def signal(self, sig):
        self.profiler.process.send_signal(sig)

    def expect_status(self, status):
        result = self.profiler.finish(20)
        expect_equal(result.status, status, f"status\n{result}")
        expect_equal(state(self.pid), "", "state of the command")


@test()
def waiting_for_the_command_costs_nothing():
    command = Command("i=0", "-d", 0.5,
                      script="while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 4")
    command.wait_written()
    before = cpu_seconds(command.profiler.pid)
    time.sleep(1.5)
    used = cpu_seconds(command.profiler.pid) - before
    note(f"{used:.2f} s of CPU time in 1.5 s of waiting")
    command.expect_status(0)
    expect(used < 0.15, f"{used} s of CPU time in 1.5 s of waiting")


@test()
def a_signal_after_the_duration_goes_to_the_command():
    for sig, status in ((signal.SIGTERM, 7), (signal.SIGHUP, 8)):
        command = Command("trap 'sleep 0.5; exit 7' TERM; trap 'sleep 0.5; exit 8' HUP",
                          "-d", 0.5).wait_written()
        command.signal(sig)
        command.expect_status(status)


@test()
def a_signal_that_ends_the_run_goes_to_the_command_at_once():
    command = Command("trap 'exit 7' TERM")
    time.sleep(APART)
    command.signal(signal.SIGTERM)
    command.expect_status(7)
    expect(parse_folded(read(command.path)), "the profile is empty")


@test()
def a_second_one_goes_to_the_command_too():
    command = Command("n=0; trap 'n=$((n+1)); [ $n = 1 ] || exit 9' TERM")
    time.sleep(APART)
    command.signal(signal.SIGTERM)
    command.wait_written()
    expect_equal(command.profiler.process.poll(), None, "status after the first")
    command.signal(signal.SIGTERM)
    command.expect_status(9)


@test()
def a_command_that_does_not_end_is_killed_at_the_second_signal():
    for first, second in ((signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGINT),
                          (signal.SIGINT, signal.SIGINT)):
        command = Command("trap '' TERM HUP INT", "-d", 0.5).wait_written()
        command.signal(first)
        time.sleep(APART)
        expect_equal(command.profiler.process.poll(), None, f"status after {first.name}")
        expect(state(command.pid) in ("R", "S"), "the command is gone")
        command.signal(second)
        command.expect_status(128 + signal.SIGKILL)


@test()
def a_write_that_hangs_leaves_no_command_behind():
    path = fresh("command-hang")
    profiler = Profiler("--as-root", "-o", path, "-F", 999, "-d", 0.5, "--", "sh", "-c",
                        "trap '' TERM; echo ready $$; while :; do :; done", env=with_fault("renameat"))
    wait_for(lambda: profiler.output().startswith("ready"), "the command")
    pid = int(profiler.output().split()[1])
    time.sleep(1.5)
    for _ in range(2):
        expect_equal(profiler.process.poll(), None, "status while it hangs")
        profiler.process.send_signal(signal.SIGTERM)
        time.sleep(APART)
    expect_equal(profiler.process.wait(10 * PATIENCE), 128 + signal.SIGTERM, "status")
    wait_for(lambda: state(pid) in ("", "Z"), "the command to end")
    expect_equal(os.listdir(os.path.dirname(path)), [], "files left")


@test()
def its_status_is_known_if_sigchld_was_ignored():
    result = record("-o", scratch("chld.folded"), "--as-root", "--", "sh", "-c", "exit 7",
                    prefix=["env", "--ignore-signal=CHLD"], timeout=20)
    expect_equal(result.status, 7, "status")


# ---- the reader ---------------------------------------------------------------------------------

@test()
def a_reader_that_goes_away_ends_the_run():
    process = workload(build("spin.c"))
    before = bpf_objects()
    for make in (os.pipe, lambda: [s.detach() for s in socket.socketpair()]):
        for gone_first in (True, False):
            reader, writer = make()
            run = Profiler if gone_first else started
            profiler = run("-p", process.pid, "-F", 999, stdout=writer)
            os.close(writer)
            os.close(reader)
            result = profiler.finish(20)
            expect_equal(result.status, 0, "status")
            expect_equal(result.err, "", "stderr")
    expect_nothing_left(before)


@test()
def a_reader_of_standard_output_is_of_no_interest_with_a_file():
    process, path = workload(build("spin.c")), fresh("no-reader")
    reader, writer = os.pipe()
    profiler = started("-p", process.pid, "-F", 999, "-o", path, stdout=writer)
    os.close(writer)
    os.close(reader)
    time.sleep(0.5)
    profiler.stop().ok()
    expect(parse_folded(read(path)), "the profile is empty")


# ---- dumps --------------------------------------------------------------------------------------

def expect_said(profiler, pattern):
    wait_for(lambda: re.search(pattern, profiler.messages()) or profiler.process.poll() is not None,
             f"a message /{pattern}/")
    expect(re.search(pattern, profiler.messages()), f"not said: {pattern}\n{profiler.messages()}")


@test()
def a_dump_without_a_sample_leaves_the_file_alone():
    process, path = spawn(["sleep", "60"]), fresh("no-sample", "old 1\n")
    for to_file in (True, False):
        profiler = started("-p", process.pid, *(["-o", path] if to_file else []))
        profiler.process.send_signal(signal.SIGUSR1)
        expect_said(profiler, "SIGUSR1: no sample")
        expect_equal(read(path), "old 1\n", "the file after the dump")
        result = profiler.stop().ok(3)
        expect_equal(result.out, "", "standard output")
    expect_equal(read(path), "old 1\n", "the file at the end")
    expect_only(path)


def full_disk():
    """A small file system that is full but for what we free, and a path on it."""
    folder = scratch("full-disk")
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    with open(f"{folder}/ballast", "wb") as file:
        file.write(bytes(8 << 20))
    return folder, f"{folder}/out"


@test()
def a_dump_to_a_full_disk_is_said_and_the_run_goes_on():
    process = busy_stacks()
    for freed in (False, True):
        folder, path = full_disk()
        try:
            with open(path, "w", encoding="utf-8"):
                pass
            profiler = started("-p", process.pid, "-F", 999, "-o", path, "--stats")
            for n in (1, 2):
                time.sleep(0.7)
                profiler.process.send_signal(signal.SIGUSR1)
                expect_said(profiler, r"(?s)(No space left.*){%d}" % n)
                expect_equal(profiler.output(), "", "standard output after the dump")
            if freed:
                os.remove(f"{folder}/ballast")
            result = profiler.stop().ok(0 if freed else 1)
            expect(re.search(r"out: No space left on device \(", result.err), f"no remedy\n{result}")
            out = read(path) if freed else result.out
            expect_equal(total(parse_folded(out)), result.stats()["received"], "samples written")
            expect_equal(result.out == "", freed, f"standard output is empty\n{result}")
            expect(set(os.listdir(folder)) <= {"ballast", "out"}, f"left: {os.listdir(folder)}")
        finally:
            subprocess.run(["umount", folder], check=True)


# ---- what fails in the middle -------------------------------------------------------------------

@test()
def an_error_while_sampling_loses_nothing_that_was_collected():
    process, path = workload(build("spin.c")), fresh("error")
    flag = scratch("fault")
    profiler = started("-p", process.pid, "-F", 999, "-o", path, "--stats",
                        env=with_fault("epoll_wait", flag))
    time.sleep(1.5)
    open(flag, "w", encoding="utf-8").close()
    result = profiler.finish(20).ok(1)
    expect(re.search(r"sampling ended early: .* \(", result.err), f"it is not said\n{result}")
    stats = check_accounting(result)
    expect(stats["received"] > 20, f"too few samples\n{result}")
    expect_equal(total(parse_folded(read(path))), stats["received"], "samples written")


@test()
def running_out_of_memory_ends_the_run_and_the_profile_is_written():
    process, path = busy_stacks(), fresh("memory")
    flag = scratch("fault")
    profiler = started("-p", process.pid, "-F", 999, "-o", path, "--stats",
                        env=with_fault("memory", flag))
    time.sleep(1.5)

    def ended():
        open(flag, "w", encoding="utf-8").close()
        return profiler.process.poll() is not None or "out of memory" in profiler.messages()
    wait_for(ended, "the end")
    if os.path.exists(flag):
        os.remove(flag)
    result = profiler.finish(20).ok(1)
    expect(re.search("out of memory: sampling ended early", result.err), f"it is not said\n{result}")
    stats = check_accounting(result)
    expect(stats["received"] > 20, f"too few samples\n{result}")
    expect_equal(total(parse_folded(read(path))), stats["received"], "samples written")


@test()
def cpus_that_cannot_be_followed_do_not_end_the_run():
    process, online = workload(build("spin.c")), "/sys/devices/system/cpu/online"
    bad = scratch("online")
    with open(bad, "w", encoding="utf-8") as file:
        file.write("nonsense\n")
    profiler = started("-p", process.pid, "-F", 999, "--stats",
                        prefix=["unshare", "-m"])

    def there(*argv):
        subprocess.run(["nsenter", "-t", str(profiler.pid), "-m", "-r", *argv], check=True)
    there("mount", "--bind", bad, online)
    time.sleep(3)
    there("umount", online)
    time.sleep(1.5)
    result = profiler.stop().ok()
    expect_equal(len(re.findall("CPUs that come and go: ", result.err)), 1, "warnings")
    check_accounting(result)
    seconds = re.search(r"rprof-bpf: ([0-9.]+) s, one sample", result.err)
    expect(float(seconds[1]) > 4.5, f"it did not sample until the end\n{result}")


@test()
def no_memory_for_the_command_line_is_an_error_in_words():
    result = record("-p", os.getpid(), env=with_fault("reallocarray")).ok(1)
    expect(re.search(r"command line: out of memory \(", result.err), f"{result}")


@test()
def events_that_are_forbidden_are_explained():
    process = workload(build("spin.c"))
    result = record("-p", process.pid, "-d", 1, env=with_fault("perf_event_open")).ok(1)
    expect(re.search(r"perf_event_open: CPU \d+: .*perf_event_paranoid.*seccomp.*\(run as root",
                     result.err), f"{result}")
    expect_equal(result.out, "", "standard output")


@test()
def what_locks_the_kernel_down_is_said_with_quiet_too():
    process = workload(build("spin.c"))
    fake = ('mount -t tmpfs tmpfs /sys/kernel/security && '
            'echo "none integrity [confidentiality]" > /sys/kernel/security/lockdown && exec "$@"')
    for options in ([], ["-q"]):
        result = record("-p", process.pid, "-d", 1, *options, env=with_fault("prog_load"),
                        prefix=["unshare", "-m", "sh", "-c", fake, "sh"]).ok(1)
        expect_equal(len(re.findall("lockdown: .*confidentiality", result.err)), 1,
                     f"times that lockdown is named with {options}\n{result}")


if __name__ == "__main__":
    sys.exit(main())
