# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The thread state of a running Python, read and written as other profilers do it: from outside."""
import ctypes
import os
import subprocess
import sys

import pythons
from rprof_e2e import expect, spawn

# Of 3.15, from its own table: thread_state.current_frame and .last_profiled_frame.
CURRENT_FRAME, LAST_PROFILED_FRAME = 72, 88

# The interpreter runs this before the program.
SAY = """
import ctypes, sys
get = ctypes.pythonapi.PyThreadState_Get
get.restype = ctypes.c_void_p
print(get(), file=sys.stderr, flush=True)
"""

# argv: pid, where to read a word, where to write it: a thousand times a second.
WRITER = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
class IoVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
pid, read, write = map(int, sys.argv[1:])
word = ctypes.c_uint64()
here = IoVec(ctypes.addressof(word), 8)
there, back = IoVec(read, 8), IoVec(write, 8)
print("ready", flush=True)
while libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0) == 8:
    if libc.process_vm_writev(pid, ctypes.byref(here), 1, ctypes.byref(back), 1, 0) != 8:
        break
    time.sleep(0.001)
"""


def start(interpreter, program, *args, **kwargs):
    """As pythons.start(); returns the process and the address of its main thread's state."""
    site = pythons.place(interpreter, SAY, "sitecustomize.py")
    process = pythons.start(interpreter, program, *args, stderr=subprocess.PIPE,
                            env={"PYTHONPATH": os.path.dirname(site)}, **kwargs)
    line = process.stderr.readline()
    expect(line.strip().isdigit(), f"no thread state: {line!r}")
    return process, int(line)


def word(pid, address):
    """Eight bytes of another process."""
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        return int.from_bytes(memory.read(ctypes.sizeof(ctypes.c_uint64)), sys.byteorder)


def start_writer(pid, tstate):
    """Something that keeps last_profiled_frame at the current frame, as caching profilers do."""
    writer = spawn([sys.executable, "-c", WRITER, str(pid), str(tstate + CURRENT_FRAME),
                    str(tstate + LAST_PROFILED_FRAME)], stdout=subprocess.PIPE, text=True)
    expect(writer.stdout.readline() == "ready\n", "the writer did not begin")
    return writer
