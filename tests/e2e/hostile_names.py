#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Targets whose files, paths and symbols are made to hurt: no crash, no hang, no false name, and
nothing in the output that a terminal or a script would misread."""
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from programs import build_as, count, expect_tails, run, tail_share
from rprof_e2e import (Profiler, check_accounting, end, expect, expect_equal, main, note, record,
                       scratch, test, total, wait_for, workload)


def profile(processes, *args, seconds=1):
    pids = ",".join(str(p.pid) for p in processes)
    result = record("-p", pids, "-F", 1999, "-d", seconds, "-U", "--stats", *args,
                    timeout=60).ok()
    check_accounting(result)
    expect(not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", result.err), f"raw bytes on stderr\n{result}")
    return result


# ---- paths --------------------------------------------------------------------------------------

ODD_PATHS = ["line\nbreak", "semi;colon", "real (deleted)", "back\\012slash", "\x1b[31mred",
             "space at end ", "\udcff\udcfe bytes"]


@test()
def odd_paths_have_the_names_of_their_own_files():
    spin, folder = build_as("spin", "spin.c"), scratch("odd")
    other = build_as("other", "swap.c")
    os.makedirs(folder, exist_ok=True)
    processes = []
    for name in ODD_PATHS:
        path = os.path.join(folder, name)
        shutil.copy(spin, path)
        processes.append(workload(path))
    # What a reader of the text might take for them.
    for trap in ("line", "break", "semi", "real", "back\nslash", "space at end"):
        shutil.copy(other, os.path.join(folder, trap))
    result = profile(processes, seconds=2)
    share = tail_share(result.stacks(), "main", "spin")
    note(f"{share:.1%} of {total(result.stacks())} samples of {len(ODD_PATHS)} odd paths are named")
    expect(share > 0.95, f"{result}")


@test()
def deleted_files_with_odd_paths_keep_their_names():
    spin, other = build_as("spin", "spin.c"), build_as("other", "swap.c")
    folder = scratch("odd_deleted")
    os.makedirs(folder, exist_ok=True)
    processes = []
    for name in ODD_PATHS:
        path = os.path.join(folder, name)
        shutil.copy(spin, path)
        processes.append(workload(path))
        os.remove(path)
        # The text of /proc/PID/maps now ends in " (deleted)": here is a file of that very name.
        shutil.copy(other, path + " (deleted)")
    share = tail_share(profile(processes, seconds=2).stacks(), "main", "spin")
    note(f"{share:.1%} are named")
    expect(share > 0.95, "deleted files have lost their names")


# ---- files --------------------------------------------------------------------------------------

def library(name, function):
    return build_as(name, "swaplib.c", f"-DNAME={function}", "-shared", "-fPIC")


@test()
def files_that_became_pipes_or_devices_are_not_opened():
    program = build_as("hold", "hold.c")
    processes, paths = [], []
    for i, kind in enumerate(("fifo", "device", "folder", "loop")):
        path = library(f"lib_{kind}.so", f"work_{kind}")
        named = shutil.copy(program, scratch(f"hold_{kind}"))
        processes.append(workload(named, path, "/dev/zero"))
        os.remove(path)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            # A terminal that nobody is at: opened for reading it would wait.
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(4, 63))
        elif kind == "folder":
            os.mkdir(path)
        else:
            os.symlink(path, path)
        paths.append(path)
    result = profile(processes, seconds=2)
    expect_tails(result, {f"hold_{kind}": ["work", f"work_{kind}"]
                          for kind in ("fifo", "device", "folder", "loop")})


@test(180)
def a_file_that_shrinks_while_it_is_read_gives_right_names_or_none():
    padding = scratch("padding.s")
    with open(padding, "w", encoding="utf-8") as file:
        file.write("\t.text\n")
        file.writelines(f"padding_function_{i}:\n\tret\n\t.type padding_function_{i}, @function\n"
                        f"\t.size padding_function_{i}, 1\n" for i in range(30000))
    path = build_as("libmany.so", "swaplib.c", padding, "-DNAME=inner", "-shared", "-fPIC", "-g0")
    program = build_as("hold", "hold.c")
    with open(path, "rb") as file:
        whole = file.read()
    # What is mapped stays; symbols and section headers, which are not, come and go.
    loads = re.findall(r"LOAD\s+(0x\w+) 0x\w+ 0x\w+ (0x\w+)", run("readelf", "-lW", path))
    keep = max(int(offset, 16) + int(size, 16) for offset, size in loads)
    expect(len(whole) > keep + 500000, f"premise: {len(whole)} bytes, {keep} mapped")
    done = threading.Event()

    def shrink():
        with open(path, "r+b", buffering=0) as file:
            while not done.is_set():
                file.truncate(keep)
                file.seek(keep)
                for at in range(keep, len(whole), 1 << 16):
                    file.write(whole[at:at + (1 << 16)])
                    time.sleep(0.001)
                time.sleep(0.05)

    thread = threading.Thread(target=shrink)
    thread.start()
    named = samples = 0
    try:
        for _ in range(4):
            process = workload(program, path)
            result = profile([process], seconds=0.3)
            stacks = result.stacks()
            inside = [s for s in stacks if s.frames[-1:] != ["main"] and len(s.frames) > 1]
            wrong = {s.frames[-1] for s in inside} - {"inner", "work"}
            wrong = {f for f in wrong if not re.match(r"libmany\.so\+0x|ld-linux|libc\.so", f)}
            expect(not wrong, f"{wrong}\n{result}")
            named += count(stacks, "inner")
            samples += total(stacks)
            end(process)
    finally:
        done.set()
        thread.join()
    note(f"{named} of {samples} samples named while the file shrank and grew")
    # It is whole again, and so are the names.
    shutil.copy(program, scratch("hold_whole"))
    expect_tails(profile([workload(scratch("hold_whole"), path)]), {"hold_whole": ["work", "inner"]})


# ---- symbols ------------------------------------------------------------------------------------

def with_symbol(name, raw):
    """spin.c whose function has this name of bytes, of the length of the placeholder's."""
    holder = b"spin" + b"x" * (len(raw) - 4)
    program = build_as(name, "spin.c", f"-Dspin={holder.decode()}")
    with open(program, "r+b") as file:
        text = file.read()
        expect(text.count(holder + b"\0") >= 1, "premise: the symbol is there")
        file.seek(0)
        file.write(text.replace(holder + b"\0", raw + b"\0"))
    return program


