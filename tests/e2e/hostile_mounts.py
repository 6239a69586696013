#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""File systems that do not answer, where the list of mounts does not name them: nothing hangs."""

import ctypes
import os
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workloads"))

# pylint: disable=wrong-import-position
import hangfs
from programs import build_as
from rprof_e2e import (BINARY, FRAMES, WORKLOADS, Profiler, Skip, build, expect, expect_equal, main,
                       note, record, scratch, spawn, test, wait_for)

MNT_DETACH = 2
LIMIT_S = 20  # for a run of 1 s, on a busy machine
libc = ctypes.CDLL(None, use_errno=True)


def mount(name, program):
    try:
        return hangfs.Mount(scratch(name), "spin", program)
    except OSError as error:
        raise Skip(f"no FUSE mount here: {error}") from error


def started(argv):
    process = spawn(argv, stdout=subprocess.PIPE, text=True)
    expect(process.stdout.readline().startswith("ready"), f"premise: {argv} did not start")
    return process


def ends(*args):
    """A run that ends by itself, and what it said."""
    before = time.monotonic()
    result = record(*args, timeout=LIMIT_S)
    note(f"{' '.join(map(str, args))}: {time.monotonic() - before:.1f} s")
    return result


def sample(pid):
    return ends("-p", pid, "-F", 499, "-d", 1, "-U", "--stats").ok()


@test()
def a_file_system_that_was_unmounted_lazily_does_not_hold_us():
    fs = mount("lazy", build("spin.c"))
    try:
        process = started([fs.path])
        expect(libc.umount2(fs.folder.encode(), MNT_DETACH) == 0, "premise: umount")
        fs.hang()
        result = sample(process.pid)
        expect("spin+0x" in result.out, f"{result}")
        ends("check", "-p", process.pid)
    finally:
        fs.close()


@test()
def a_root_that_does_not_answer_does_not_hold_us():
    """The program itself is in memory, its root directory is not."""
    static = build_as("static_spin", "spin.c", "-static")
    code = textwrap.dedent("""
        import os, sys
        fd = os.memfd_create("spin", 0)
        with open(sys.argv[1], "rb") as program:
            os.write(fd, program.read())
        os.chroot(sys.argv[2])
        os.chdir("/")
        os.execve(fd, ["spin"], {})
    """)
    fs = mount("root", static)
    try:
        process = started([sys.executable, "-c", code, static, fs.folder])
        fs.hang()
        sample(process.pid)
        ends("check", "-p", process.pid)
    finally:
        fs.close()


@test()
def what_others_stack_on_it_does_not_hold_us():
    """Overlay in a user namespace of its own: the list of mounts says overlay, and no more."""
    code = textwrap.dedent("""
        import ctypes, os, signal, subprocess, sys, time
        sys.path.insert(0, sys.argv[1])
        import hangfs
        libc = ctypes.CDLL(None, use_errno=True)
        base, spin = sys.argv[2:]
        assert libc.mount(b"t", base.encode(), b"tmpfs", 0, b"") == 0
        fs = hangfs.Mount(base + "/h", "spin", spin)
        os.makedirs(base + "/up")
        os.makedirs(base + "/mt")
        options = f"lowerdir={base}/h:{base}/up,userxattr".encode()
        if libc.mount(b"ov", (base + "/mt").encode(), b"overlay", 0, options):
            print("skip", os.strerror(ctypes.get_errno()), flush=True)
            sys.exit()
        target = subprocess.Popen([base + "/mt/spin"], stdout=subprocess.PIPE, text=True)
        target.stdout.readline()
        os.kill(fs.daemon.pid, signal.SIGSTOP)
        print("target", flush=True)
        time.sleep(120)
    """)
    base = scratch("stacked")
    os.makedirs(base)
    process = spawn(["unshare", "-Urmpf", "--mount-proc", "--kill-child", sys.executable, "-c", code, WORKLOADS, base,
                     build("spin.c")], stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    if not line.startswith("target"):
        raise Skip(f"no overlay over FUSE here: {line.strip()}")
    profiler = Profiler("-a", "-F", 499, "-d", 1, "-q")
    result = profiler.finish(LIMIT_S)
    expect("spin+0x" in result.out, f"the program was not sampled\n{result}")


def expect_no_wait_for_memory(name, stop):
    """What stands where a Python's runtime would is a page that nobody can read."""
    blob = scratch(f"{name}_blob")
    with open(blob, "wb") as file:
        file.write(bytes(1 << 20))
    fs = mount(name, blob)
    try:
        # -rdynamic: it exports what an interpreter does.
        process = started([build("turnstile.c", ("-rdynamic", *FRAMES)), fs.path])
        stop(fs)
        result = sample(process.pid)
        expect("turnstile" in result.out, f"{result}")
        expect_equal(result.err.count(f"process {process.pid}: its memory does not answer"), 1, "warnings")
        result = ends("check", "-p", process.pid)
        expect("its _PyRuntime cannot be read" in " ".join(result.out.split()), f"{result}")
        expect("its memory does not answer in time" in result.err, f"{result}")
        profiler = Profiler("-a", "-F", 499, "-d", 1, "-q")
        expect("turnstile" in profiler.finish(LIMIT_S).out, "-a")
        note(f"{len(readers_left())} readers are left until the file system goes")
    finally:
        fs.close()
    wait_for(lambda: not readers_left(), "the readers that were left")


def readers_left():
    """Processes of our program whose parent has ended."""
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                parent, = file.read().rpartition(")")[2].split()[1:2]
            if os.readlink(f"/proc/{pid}/exe") == os.path.realpath(BINARY) and parent == "1":
                left.append(pid)
        except OSError:
            pass
    return left


@test()
def memory_that_does_not_answer_does_not_hold_us():
    expect_no_wait_for_memory("memory", hangfs.Mount.hang)


@test()
def memory_that_cannot_be_given_up_does_not_hold_us():
    """The daemon has taken the request: a thread that waits for it ends by no signal."""
    expect_no_wait_for_memory("memory_taken", hangfs.Mount.swallow)


if __name__ == "__main__":
    sys.exit(main())
