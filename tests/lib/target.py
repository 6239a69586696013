# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Compiling test programs for this machine's architecture, or for another by cross tools.

Architectures are named as the Makefile names them: x86, s390.
"""
import os
import subprocess

from rprof_e2e import FRAMES_OF as FRAMES
from rprof_e2e import HERE, ROOT, WORKLOADS, Skip, expect

# clang 14 makes no unwind tables for C on s390x by default, GCC and clang on x86-64 do.
TABLES = ["-fasynchronous-unwind-tables"]


def sysroot():
    done = subprocess.run([os.path.join(ROOT, "scripts", "s390x-sysroot.sh")], text=True,
                          capture_output=True, check=False)
    if done.returncode == 77:
        raise Skip(done.stderr.strip().split("\n")[-1])
    expect(done.returncode == 0, f"s390x-sysroot.sh: {done.stderr}")
    return done.stdout.strip()


def compiler(arch, name):
    """The command of "gcc" or "clang" that makes programs of @arch."""
    if arch == HERE:
        return [name]
    expect(arch == "s390", f"no cross compiler for {arch} here")
    if name == "gcc":
        return ["s390x-linux-gnu-gcc", f"--sysroot={sysroot()}"]
    return ["clang", "-target", "s390x-linux-gnu", f"--sysroot={sysroot()}"]


def build(source, program, arch=HERE, name="gcc", flags=None):
    """Compile @source (of tests/workloads, or generated) to @program, with frames unless @flags."""
    path = source if os.path.isabs(source) else os.path.join(WORKLOADS, source)
    flags = FRAMES[arch] if flags is None else flags
    done = subprocess.run([*compiler(arch, name), "-O2", f"-I{WORKLOADS}", *TABLES, *flags, path,
                           "-o", program, "-pthread"], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"{name} for {arch}: {path}: {done.stderr}")
    return program