@test()
def names_of_control_bytes_and_invalid_utf8_are_escaped():
    names = {"sym_escape": b"spin\x1b[2J\x1b]0;title\x07\x9b31m",
             "sym_lines": b"spin\nroot;fake_frame 999999\n;\r\t \\x41",
             "sym_utf8": b"spin\xff\xfe\xc0\xaf\xed\xa0\x80\xf5caf\xc3\xa9",
             "sym_bidi": "spin\u202e\u2066name\u200b".encode()}
    processes = [workload(with_symbol(name, raw)) for name, raw in names.items()]
    for args in ([], ["--no-demangle"]):
        result = profile(processes, *args)
        # parse_folded() in there refuses raw control bytes, bare backslashes, broken lines.
        stacks = result.stacks()
        expect_equal({s.comm for s in stacks}, set(names), f"first fields\n{result}\n")
        try:
            result.out.encode("utf-8")
        except UnicodeEncodeError as error:
            expect(False, f"not UTF-8: {error}\n{result}")
        for stack in stacks:
            raw = names[stack.comm].decode("utf-8", "replace")
            leaf = stack.frames[-1]
            expect(leaf == "main" or leaf.startswith("spin"), f"{leaf!r}\n{result}")
            if leaf != "main" and stack.comm in ("sym_escape", "sym_lines"):
                expect(leaf.replace("\ufffd", "?") == raw.replace("\ufffd", "?"),
                       f"{leaf!r} is not {raw!r}")
    note({s.comm: s.frames[-1] for s in stacks if s.frames[-1] != "main"})


