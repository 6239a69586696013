#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names of code that a process makes itself (issue 3, section 2): perf-map and jitdump files, in
whatever mount and pid namespace; and which of them are not read."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (PATIENCE, Profiler, Skip, build, check_accounting, expect, expect_equal,
                       main, note, record, scratch, spawn, test, total)
import hangfs

NOBODY = 65534
_maps = []      # files that we made outside of our own folder


class Jit:
    """A running workload: its number for us, and where its code is."""

    def __init__(self, *args, argv=None, **kwargs):
        self.process = spawn(argv or [build("jit.c"), *args], stdout=-1, text=True, **kwargs)
        line = self.process.stdout.readline().split()
        expect(line[:1] == ["ready"], f"the workload did not say that it is ready: {line}")
        self.own_pid = int(line[1])
        self.line = f"{line[2]} {line[3]} "
        self.pid = self.process.pid
        # Behind unshare --fork: the child.
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as children:
            self.pid = int((children.read().split() or [self.pid])[0])

    def map_path(self):
        # By procfs it could not be removed when the process has ended.
        root = f"/proc/{self.pid}/root" if self.pid != self.own_pid else ""
        return f"{root}/tmp/perf-{self.own_pid}.map"

    def write_map(self, name, path=None):
        path = path or self.map_path()
        with open(path, "w", encoding="latin-1") as file:
            file.write(f"{self.line}{name}\n")
        _maps.append(path)


def remove_maps():
    while _maps:
        try:
            os.unlink(_maps.pop())
        except OSError:
            pass


def profile(jit, *args):
    result = record("-p", jit.pid, "-d", 1, "-F", 499, "--stats", *args).ok()
    check_accounting(result)
    return result


def share_of(result, name):
    stacks = result.stacks()
    return sum(s.count for s in stacks if name in s.frames) / total(stacks)


def expect_named(result, name):
    share = share_of(result, name)
    note(f"{name!r}: {share:.1%}")
    expect(share > 0.9, f"{share:.1%} of the samples have {name!r}\n{result}")


def warnings(result, text):
    return [line for line in result.err.split("\n") if text in line]


def in_namespaces(script):
    """unshare's command line for a shell script that has the program as descriptor 3."""
    return ["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-ec",
            f"exec 3<'{build('jit.c')}'; {script}"]


# ---- perf-map -----------------------------------------------------------------------------------

@test()
def code_has_the_name_of_the_perf_map():
    jit = Jit()
    jit.write_map("LazyCompile:*loop /x/y.js:1")
    expect_named(profile(jit), "LazyCompile:*loop /x/y.js:1")


@test()
def a_hostile_name_stays_one_frame():
    jit = Jit()
    jit.write_map("a;b\x1b[31m\\c")
    expect_named(profile(jit), "a;b\x1b[31m\\c")


@test()
def a_perf_map_that_comes_late_names_what_is_met_later():
    jit = Jit()
    profiler = Profiler("-p", jit.pid, "-d", 4, "-F", 499, "--stats").wait_sampling()
    time.sleep(0.5)
    jit.write_map("late")
    time.sleep(1)       # so often it is looked for
    jit.process.send_signal(signal.SIGUSR1)
    result = profiler.finish().ok()
    check_accounting(result)
    share = share_of(result, "late")
    note(f"{share:.1%} of the samples have the name")
    expect(share > 0.15, f"{share:.1%} have it\n{result}")


@test()
def a_process_in_other_namespaces_has_its_own_perf_map():
    jit = Jit(argv=in_namespaces("mount -t tmpfs tmpfs /tmp; cp /proc/self/fd/3 /tmp/jit;"
                                 " exec 3<&-; exec /tmp/jit"))
    expect_equal(jit.own_pid, 1, "its number in its own namespace")
    expect(jit.pid != jit.process.pid, "unshare did not fork")
    # What its number here would lead to is not its own.
    jit.write_map("of somebody else", f"/tmp/perf-{jit.pid}.map")
    jit.write_map("from inside")
    result = profile(jit)
    expect_named(result, "from inside")
    expect_equal(share_of(result, "of somebody else"), 0, "share with a wrong name")


