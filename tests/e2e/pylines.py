#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Lines of Python code (issue 4, section 2): for every instruction of every code object of the
standard library, what our decoder says is what the interpreter itself says. Needs no root."""
import glob
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from rprof_e2e import FULL, ROOT, expect, main, note, scratch
import pythons

# Run by each interpreter. Its own compiler makes the tables, and its own methods say the lines;
# test_python_lines.c says how a code object is written.
DUMP = r"""
import array, dis, os, struct, sys, sysconfig, types, warnings

warnings.simplefilter("ignore")
out = sys.stdout.buffer


def lines(code):
    units = len(code.co_code) // 2
    if hasattr(code, "co_positions"):
        return [p[0] or 0 for p in code.co_positions()]
    found = [0] * units
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            found[start // 2:end // 2] = [line or 0] * (end // 2 - start // 2)
        return found
    starts = list(dis.findlinestarts(code)) + [(2 * units, None)]
    for (start, line), (end, _) in zip(starts, starts[1:]):
        found[start // 2:end // 2] = [line] * (end // 2 - start // 2)
    return found


def dump(code):
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    found = array.array("i", lines(code))
    out.write(struct.pack("=IiII", sys.hexversion >> 16, code.co_firstlineno, len(table),
                          len(found)) + table + found.tobytes())
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            dump(const)


top = sysconfig.get_path("stdlib")
for folder, below, names in os.walk(top):
    below[:] = [b for b in below if b not in ("site-packages", "dist-packages", "test")]
    for name in names:
        if name.endswith(".py"):
            path = os.path.join(folder, name)
            try:
                with open(path, "rb") as file:
                    code = compile(file.read(), path, "exec", dont_inherit=True)
            except (OSError, SyntaxError, ValueError):
                continue
            dump(code)
# Longer than anything that a buffer was made for.
dump(compile("\n".join("x%d = f(%d,\n\n a=[%d, b])" % (i, i, i) for i in range(20000)), "long", "exec"))
"""


@pythons.each(timeout=300, only=lambda name: FULL or name == "debian-3.11")
def every_instruction_has_the_line_the_interpreter_gives_it(interpreter):
    program = glob.glob(os.path.join(ROOT, "build", "*", "tests", "unit", "test_python_lines"))
    expect(program, "build/*/tests/unit/test_python_lines is not built: make tests")
    path = scratch(interpreter.name)
    with open(path, "wb") as file:
        subprocess.run([*interpreter.argv, "-c", DUMP], stdout=file, check=True, timeout=200,
                       env=pythons.environment())
    done = subprocess.run([program[0], path], stdout=subprocess.PIPE, text=True, check=False,
                          timeout=200)
    os.unlink(path)
    note(f"{interpreter.name}: {done.stdout.strip()}")
    expect(done.returncode == 0, f"exit status {done.returncode}")
    expect(int(done.stdout.split()[0]) > 3000, "that is not the standard library")


if __name__ == "__main__":
    sys.exit(main(needs_profiler=False))
