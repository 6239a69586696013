#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A Python that is profiled is not touched (issue 4, acceptance 8), and what is printed of one that
does nothing but run Python has Python frames (acceptance 5)."""
import glob
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import (BINARY, FULL, ROOT, Profiler, Skip, check_accounting, expect, expect_equal,
                       main, note, scratch, test, total)
import pyremote
import pythons
import pytrace

PROBE_WRITE_USER = 36       # enum bpf_func_id; a call is opcode 0x85 with it as its immediate
BPF_CALL, PSEUDO = 0x85, 0xf0
SAMPLES = 100000 if FULL else 20000


# ---- it cannot -----------------------------------------------------------------------------------

def helpers(path):
    """Numbers of the helpers that a BPF object calls: of its 64-bit sections of instructions."""
    with open(path, "rb") as file:
        data = file.read()
    expect(data[:5] == b"\x7fELF\x02", f"{path} is no 64-bit ELF file")
    order = "<" if data[5] == 1 else ">"
    start, = struct.unpack_from(order + "Q", data, 0x28)
    size, count = struct.unpack_from(order + "HH", data, 0x3a)
    called = []
    for i in range(count):
        kind, flags, _, offset, length = struct.unpack_from(order + "IQQQQ", data,
                                                            start + i * size + 4)
        if kind != 1 or not flags & 4:      # SHT_PROGBITS, SHF_EXECINSTR
            continue
        for at in range(offset, offset + length, 8):
            code, registers, _, number = struct.unpack_from(order + "BBhi", data, at)
            source = registers & PSEUDO if order == "<" else registers << 4 & PSEUDO
            if code == BPF_CALL and not source:
                called.append(number)
    return called


@test()
def no_program_can_write_to_user_memory():
    objects = glob.glob(os.path.join(os.path.dirname(os.path.realpath(BINARY)), "*.bpf.o"))
    expect(objects, f"no objects beside {BINARY}")
    for path in objects:
        called = helpers(path)
        note(f"{os.path.basename(path)}: {len(called)} calls of {len(set(called))} helpers")
        expect(len(called) > 5, f"{path}: that is not all of it")
        expect(PROBE_WRITE_USER not in called, f"{path} calls bpf_probe_write_user")
    found = subprocess.run(["grep", "-rn", "bpf_probe_write_user", "bpf", "user"], cwd=ROOT,
                           capture_output=True, text=True, check=False)
    expect_equal(found.stdout, "", "mentions in the source")


@test()
def a_call_to_it_would_be_seen():
    """The test of the test."""
    source = scratch("writer.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("static long (*const write_user)(void *, const void *, unsigned) = (void *)36;\n"
                   "int f(void *to) { int x = 1; return write_user(to, &x, 4); }\n")
    out = scratch("writer.o")
    subprocess.run(["clang", "-O2", "-target", "bpf", "-c", source, "-o", out], check=True)
    expect_equal(helpers(out), [PROBE_WRITE_USER], "helpers")


# ---- it does not ---------------------------------------------------------------------------------

WRITING = re.compile(r"\b(process_vm_writev|ptrace|process_madvise|kcmp|pidfd_getfd|"
                     r"pidfd_send_signal)\(")
SIGNAL = re.compile(r"\bt?g?kill\((-?\d+), (?!0\))")
OPENING = re.compile(r"\bopen(?:at|at2)?\((.*)")


@pythons.each(timeout=120, only=lambda name: FULL or name in ("debian-3.11", "debian-3.15"))
def no_system_call_writes_to_it(interpreter):
    """It ends a process of its own, the one that reads for it; those are the ones traced."""
    if not shutil.which("strace"):
        raise Skip("there is no strace")
    trace = scratch(f"trace-{interpreter.name}")
    process = pythons.start(interpreter, "shapes.py")
    prefix = ("strace", "-f", "-y", "-qq", "-s", "200", "-o", trace, "-e",
              "trace=process_vm_readv,process_vm_writev,ptrace,open,openat,openat2,kill,tkill,"
              "tgkill,pidfd_send_signal,pidfd_getfd,process_madvise,kcmp,execve")
    result = Profiler("-p", process.pid, "-F", 999, "-d", "2s", "--stats", prefix=prefix).finish()
    expect_equal(result.status, 0, f"{result}")
    check_accounting(result)
    expect(any(pytrace.python_frames(s) for s in result.stacks()), f"no Python frames: {result}")
    with open(trace, encoding="utf-8", errors="replace") as file:
        calls = file.read().split("\n")
    expect(any(f"/proc/{process.pid}/maps" in c for c in calls), "the trace is not of the profiler")
    ours = {call.partition(" ")[0] for call in calls}
    expect(str(process.pid) not in ours, "the target is traced")
    for call in calls:
        sent = SIGNAL.search(call)
        expect(not WRITING.search(call) and (not sent or sent[1] in ours),
               f"the profiler did this: {call}")
        opened = OPENING.search(call)
        if opened and f"/proc/{process.pid}" in call:
            expect("O_WRONLY" not in call and "O_RDWR" not in call, f"opened to write: {call}")
        expect(not re.search(r'[/"]mem[">]', call), f"opened the memory: {call}")
    note(f"{interpreter}: {len(calls)} calls traced, "
         f"{sum('process_vm_readv(' in c for c in calls)} of process_vm_readv()")


PATTERNED = """
import hashlib, mmap, signal, sys
SIZE = 64 << 20
memory = mmap.mmap(-1, SIZE)
for at in range(0, SIZE, 4096):
    memory[at:at + 4096] = (at // 4096).to_bytes(8, "little") * 512
def digest(*_):
    print(hashlib.sha256(memory).hexdigest(), flush=True)
signal.signal(signal.SIGUSR1, digest)
def spin():
    x = 0
    for i in range(1000):
        x = (x * 3 + i) & 0xffff
print("ready", flush=True)
while True:
    spin()
"""


def pattern():
    whole = hashlib.sha256()
    for at in range(64 << 20 >> 12):
        whole.update(at.to_bytes(8, "little") * 512)
    return whole.hexdigest()


@pythons.each(timeout=1200, only=lambda name: FULL or name in ("debian-3.11", "debian-3.15"))
def its_memory_is_as_it_was(interpreter):
    last = interpreter.version >= (3, 15)
    process, tstate = (pyremote.start(interpreter, PATTERNED) if last else
                       (pythons.start(interpreter, PATTERNED), 0))
    stats = pytrace.sampled(process.pid, SAMPLES, frequency=10000, seconds=10 if FULL else 2,
                            runs=100)[1]
    expect(stats["matched"] >= SAMPLES, f"{stats['matched']} samples")
    if last:
        where = tstate + pyremote.LAST_PROFILED_FRAME
        expect_equal([pyremote.word(process.pid, at) for at in (where, where + 8)], [0, 0],
                     "last_profiled_frame and its number")
    process.send_signal(10)
    expect_equal(process.stdout.readline().strip(), pattern(), "64 MiB of patterned pages")


# ---- and it sees ---------------------------------------------------------------------------------

@pythons.each(timeout=1200)
def a_loop_in_python_has_python_frames(interpreter):
    """All losses are in the denominator, and all that is missing from what was expected is told."""
    process = pythons.start(interpreter, "shares.py")
    wanted = SAMPLES if interpreter.name == "debian-3.15" else SAMPLES // 4
    stacks, stats = pytrace.sampled(process.pid, wanted, frequency=10000, seconds=2, runs=100)
    python = sum(s.count for s in stacks if pytrace.python_frames(s))
    note(f"{interpreter}: {python} of {stats['matched']} matched ticks, {total(stacks)} received")
    expect(python >= 0.999 * stats["matched"], f"{python} of {stats['matched']}")


if __name__ == "__main__":
    sys.exit(main())
