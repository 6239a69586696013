#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Processes in a container: its own root of another release, mount, pid and user namespace.

Names come from the container's files; what a container plants where debug files and perf-maps are
looked for leads to no file of the host.
"""
import ctypes
import os
import platform
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import below_main, build_as, count, expect_tails, has_name, run, symbols
from rprof_e2e import (ROOT, Skip, check_accounting, expect, expect_equal, is_mark, main, note,
                       record, scratch, spawn, test, total)

OUTER_ROOT = 100000     # workloads/contain.c: who root of the container is outside
LIBC = f"usr/lib/{platform.machine()}-linux-gnu/libc.so.6"


class Watch:
    """inotify: has anyone opened or read these files? By inode, so by whatever path."""

    OPEN_OR_ACCESS = 0x20 | 0x1

    def __init__(self, *paths):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.paths = {}
        for path in paths:
            watch = self.libc.inotify_add_watch(self.fd, os.fsencode(path), self.OPEN_OR_ACCESS)
            expect(watch >= 0, f"inotify: {path}")
            self.paths[watch] = path

    def seen(self):
        try:
            events = os.read(self.fd, 65536)
        except BlockingIOError:
            return set()
        found = set()
        while events:
            watch, _, _, length = struct.unpack_from("iIII", events)
            found.add(self.paths[watch])
            events = events[16 + length:]
        return found


class Container:
    """A root, and one process in it."""

    def __init__(self, name, tree=None):
        self.path = scratch(name)
        if tree:
            run("cp", "-a", tree, self.path)
        for folder in ("proc", "tmp", "opt"):
            os.makedirs(os.path.join(self.path, folder), exist_ok=True)
        self.pid = 0
        self.ready = []

    def put(self, file, where):
        path = os.path.join(self.path, where.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return shutil.copy(file, path)

    def link(self, target, where):
        path = os.path.join(self.path, where.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def fifo(self, where):
        path = os.path.join(self.path, where.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkfifo(path)
        return path

    def start(self, *argv):
        contain = scratch("contain")
        if not os.path.exists(contain):
            build_as("contain", "contain.c")
        process = spawn([contain, self.path, *argv], stdout=subprocess.PIPE, text=True)
        # Of two processes: in any order.
        lines = [process.stdout.readline().split() for _ in range(2)]
        said = {line[0]: line for line in lines if line}
        expect(set(said) == {"contains", "ready"}, f"{argv} in {self.path}: {lines}")
        self.pid, self.ready = int(said["contains"][1]), said["ready"]
        return self


def other_release():
    """Debian 13's C library, unpacked: scripts/debian-tree.sh."""
    done = subprocess.run([os.path.join(ROOT, "scripts", "debian-tree.sh"), "trixie", "libc6",
                           "libgcc-s1"], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        raise Skip(done.stderr.strip().split("\n")[-1])
    expect(done.returncode == 0, f"debian-tree.sh: {done.stderr}")
    return done.stdout.strip()


def profile(*pids, seconds=1, **kwargs):
    result = record("-p", ",".join(map(str, pids)), "-F", 1999, "-d", seconds, "-U", "--stats",
                    timeout=30, **kwargs).ok()
    check_accounting(result)
    return result


# ---- its own files ------------------------------------------------------------------------------

@test(120)
def names_are_those_of_the_containers_own_libraries():
    box = Container("other", other_release())
    own, hosts = (symbols(path, "-D").get("memfrob")
                  for path in (os.path.join(box.path, LIBC), f"/{LIBC}"))
    expect(own and hosts and own != hosts, f"premise: memfrob at {own}, of the host at {hosts}")
    # One path, two files with the same layout: the host's is not the container's.
    library = scratch("libthing.so")
    for name in ("container_work", "host_work"):
        build_as("libthing.so", "swaplib.c", f"-DNAME={name}", "-shared", "-fPIC")
        if name == "container_work":
            box.put(library, library)
    box.put(build_as("guest", "guest.c"), "/opt/guest")
    box.start("/opt/guest", library)
    expect(os.readlink(f"/proc/{box.pid}/ns/user") != os.readlink("/proc/self/ns/user"),
           "premise: another user namespace")
    for args in (["-p", box.pid], ["-a"]):
        result = record(*args, "-F", 1999, "-d", 1, "-U", "--stats").ok()
        check_accounting(result)
        stacks = [s for s in result.stacks() if re.fullmatch(r"guest(-\d+)?", s.comm)]
        own, hosts, libc = (count(stacks, f) for f in ("container_work", "host_work", "memfrob"))
        note(f"{args[0]}: of {total(stacks)} samples {own} in its library, {libc} in its libc")
        expect_equal(hosts, 0, f"samples with the host's name\n{result}\n")
        expect(own > 0.1 * total(stacks) and libc > 0.1 * total(stacks), f"{result}")
        expect(own + libc > 0.9 * total(stacks), f"{result}")


# ---- what it plants -----------------------------------------------------------------------------

def bare_spin(name):
    """(stripped program, path of its debug file, path where that is looked for)"""
    identity = name.encode().hex().ljust(40, "0")
    program = build_as(f"{name}_whole", "spin.c", "-static", f"-Wl,--build-id=0x{identity}")
    run("objcopy", "--only-keep-debug", program, scratch(f"{name}.debug"))
    run("strip", "-s", "-o", scratch(name), program)
    return (scratch(name), scratch(f"{name}.debug"),
            f"/usr/lib/debug/.build-id/{identity[:2]}/{identity[2:]}.debug")


def named(stacks):
    return {f for s in stacks for f in below_main(s.frames) if has_name(f) and not is_mark(f)}


@test()
def a_debug_file_that_leads_out_of_the_container_is_not_read():
    pids, watched, fifos = [], [], []
    for name in ("dbg_own", "dbg_link", "dbg_tree", "dbg_fifo", "dbg_device"):
        program, debug, where = bare_spin(name)
        box = Container(f"{name}_root")
        box.put(program, f"/opt/{name}")
        if name == "dbg_own":
            box.put(debug, where)
        elif name == "dbg_link":
            watched.append(debug)
            box.link(debug, where)
        elif name == "dbg_tree":
            outside = Container("outside_debug")
            watched.append(outside.put(debug, where))
            box.link(os.path.join(outside.path, "usr/lib/debug"), "/usr/lib/debug")
        elif name == "dbg_fifo":
            fifos.append(box.fifo(where))
        else:
            box.link("/dev/zero", where)
            os.makedirs(os.path.join(box.path, "dev"))
            os.mknod(os.path.join(box.path, "dev/zero"), 0o20666, os.makedev(1, 5))
        pids.append(box.start(f"/opt/{name}").pid)
    watch = Watch(*watched, *fifos)
    result = profile(*pids, seconds=2)
    expect_equal(watch.seen(), set(), f"opened or read\n{result}\n")
    expect_tails(result, {"dbg_own": ["main", "spin"]})
    for name in ("dbg_link", "dbg_tree", "dbg_fifo", "dbg_device"):
        stacks = [s for s in result.stacks() if s.comm == name]
        expect(total(stacks) > 20, f"premise: {name}\n{result}")
        expect_equal(named(stacks), set(), f"names of {name}\n{result}\n")


def perf_map(path, address, name):
    """@address: text in hexadecimal."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{address} 1000 {name}\n")
    os.chown(path, OUTER_ROOT, OUTER_ROOT)


@test()
def a_perf_map_that_leads_out_of_the_container_is_not_read():
    program = build_as("anoncode_whole", "anoncode.c", "-static")
    kinds = ("map_own", "map_link", "map_fifo", "map_theirs")
    boxes, watched = {}, []
    for kind in kinds:
        boxes[kind] = box = Container(f"{kind}_root")
        box.put(program, f"/opt/{kind}")
        box.start(f"/opt/{kind}")
        address = box.ready[2]
        # Process 1 there. Its number outside names a file that it could not mean.
        inside = os.path.join(box.path, "tmp/perf-1.map")
        if kind == "map_own":
            perf_map(inside, address, "own_name")
        elif kind == "map_link":
            outside = scratch("outside.map")
            perf_map(outside, address, "host_secret")
            os.symlink(outside, inside)
            watched.append(outside)
        elif kind == "map_fifo":
            watched.append(box.fifo("/tmp/perf-1.map"))
        else:
            perf_map(inside, address, "forged_name")
            os.chown(inside, OUTER_ROOT + 1, OUTER_ROOT)
    watch = Watch(*watched)
    result = profile(*(b.pid for b in boxes.values()), seconds=2)
    expect_equal(watch.seen(), set(), f"opened or read\n{result}\n")
    expect_tails(result, {"map_own": ["own_name"]})
    for kind in kinds[1:]:
        stacks = [s for s in result.stacks() if s.comm == kind]
        foreign = count(stacks, "host_secret") + count(stacks, "forged_name")
        expect(total(stacks) > 20 and not foreign, f"{kind}: {foreign} names\n{result}")
    warnings = [line for line in result.err.split("\n") if "perf-1.map" in line]
    note("\n".join(warnings))
    about = {kind: sum(str(boxes[kind].pid) in w for w in warnings) for kind in kinds}
    # A link that leads nowhere in its root is no file; the other two are there and not read.
    expect(about["map_own"] == 0 and about["map_link"] <= 1, f"{about}\n{result}")
    expect(about["map_fifo"] == 1 and about["map_theirs"] == 1,
           f"one warning each is wanted: {about}\n{result}")


if __name__ == "__main__":
    sys.exit(main())