@test()
def a_perf_map_of_another_user_is_not_read():
    jit = Jit(user=NOBODY, group=NOBODY)
    jit.write_map("planted")
    os.chown(jit.map_path(), NOBODY - 1, NOBODY - 1)
    refused(jit, "not owned by its user")
    os.chown(jit.map_path(), NOBODY, NOBODY)
    expect_named(profile(jit), "planted")


def refused(jit, why):
    """Nothing of the map is printed, and one warning says why."""
    before = time.monotonic()
    result = profile(jit)
    took = time.monotonic() - before
    expect_equal(share_of(result, "planted"), 0, "share with the planted name")
    said = warnings(result, f"perf-{jit.own_pid}.map")
    expect(len(said) == 1 and why in said[0], f"not one warning that says {why!r}\n{result}")
    note(said[0])
    expect(took < 20 * PATIENCE, f"took {took:.1f} s for 1")


@test()
def a_link_or_a_fifo_is_not_read():
    jit = Jit()
    target = scratch("target.map")
    jit.write_map("planted", target)
    path = jit.map_path()
    _maps.append(path)
    os.symlink(target, path)
    refused(jit, "a link")
    os.unlink(path)
    os.mkfifo(path)
    refused(jit, "not a regular file")
    os.unlink(path)
    os.link(target, path)
    refused(jit, "another name")


@test()
def a_perf_map_of_an_earlier_process_is_not_read():
    """As one that had the number before has left it: made before the process started."""
    folder = scratch("earlier")
    os.makedirs(folder)
    path = os.path.join(folder, "perf-1.map")
    with open(path, "w", encoding="ascii") as file:
        file.write("0 7fffffffffff planted\n")
    time.sleep(1)
    refused(Jit(argv=in_namespaces(f"mount --bind '{folder}' /tmp; exec /proc/self/fd/3")),
            "older than the process")


@test()
def a_tmp_that_does_not_answer_does_not_hold_us():
    """The daemon of the FUSE file system at the process's /tmp is stopped."""
    try:
        fs = hangfs.Mount(scratch("hang"), "perf-1.map", build("jit.c"))
    except OSError as error:
        raise Skip(f"no FUSE mount here: {error}") from error
    try:
        jit = Jit(argv=in_namespaces(f"mount --bind '{scratch('hang')}' /tmp;"
                                     " exec /proc/self/fd/3"))
        fs.hang()
        refused(jit, "may not answer")
    finally:
        fs.close()


# ---- jitdump ------------------------------------------------------------------------------------

@test()
def code_has_the_name_of_the_jitdump_at_its_time():
    path = scratch("jit-1234.dump")
    jit = Jit(path)
    profiler = Profiler("-p", jit.pid, "-d", 4, "-F", 499, "--stats").wait_sampling()
    time.sleep(1.5)
    jit.process.send_signal(signal.SIGUSR1)
    result = profiler.finish().ok()
    check_accounting(result)
    first, second = share_of(result, "jit_first"), share_of(result, "jit_second")
    note(f"jit_first {first:.1%}, jit_second {second:.1%}")
    expect(first + second > 0.9, f"too few have a name\n{result}")
    expect(first > 0.15 and second > 0.15, f"one of them is missing\n{result}")
    expect(not any("jit_first" in s.frames and "jit_second" in s.frames for s in result.stacks()),
           f"both at once\n{result}")


@test()
def a_jitdump_that_is_none_is_said_and_does_no_harm():
    path = scratch("jit-77.dump")
    jit = Jit(path)
    with open(path, "r+b") as file:
        file.write(b"no such file" * 100)
    result = profile(jit)
    expect_equal(share_of(result, "jit_first"), 0, "share with a name")
    expect_equal(len(warnings(result, "not a jitdump file")), 1, f"warnings\n{result}")


if __name__ == "__main__":
    try:
        status = main()
    finally:
        remove_maps()
    sys.exit(status)