@test()
def names_of_a_megabyte_are_bounded():
    source = scratch("long.c")
    long_name = "long_" + "n" * (1 << 20)
    mangled = "_Z" + str(1 << 20) + "n" * (1 << 20) + "v"
    with open(source, "w", encoding="utf-8") as file:
        for c_name, name in (("one", long_name), ("two", mangled)):
            file.write(f'void {c_name}(void) __asm__("{name}");\n')
        file.write('#include "workload.h"\n'
                   '__attribute__((noinline, noclone)) void one(void) { burn(200000); }\n'
                   '__attribute__((noinline, noclone)) void two(void) { burn(200001); }\n'
                   'int main(void) { ready(); for (;;) '
                   '{ one(); BARRIER(); two(); BARRIER(); } }\n')
    process = workload(build_as("longnames", source))
    result = profile([process])
    longest = max(len(f) for s in result.stacks() for f in s.frames)
    note(f"the longest name printed has {longest} characters, the output {len(result.out)}")
    leaves = {s.frames[-1][:12] for s in result.stacks()}
    expect(total(result.stacks()) > 100, f"premise\n{result}")
    # Cut, or without a name; nothing else is either.
    expect(all(re.match(r"long_n|_Zn?\d|n{12}|longnames\+0x|main|ld-linux|libc", f) for f in leaves),
           f"{leaves}")
    expect(len(result.out) < 8 << 20, f"{len(result.out)} bytes of output")


# ---- a target that changes its mappings all the time --------------------------------------------

def run_seconds(pid):
    """CPU time of a process with one thread, in seconds, to the nanosecond."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def share_of(spin, others, seconds):
    """(samples of @spin by its CPU time, share missed of all, result), @others followed besides."""
    pids = ",".join(str(p.pid) for p in [spin, *others])
    profiler = Profiler("-p", pids, "-F", 1999, "-U", "--stats").wait_sampling()
    before = run_seconds(spin.pid)
    time.sleep(seconds)
    used = run_seconds(spin.pid) - before
    result = profiler.stop().ok()
    stats = check_accounting(result)
    samples = sum(s.count for s in result.stacks() if s.comm == "spin")
    return samples / (used * 1999), stats["missed"] / max(stats["expected"], 1), result


@test(120)
def a_storm_of_mappings_does_not_stall_the_sampling_of_others():
    seconds = 4
    file = build_as("storm_lib.so", "swaplib.c", "-DNAME=storm", "-shared", "-fPIC")
    spin = workload(build_as("spin", "spin.c"))
    os.sched_setaffinity(spin.pid, {0})
    calm, calm_missed, _ = share_of(spin, [], seconds)
    storm = workload(build_as("mapstorm", "mapstorm.c"), file, 10000)
    os.sched_setaffinity(storm.pid, {max(os.sched_getaffinity(0))})
    started = time.monotonic()
    stormy, missed, result = share_of(spin, [storm], seconds)
    storm.send_signal(signal.SIGTERM)
    changes = int(storm.stdout.readline().split()[1])
    rate = changes / (time.monotonic() - started)
    named = count([s for s in result.stacks() if s.comm == "spin"], "main", "spin")
    note(f"{rate:.0f} changes a second; samples of what another process is owed: {stormy:.1%}, "
         f"without the storm {calm:.1%}; missed {missed:.2%} and {calm_missed:.2%}")
    expect(rate > 3000, f"premise: {rate:.0f} changes a second")
    expect(stormy > 0.9 * calm, f"{stormy:.1%} of its samples, {calm:.1%} without\n{result}")
    expect(missed < calm_missed + 0.05, f"missed {missed:.1%}, {calm_missed:.1%} without\n{result}")
    expect(named > 0.9 * sum(s.count for s in result.stacks() if s.comm == "spin"), f"{result}")
    wait_for(lambda: storm.poll() is not None, "the storm to end")


if __name__ == "__main__":
    sys.exit(main())
